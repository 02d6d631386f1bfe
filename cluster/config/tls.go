package config

import (
	"crypto/tls"
	"time"
)

// PeerTLS returns the two sides of connections between nodes: mutual TLS 1.3, with certificates
// that tls.peer_ca signed. Operators use the client's side. It is called for each connection, so
// that it has the authority of the file as it is then. Both are nil without peer TLS. A node's
// certificate must permit server and client authentication and name the node's hosts.
func (c *Config) PeerTLS() (server *tls.Config, client func() *tls.Config, err error) {
	if !c.HasPeerTLS() {
		return nil, nil, nil
	}
	authority, err := renewablePool("tls.peer_ca", c.TLS.PeerCA)
	if err != nil {
		return nil, nil, err
	}
	own, err := renewablePair("tls.peer_cert", "tls.peer_key", c.TLS.PeerCert, c.TLS.PeerKey)
	if err != nil {
		return nil, nil, err
	}
	server = withClientAuthority(&tls.Config{MinVersion: tls.VersionTLS13,
		GetCertificate: forServer(own)}, authority)
	client = func() *tls.Config {
		return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: authority.get().pool,
			GetClientCertificate: forClient(own)}
	}
	return server, client, nil
}

// ClientTLS returns the server's side of connections with clients: TLS 1.2 or newer. With
// tls.client_ca, clients need a certificate of that authority. It is nil without client TLS.
func (c *Config) ClientTLS() (*tls.Config, error) {
	if !c.HasClientTLS() {
		return nil, nil
	}
	own, err := renewablePair("tls.client_cert", "tls.client_key", c.TLS.ClientCert,
		c.TLS.ClientKey)
	if err != nil {
		return nil, err
	}
	server := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: forServer(own)}
	if c.TLS.ClientCA == "" {
		return server, nil
	}
	authority, err := renewablePool("tls.client_ca", c.TLS.ClientCA)
	if err != nil {
		return nil, err
	}
	return withClientAuthority(server, authority), nil
}

// withClientAuthority lets the server demand certificates of the authority, as its file is when a
// client connects.
func withClientAuthority(server *tls.Config, authority *renewable[authorities]) *tls.Config {
	server.ClientAuth = tls.RequireAndVerifyClientCert
	server.ClientCAs = authority.get().pool
	server.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := server.Clone()
		current.ClientCAs = authority.get().pool
		return current, nil
	}
	return server
}

func forServer(own *renewable[*tls.Certificate]) func(*tls.ClientHelloInfo) (*tls.Certificate,
	error) {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own.get(), nil }
}

func forClient(own *renewable[*tls.Certificate]) func(*tls.CertificateRequestInfo) (
	*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own.get(), nil }
}

// CertificateExpiries gives a function that tells when each certificate of the settings expires,
// by the setting's name. It reads a file again when it has changed.
func (c *Config) CertificateExpiries() (func() map[string]time.Time, error) {
	ends := map[string]func() time.Time{}
	for setting, path := range map[string]string{"peer_ca": c.TLS.PeerCA,
		"client_ca": c.TLS.ClientCA} {
		if path == "" {
			continue
		}
		all, err := renewablePool("tls."+setting, path)
		if err != nil {
			return nil, err
		}
		ends[setting] = func() time.Time { return all.get().ends }
	}
	for setting, paths := range map[string][2]string{
		"peer_cert":   {c.TLS.PeerCert, c.TLS.PeerKey},
		"client_cert": {c.TLS.ClientCert, c.TLS.ClientKey},
	} {
		if paths[0] == "" {
			continue
		}
		pair, err := renewablePair("tls."+setting, "its key", paths[0], paths[1])
		if err != nil {
			return nil, err
		}
		ends[setting] = func() time.Time { return pair.get().Leaf.NotAfter }
	}
	return func() map[string]time.Time {
		now := map[string]time.Time{}
		for setting, end := range ends {
			now[setting] = end()
		}
		return now
	}, nil
}
