package resp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"engine_race/cluster/testkit"
)

// certificate makes one for 127.0.0.1, and the pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "n"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, pool
}

func TestTLS(t *testing.T) {
	own, pool := certificate(t)
	server, _, address := start(t, Options{TLS: &tls.Config{Certificates: []tls.Certificate{own}}})
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, conn)
	text, count := "", 300
	for i := range uint64(count) {
		text += encode("SET", keyText(i), valueText(i, 1)) + encode("GET", keyText(i))
	}
	p.sendAll(text)
	for i := range uint64(count) {
		if got := p.reply(); got != "+OK" {
			t.Fatalf("SET %d: %q", i, got)
		}
		if got := p.reply(); got != valueText(i, 1) {
			t.Fatalf("GET %d: %.80q", i, got)
		}
	}
	if got := p.do("QUIT"); got != "+OK" {
		t.Errorf("QUIT: %q", got)
	}
	if err := p.ended(); err != nil {
		t.Error(err)
	}
	plain := dial(t, address)
	plain.send(encode("PING"))
	testkit.Eventually(t, "a client without TLS is refused", func() bool {
		return server.Counters().HandshakesFailed.Load() == 1
	})
}

func TestTLSShutdownAndRefusal(t *testing.T) {
	own, pool := certificate(t)
	server, _, address := start(t, Options{Limits: Limits{Clients: 1},
		TLS: &tls.Config{Certificates: []tls.Certificate{own}}})
	open := func() *peer {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool})
		if err != nil {
			t.Fatal(err)
		}
		return newPeer(t, conn)
	}
	first := open()
	first.do("PING")
	if got := open().reply(); got != "-ERR max number of clients reached" {
		t.Errorf("the second client: %q", got)
	}
	if err := server.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := first.ended(); err != nil {
		t.Error(err)
	}
}

func TestGoRedis(t *testing.T) {
	_, store, address := start(t, Options{Users: passwords()})
	for _, protocol := range []int{2, 3} {
		store.mutex.Lock()
		clear(store.records)
		store.mutex.Unlock()
		client := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol,
			Username: "ann", Password: "word", ClientName: "tester"})
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := client.Set(ctx, keyText(1), valueText(1, 1), 0).Err(); err != nil {
			t.Fatalf("protocol %d: SET: %v", protocol, err)
		}
		if got, err := client.Get(ctx, keyText(1)).Result(); err != nil || got != valueText(1, 1) {
			t.Errorf("GET: %.80q %v", got, err)
		}
		if _, err := client.Get(ctx, keyText(2)).Result(); err != redis.Nil {
			t.Errorf("GET of an absent key: %v", err)
		}
		if err := client.Set(ctx, "k", "v", 0).Err(); err == nil ||
			!strings.Contains(err.Error(), "not 1 and 1") {
			t.Errorf("SET of wrong sizes: %v", err)
		}
		if err := client.Set(ctx, keyText(1), valueText(1, 1), time.Minute).Err(); err == nil {
			t.Error("SET with a time-out was accepted")
		}
		pipeline := client.Pipeline()
		gets := make([]*redis.StringCmd, 100)
		for i := range gets {
			pipeline.Set(ctx, keyText(uint64(i)), valueText(uint64(i), protocol), 0)
			gets[i] = pipeline.Get(ctx, keyText(uint64(i)))
		}
		if _, err := pipeline.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		for i, get := range gets {
			if get.Val() != valueText(uint64(i), protocol) {
				t.Errorf("pipelined GET %d: %.80q", i, get.Val())
			}
		}
		if size := client.DBSize(ctx).Val(); size != 100 {
			t.Errorf("DBSIZE: %d", size)
		}
		if infos, err := client.Command(ctx).Result(); err != nil || infos["get"].Arity != 2 {
			t.Errorf("COMMAND: %v", err)
		}
		if deleted := client.Del(ctx, keyText(1), keyText(1000)).Val(); deleted != 1 {
			t.Errorf("DEL: %d", deleted)
		}
	}
}

func TestRedisCLI(t *testing.T) {
	program, err := exec.LookPath("redis-cli")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("redis-cli is missing: install redis-tools")
		}
		t.Skip("redis-cli is missing: install redis-tools")
	}
	_, _, address := start(t, Options{Users: passwords()})
	_, port, _ := strings.Cut(address, ":")
	run := func(input string, arguments ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		command := exec.CommandContext(ctx, program, append([]string{"-p", port, "--no-auth-warning",
			"-a", "secret"}, arguments...)...)
		command.Stdin = strings.NewReader(input)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("redis-cli %.80q: %v: %s", arguments, err, output)
		}
		return strings.TrimSuffix(string(output), "\n")
	}
	value := valueText(1, 1)
	for _, test := range []struct {
		expected  string
		input     string
		arguments []string
	}{
		{"PONG", "", []string{"PING"}},
		{"OK", value, []string{"-x", "SET", keyText(1)}},
		{value, "", []string{"GET", keyText(1)}},
		{"ERR a key has 8 bytes and a value 4096, not 1 and 1\n", "", []string{"SET", "a", "b"}},
		{keyText(1), "", []string{"--scan", "--pattern", "k*"}},
		{"1", "", []string{"EXISTS", keyText(1)}},
		{keyText(1) + "\n" + value, "", []string{"RANGE", "-", "+", "LIMIT", "5"}},
		{"1", "", []string{"DEL", keyText(1)}},
		{"", "", []string{"GET", keyText(1)}},
		{"PONG\n0", "PING\nDBSIZE\n", nil},
	} {
		got := run(test.input, test.arguments...)
		if got != test.expected {
			t.Errorf("%.80q: got %.200q, expected %.200q", test.arguments, got, test.expected)
		}
	}
	piped := encode("SET", keyText(2), value) + encode("PING")
	if got := run(piped, "--pipe"); !strings.Contains(got, "errors: 0, replies: 2") {
		t.Errorf("--pipe: %q", got)
	}
}
