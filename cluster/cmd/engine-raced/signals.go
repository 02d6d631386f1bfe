package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// survive keeps the node running when its terminal or the reader of its log goes away: it would die
// without a drain. SIGHUP asks other programs to read their settings again. Here it does nothing,
// for certificates are read again when their files change.
func survive(logger *slog.Logger) {
	signal.Ignore(syscall.SIGPIPE)
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	go func() {
		for range hangUps {
			logger.Info("SIGHUP is ignored: SIGTERM stops the node")
		}
	}()
}
