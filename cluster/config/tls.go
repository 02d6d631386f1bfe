package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// PeerTLS returns the two sides of connections between nodes: mutual TLS 1.3, with certificates
// that tls.peer_ca signed. Operators use the client's side. Both are nil without peer TLS. A
// node's certificate must permit server and client authentication and name the node's hosts.
func (c *Config) PeerTLS() (server, client *tls.Config, err error) {
	if !c.HasPeerTLS() {
		return nil, nil, nil
	}
	pool, err := loadPool("tls.peer_ca", c.TLS.PeerCA)
	if err != nil {
		return nil, nil, err
	}
	own, err := newRenewable("tls.peer_cert", "tls.peer_key", c.TLS.PeerCert, c.TLS.PeerKey)
	if err != nil {
		return nil, nil, err
	}
	server = &tls.Config{
		MinVersion:     tls.VersionTLS13,
		ClientAuth:     tls.RequireAndVerifyClientCert,
		ClientCAs:      pool,
		GetCertificate: own.forServer,
	}
	client = &tls.Config{
		MinVersion:           tls.VersionTLS13,
		RootCAs:              pool,
		GetClientCertificate: own.forClient,
	}
	return server, client, nil
}

// ClientTLS returns the server's side of connections with clients: TLS 1.2 or newer. With
// tls.client_ca, clients need a certificate of that authority. It is nil without client TLS.
func (c *Config) ClientTLS() (*tls.Config, error) {
	if !c.HasClientTLS() {
		return nil, nil
	}
	own, err := newRenewable("tls.client_cert", "tls.client_key", c.TLS.ClientCert,
		c.TLS.ClientKey)
	if err != nil {
		return nil, err
	}
	server := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: own.forServer}
	if c.TLS.ClientCA == "" {
		return server, nil
	}
	if server.ClientCAs, err = loadPool("tls.client_ca", c.TLS.ClientCA); err != nil {
		return nil, err
	}
	server.ClientAuth = tls.RequireAndVerifyClientCert
	return server, nil
}

func loadPool(setting, path string) (*x509.CertPool, error) {
	text, _, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: %s has no certificate in PEM format", setting, path)
	}
	return pool, nil
}

// renewable is a certificate with its key. Each handshake checks whether their files changed, and
// reads them again if so. It keeps the last good pair while the files are bad.
type renewable struct {
	certSetting, keySetting string
	certPath, keyPath       string

	mutex   sync.Mutex
	current *tls.Certificate
	tried   [2]os.FileInfo // the files of the last attempt to read, good or bad
}

func newRenewable(certSetting, keySetting, certPath, keyPath string) (*renewable, error) {
	r := &renewable{certSetting: certSetting, keySetting: keySetting, certPath: certPath,
		keyPath: keyPath}
	if err := r.renew(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *renewable) forServer(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return r.get(), nil
}

func (r *renewable) forClient(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return r.get(), nil
}

func (r *renewable) get() *tls.Certificate {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if err := r.renew(); err != nil {
		slog.Warn("a renewed certificate is bad; the previous one stays in use",
			"error", err.Error())
	}
	return r.current
}

// renew reads the files if they changed since the last attempt. So a bad file is reported once.
func (r *renewable) renew() error {
	certInfo, certErr := os.Stat(r.certPath)
	keyInfo, keyErr := os.Stat(r.keyPath)
	found := [2]os.FileInfo{certInfo, keyInfo}
	if r.current != nil && sameFile(found[0], r.tried[0]) && sameFile(found[1], r.tried[1]) {
		return nil
	}
	r.tried = found
	if certErr != nil {
		return fmt.Errorf("%s: %w", r.certSetting, certErr)
	}
	if keyErr != nil {
		return fmt.Errorf("%s: %w", r.keySetting, keyErr)
	}
	if err := checkMode(r.keySetting, r.keyPath, keyInfo); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(r.certPath, r.keyPath)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", r.certSetting, r.keySetting, err)
	}
	if pair.Leaf == nil {
		return errors.New(r.certSetting + ": has no certificate")
	}
	r.current = &pair
	return nil
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
