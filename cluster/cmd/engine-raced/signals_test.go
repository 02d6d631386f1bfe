package main

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// survivorVariable makes the test's program a node without a terminal: it names a file.
const survivorVariable = "ENGINE_RACED_SURVIVOR"

// runSurvivor gets SIGHUP, and writes to a standard error stream that nobody reads. Then it makes
// the file.
func runSurvivor(path string) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	survive(logger)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		os.Exit(1)
	}
	for range 3 {
		logger.Error("nobody reads this")
	}
	if err := os.WriteFile(path, []byte("alive"), 0o600); err != nil {
		os.Exit(1)
	}
}

func TestANodeOutlivesItsTerminal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alive")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	survivor := exec.Command(os.Args[0])
	survivor.Env = append(os.Environ(), survivorVariable+"="+path)
	survivor.Stderr = writer
	err = survivor.Run()
	writer.Close()
	if text, readErr := os.ReadFile(path); err != nil || !strings.Contains(string(text), "alive") {
		t.Errorf("the process ended: %v, %v", err, readErr)
	}
}
