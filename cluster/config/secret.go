package config

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"engine_race/cluster/files"
)

const (
	secretBytes = 32 // of a new secret, before it is written as hexadecimal digits
	// The fewest characters of a secret that people choose.
	leastSecret = 16
)

// Secret gives the text that authenticates calls of nodes and operators. Nodes with mutual TLS need
// none: without secret_file theirs is empty. All nodes of a cluster have the same secret.
func (c *Config) Secret() (string, error) {
	path, err := c.secretPath()
	if err != nil || path == "" {
		return "", err
	}
	text, info, err := readBounded(path)
	if err != nil {
		return "", fmt.Errorf("secret_file: %w", err)
	}
	if err := checkMode("secret_file", path, info); err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	printable := strings.IndexFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
	if len(secret) < leastSecret || !printable {
		return "", fmt.Errorf("secret_file: %s is no line of at least %d printable characters"+
			" without spaces", path, leastSecret)
	}
	return secret, nil
}

// MakeSecret makes the file of the secret if it is missing. Several nodes of one machine may do so
// at once: they then share the first one's.
func (c *Config) MakeSecret() error {
	path, err := c.secretPath()
	if err != nil || path == "" {
		return err
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := files.MakeDirectory(filepath.Dir(path)); err != nil {
		return fmt.Errorf("secret_file: %w", err)
	}
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // It never fails.
	err = files.WriteNew(path, []byte(hex.EncodeToString(random)+"\n"))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("secret_file: %w", err)
	}
	return nil
}

// secretPath is empty if certificates alone authenticate calls.
func (c *Config) secretPath() (string, error) {
	if c.SecretFile != "" || c.HasPeerTLS() {
		return c.SecretFile, nil
	}
	directory, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("secret_file: must be set, for the user has no home: %w", err)
	}
	return filepath.Join(directory, "engine-raced", "secret"), nil
}
