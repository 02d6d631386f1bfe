package config

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"engine_race/cluster/config/testtls"
)

// issue makes a certificate for 127.0.0.1 and returns the settings for it.
func issue(t *testing.T, authority *testtls.Authority, name string) TLS {
	t.Helper()
	pair, err := authority.Issue(name, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return TLS{PeerCA: authority.CAPath, PeerCert: pair.CertPath, PeerKey: pair.KeyPath,
		ClientCert: pair.CertPath, ClientKey: pair.KeyPath}
}

func newAuthority(t *testing.T) *testtls.Authority {
	t.Helper()
	authority, err := testtls.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// connect makes one connection in which the server sends a byte. It returns the client's state.
func connect(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	deadline := time.Now().Add(20 * time.Second)
	served := make(chan struct{})
	go func() {
		defer close(served)
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		_ = connection.SetDeadline(deadline)
		_, _ = tls.Server(connection, server).Write([]byte{1})
	}()
	defer func() { <-served }()
	connection, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		listener.Close()
		t.Fatal(err)
	}
	defer connection.Close()
	_ = connection.SetDeadline(deadline)
	client = client.Clone()
	client.ServerName = "127.0.0.1"
	secured := tls.Client(connection, client)
	// A TLS 1.3 server refuses the client's certificate only after the client's handshake ended.
	_, err = io.ReadFull(secured, make([]byte, 1))
	return secured.ConnectionState(), err
}

func TestPeerTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	node := &Config{TLS: issue(t, ours, "node")}
	other := &Config{TLS: issue(t, ours, "other")}
	stranger := &Config{TLS: issue(t, theirs, "stranger")}
	server, _, err := node.PeerTLS()
	if err != nil {
		t.Fatal(err)
	}
	_, friendly, err := other.PeerTLS()
	if err != nil {
		t.Fatal(err)
	}
	strangeServer, strangely, err := stranger.PeerTLS()
	if err != nil {
		t.Fatal(err)
	}
	friend, strange := friendly(), strangely()
	state, err := connect(t, server, friend)
	if err != nil || state.Version != tls.VersionTLS13 {
		t.Fatalf("a peer of our authority: %v, version %x", err, state.Version)
	}
	anonymous := &tls.Config{RootCAs: friend.RootCAs}
	impostor := &tls.Config{RootCAs: friend.RootCAs,
		GetClientCertificate: strange.GetClientCertificate}
	old := friend.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	refused := []struct {
		name           string
		server, client *tls.Config
	}{
		{"no certificate of the client", server, anonymous},
		{"a client of another authority", server, impostor},
		{"a server of another authority", strangeServer, friend},
		{"TLS 1.2", server, old},
	}
	for _, test := range refused {
		if _, err := connect(t, test.server, test.client); err == nil {
			t.Errorf("%s: was accepted", test.name)
		}
	}
}

func TestWithoutTLS(t *testing.T) {
	server, client, err := Default().PeerTLS()
	if server != nil || client != nil || err != nil {
		t.Errorf("peer TLS is %v, %v, %v", server, client != nil, err)
	}
	if server, err := Default().ClientTLS(); server != nil || err != nil {
		t.Errorf("client TLS is %v, %v", server, err)
	}
}

func TestClientTLS(t *testing.T) {
	authority := newAuthority(t)
	c := &Config{TLS: issue(t, authority, "node")}
	_, withCertificate, err := c.PeerTLS()
	if err != nil {
		t.Fatal(err)
	}
	anonymous := &tls.Config{RootCAs: withCertificate().RootCAs}
	open, err := c.ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, open, anonymous); err != nil {
		t.Errorf("without client_ca a client without a certificate gets: %v", err)
	}
	c.TLS.ClientCA = authority.CAPath
	closed, err := c.ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, closed, anonymous); err == nil {
		t.Error("with client_ca a client without a certificate is accepted")
	}
	if _, err := connect(t, closed, withCertificate()); err != nil {
		t.Errorf("with client_ca a client with a certificate gets: %v", err)
	}
}

