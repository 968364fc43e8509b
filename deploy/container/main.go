package main

import (
	"flag"
	"log/slog"
	"os"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	mayForward := flag.Bool("forward", false, "turn on forwarding in this network namespace; not for a pod with hostNetwork")
	flag.Usage = func() {
		slog.Error("usage: tolbooth-container [-forward] COMMAND [ARGUMENT…]")
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := prepare(*mayForward); err != nil {
		slog.Error("prepare container", "error", err)
		os.Exit(1)
	}
	code, err := supervise(flag.Args())
	if err != nil {
		slog.Error("supervise agent", "error", err)
		os.Exit(1)
	}
	os.Exit(code)
}
