package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const hashPrefix = "sha256:"

// Users has the SHA-256 of each user's password, by user name. The user of `AUTH password` without
// a name is "default". An empty Users asks no client for a password.
type Users map[string][sha256.Size]byte

// Users reads the password file, if there is one, and returns its users and those of auth.users.
// It fails if others can read the file, if a line is malformed, or if the file has no user.
func (c *Config) Users() (Users, error) {
	users, err := c.parseUsers()
	if err != nil || c.Auth.PasswordFile == "" {
		return users, err
	}
	if err := users.addFile(c.Auth.PasswordFile); err != nil {
		return nil, fmt.Errorf("auth.password_file: %w", err)
	}
	return users, nil
}

func (c *Config) parseUsers() (Users, error) {
	users := make(Users)
	for _, name := range slices.Sorted(maps.Keys(c.Auth.Users)) {
		if err := users.add(name, c.Auth.Users[name]); err != nil {
			return nil, fmt.Errorf("auth.users: %w", err)
		}
	}
	return users, nil
}

// add takes "sha256:<hex>". Errors are logged, so none has the hash.
func (u Users) add(name, hash string) error {
	if name == "" || strings.ContainsAny(name, ": \t\r\n") {
		return fmt.Errorf("user %q: a name has no spaces and no colons", name)
	}
	if _, taken := u[name]; taken {
		return fmt.Errorf("user %q is defined twice", name)
	}
	digits, found := strings.CutPrefix(hash, hashPrefix)
	sum, err := hex.DecodeString(digits)
	if !found || err != nil || len(sum) != sha256.Size {
		return fmt.Errorf("user %q: the password is not sha256: and 64 hexadecimal digits", name)
	}
	u[name] = [sha256.Size]byte(sum)
	return nil
}

// addFile takes lines "user:sha256:<hex>". It skips empty lines and lines that begin with #.
func (u Users) addFile(path string) error {
	text, info, err := readBounded(path)
	if err != nil {
		return err
	}
	if err := checkMode("mode", path, info); err != nil {
		return err
	}
	count := 0
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, found := strings.Cut(line, ":")
		if !found {
			// The line may be a password.
			return fmt.Errorf("%s line %d: is not user:sha256:<hex>", path, i+1)
		}
		if err := u.add(name, hash); err != nil {
			return fmt.Errorf("%s line %d: %w", path, i+1, err)
		}
		count++
	}
	if count == 0 {
		return fmt.Errorf("%s has no user", path)
	}
	return nil
}