func TestRenewalWithoutRestart(t *testing.T) {
	authority := newAuthority(t)
	c := &Config{TLS: issue(t, authority, "node")}
	server, client, err := c.PeerTLS()
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		state, err := connect(t, server, client())
		if err != nil {
			t.Fatal(err)
		}
		return state.PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	if again := serial(); again != first {
		t.Fatal("the certificate changed while its file did not")
	}
	issue(t, authority, "node")
	second := serial()
	if second == first {
		t.Fatal("the renewed certificate is not used")
	}
	own, err := client().GetClientCertificate(nil)
	if err != nil || own.Leaf.SerialNumber.String() != second {
		t.Errorf("the client does not use the renewed certificate: %v", err)
	}
	if err := os.WriteFile(c.TLS.PeerCert, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != second {
		t.Error("a bad file replaced the good certificate")
	}
	if err := os.Remove(c.TLS.PeerCert); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != second {
		t.Error("a missing file replaced the good certificate")
	}
	issue(t, authority, "node")
	if got := serial(); got == second {
		t.Error("after bad files a good one is not used")
	}
}

// copyFile replaces a file by another one in one step.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(to+".new", to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestANewAuthorityIsTakenWithoutRestart(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	c := &Config{TLS: issue(t, ours, "node")}
	server, client, err := c.PeerTLS()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, server, client()); err != nil {
		t.Fatal(err)
	}
	next := issue(t, theirs, "node")
	_, renewed, err := (&Config{TLS: next}).PeerTLS()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, server, renewed()); err == nil {
		t.Fatal("a client of another authority is accepted")
	}
	copyFile(t, next.PeerCA, c.TLS.PeerCA)
	copyFile(t, next.PeerKey, c.TLS.PeerKey)
	copyFile(t, next.PeerCert, c.TLS.PeerCert)
	if _, err := connect(t, server, renewed()); err != nil {
		t.Errorf("the server does not take the new authority: %v", err)
	}
	if _, err := connect(t, server, client()); err != nil {
		t.Errorf("the client does not take the new authority: %v", err)
	}
}

func TestExpiriesFollowTheFiles(t *testing.T) {
	authority := newAuthority(t)
	c := &Config{TLS: issue(t, authority, "node")}
	expiries, err := c.CertificateExpiries()
	if err != nil {
		t.Fatal(err)
	}
	before := expiries()
	for _, setting := range []string{"peer_ca", "peer_cert", "client_cert"} {
		if before[setting].Before(time.Now()) {
			t.Errorf("%s expires at %v", setting, before[setting])
		}
	}
	if len(before) != 3 {
		t.Errorf("%d expiries: %v", len(before), before)
	}
	authority.Validity = time.Hour
	issue(t, authority, "node")
	if after := expiries()["peer_cert"]; !after.Before(before["peer_cert"]) {
		t.Errorf("a renewed certificate ends at %v, not before %v", after, before["peer_cert"])
	}
}

func TestBadTLSFiles(t *testing.T) {
	authority := newAuthority(t)
	good := issue(t, authority, "node")
	other := issue(t, authority, "other")
	for name, change := range map[string]func(*TLS){
		"missing authority":        func(s *TLS) { s.PeerCA = "/nonexistent" },
		"authority without PEM":    func(s *TLS) { s.PeerCA = "/dev/null" },
		"missing certificate":      func(s *TLS) { s.PeerCert = "/nonexistent" },
		"missing key":              func(s *TLS) { s.PeerKey = "/nonexistent" },
		"key of another":           func(s *TLS) { s.PeerKey = other.PeerKey },
		"authority as certificate": func(s *TLS) { s.PeerCert = authority.CAPath },
	} {
		settings := good
		change(&settings)
		if _, _, err := (&Config{TLS: settings}).PeerTLS(); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
}
