package main

import (
	"log/slog"
	"os"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	if len(os.Args) < 2 {
		slog.Error("usage: tolbooth-container COMMAND [ARGUMENT…]")
		os.Exit(2)
	}
	if err := prepare(); err != nil {
		slog.Error("prepare container", "error", err)
		os.Exit(1)
	}
	code, err := supervise(os.Args[1:])
	if err != nil {
		slog.Error("supervise agent", "error", err)
		os.Exit(1)
	}
	os.Exit(code)
}
