package agent

import (
	"io"
	"log/slog"
)

// The keys of log lines. What a job prints never enters the log.
const (
	keyJob  = "job"
	keyMode = "mode"
	keyErr  = "err"
)

// NewLogger writes JSON lines of the given level (debug, info, warn, error) and above.
func NewLogger(w io.Writer, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // LoadConfig refused anything else
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l}))
}
