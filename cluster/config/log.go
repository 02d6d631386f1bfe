package config

import (
	"fmt"
	"io"
	"log/slog"
)

func (c *Config) checkLog() error {
	switch c.Log.Level {
	case "debug", "info", "warn", "error":
	default:
		return fmt.Errorf("log.level: %q is not debug, info, warn or error", c.Log.Level)
	}
	if c.Log.Format != "json" && c.Log.Format != "text" {
		return fmt.Errorf("log.format: %q is not json or text", c.Log.Format)
	}
	return nil
}

// NewLogger returns a logger with the level and format of the settings. The program gives it the
// standard error stream. Messages carry the node's id.
func (c *Config) NewLogger(out io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Log.Level)); err != nil {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewJSONHandler(out, options)
	if c.Log.Format == "text" {
		handler = slog.NewTextHandler(out, options)
	}
	return slog.New(handler).With("node", c.NodeID)
}
