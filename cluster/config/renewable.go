package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// renewable is what one or more files contain. Each call of get checks whether the files changed,
// and reads them again if so. It keeps the last good contents while the files are bad.
type renewable[T any] struct {
	settings, paths []string
	load            func(files []os.FileInfo) (T, error)

	mutex   sync.Mutex
	loaded  bool
	current T
	tried   []os.FileInfo // the files of the last attempt to read, good or bad
}

// first reads the files for the first time.
func (r *renewable[T]) first() (*renewable[T], error) {
	if err := r.renew(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *renewable[T]) get() T {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if err := r.renew(); err != nil {
		slog.Warn("a renewed certificate is bad; the previous one stays in use",
			"error", err.Error())
	}
	return r.current
}

// renew reads the files if they changed since the last attempt. So a bad file is reported once.
func (r *renewable[T]) renew() error {
	found := make([]os.FileInfo, len(r.paths))
	var missing error
	for i, path := range r.paths {
		info, err := os.Stat(path)
		if err != nil && missing == nil {
			missing = fmt.Errorf("%s: %w", r.settings[i], err)
		}
		found[i] = info
	}
	if r.loaded && slices.EqualFunc(found, r.tried, sameFile) {
		return nil
	}
	r.tried = found
	if missing != nil {
		return missing
	}
	contents, err := r.load(found)
	if err != nil {
		return err
	}
	r.current, r.loaded = contents, true
	return nil
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// renewablePair is a certificate with its key.
func renewablePair(certSetting, keySetting, certPath, keyPath string) (
	*renewable[*tls.Certificate], error) {
	r := &renewable[*tls.Certificate]{settings: []string{certSetting, keySetting},
		paths: []string{certPath, keyPath}}
	r.load = func(files []os.FileInfo) (*tls.Certificate, error) {
		if err := checkMode(keySetting, keyPath, files[1]); err != nil {
			return nil, err
		}
		pair, err := tls.LoadX509KeyPair(certPath, keyPath)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", certSetting, keySetting, err)
		}
		if pair.Leaf == nil {
			return nil, errors.New(certSetting + ": has no certificate")
		}
		return &pair, nil
	}
	return r.first()
}

// authorities are the certificates of a file. They end when the first of them expires.
type authorities struct {
	pool *x509.CertPool
	ends time.Time
}

func renewablePool(setting, path string) (*renewable[authorities], error) {
	r := &renewable[authorities]{settings: []string{setting}, paths: []string{path}}
	r.load = func([]os.FileInfo) (authorities, error) {
		text, _, err := readBounded(path)
		if err != nil {
			return authorities{}, fmt.Errorf("%s: %w", setting, err)
		}
		all := authorities{pool: x509.NewCertPool()}
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "CERTIFICATE" {
				continue
			}
			one, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return authorities{}, fmt.Errorf("%s: %s: %w", setting, path, err)
			}
			all.pool.AddCert(one)
			if all.ends.IsZero() || one.NotAfter.Before(all.ends) {
				all.ends = one.NotAfter
			}
		}
		if all.ends.IsZero() {
			return authorities{}, fmt.Errorf("%s: %s has no certificate in PEM format", setting, path)
		}
		return all, nil
	}
	return r.first()
}
