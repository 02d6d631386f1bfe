package admin_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"engine_race/cluster/admin"
	"engine_race/cluster/service"
)

func TestHealth(t *testing.T) {
	control := &fakeControl{}
	server := start(t, admin.Options{Control: control, MetricsAddress: "127.0.0.1:0"})
	for _, address := range []string{server.Address(), server.MetricsAddress()} {
		url := "http://" + address
		control.set(func(f *fakeControl) { f.live, f.ready = nil, nil })
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				if code, body, _ := send(t, method, url+path, "", ""); code != http.StatusOK {
					t.Errorf("%s %s: %d %s", method, path, code, body)
				}
			}
		}
		control.set(func(f *fakeControl) { f.ready = errors.New("draining") })
		code, body, header := send(t, http.MethodGet, url+"/readyz", "", "")
		if code != 503 || !strings.Contains(body, "draining") || header.Get("Retry-After") == "" {
			t.Errorf("draining: %d %s", code, body)
		}
		if code, _, _ := send(t, http.MethodGet, url+"/healthz", "", ""); code != http.StatusOK {
			t.Errorf("a draining node is not alive: %d", code)
		}
		control.set(func(f *fakeControl) { f.live = errors.New("stuck") })
		code, body, _ = send(t, http.MethodGet, url+"/healthz", "", "")
		if code != 503 || !strings.Contains(body, "stuck") {
			t.Errorf("stuck: %d %s", code, body)
		}
	}
}

func TestMetricsAddressHasNothingElse(t *testing.T) {
	control := &fakeControl{}
	server := start(t, admin.Options{Control: control, MetricsAddress: "127.0.0.1:0"})
	server.Handle("/internal", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	url := "http://" + server.MetricsAddress()
	for _, path := range []string{"/", "/status", "/internal", "/debug/pprof/"} {
		if code, body, _ := send(t, http.MethodGet, url+path, "", ""); code != 404 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	code, _, _ := send(t, http.MethodPost, url+"/move-leader", "application/json",
		`{"shard":1,"node":1}`)
	if calls := control.takeCalls(); code != 404 || calls != "" {
		t.Errorf("an operator's call without TLS: %d, calls %q", code, calls)
	}
	code, _, _ = send(t, http.MethodPost, "http://"+server.Address()+"/internal", "", "")
	if code != http.StatusTeapot {
		t.Errorf("the added endpoint answers %d", code)
	}
}

func TestCallsThroughTheClient(t *testing.T) {
	control := &fakeControl{}
	root := t.TempDir()
	c := dial(t, start(t, admin.Options{Control: control, BackupDir: root}), nil)
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	status, err := c.Status(ctx)
	if err != nil || !reflect.DeepEqual(status, fakeStatus()) {
		t.Errorf("status: %+v, %v", status, err)
	}
	index, err := c.Snapshot(ctx, 5)
	if index != 42 {
		t.Errorf("snapshot: index %d", index)
	}
	comparison, compareErr := c.Compare(ctx, 6)
	if comparison.ShardID != 6 || comparison.Index != 7 {
		t.Errorf("compare: %+v", comparison)
	}
	backup, backupErr := c.Backup(ctx, root+"/b", root+"/a")
	restored, restoreErr := c.Restore(ctx, root+"/b")
	if backup.Records != 3 || restored.Bytes != 8192 {
		t.Errorf("reports: %+v, %+v", backup, restored)
	}
	err = errors.Join(err, compareErr, backupErr, restoreErr, c.AddReplica(ctx, 0, 2),
		c.RemoveReplica(ctx, 3, 4), c.MoveLeader(ctx, 5, 1<<63), c.MoveReplica(ctx, 6, 1, 2),
		c.Decommission(ctx, 8, true), c.Decommission(ctx, 8, false), c.Live(), c.Ready())
	created, splitErr := c.SplitShard(ctx, 2, 1<<63)
	if err = errors.Join(err, splitErr); err != nil || created != 9 {
		t.Fatal(created, err)
	}
	want := fmt.Sprintf("snapshot 5;compare 6;backup %[1]s/b since %[1]s/a;restore %[1]s/b;add 0 2;"+
		"remove 3 4;move 5 9223372036854775808;move replica 6 1 2;decommission 8 true;"+
		"decommission 8 false;split 2 at 8000000000000000", root)
	if got := control.takeCalls(); got != want {
		t.Errorf("calls\n%s, want\n%s", got, want)
	}
}

func TestErrorsKeepTheirMeaning(t *testing.T) {
	control := &fakeControl{}
	server := start(t, admin.Options{Control: control})
	c := dial(t, server, nil)
	cases := []struct {
		err, want error
		code      int
	}{
		{service.ErrUnknown, service.ErrUnknown, 504},
		{context.DeadlineExceeded, service.ErrUnknown, 504},
		{fmt.Errorf("%w: %w", service.ErrUnavailable, context.DeadlineExceeded),
			service.ErrUnavailable, 503},
		{fmt.Errorf("%w: %w", service.ErrUnavailable, service.ErrUnknown), service.ErrUnknown, 504},
		{service.ErrBusy, service.ErrBusy, 503},
		{service.ErrLoading, service.ErrLoading, 503},
		{service.ErrFull, service.ErrFull, 507},
		{service.ErrCorrupt, service.ErrCorrupt, 500},
		{fmt.Errorf("%w: replica exists", service.ErrConflict), service.ErrConflict, 409},
		{service.ErrInvalid, service.ErrInvalid, 400},
		{errors.New("novel"), service.ErrUnknown, 500},
	}
	for _, test := range cases {
		control.set(func(f *fakeControl) { f.err = test.err })
		code, body, _ := send(t, http.MethodPost, "http://"+server.Address()+"/move-leader",
			"application/json", `{"shard":1,"node":2}`)
		if code != test.code || !strings.Contains(body, test.err.Error()) {
			t.Errorf("%v: %d %s", test.err, code, body)
		}
		err := c.MoveLeader(context.Background(), 1, 2)
		if !errors.Is(err, test.want) {
			t.Errorf("%v became %v", test.err, err)
		}
	}
}

func TestBadRequests(t *testing.T) {
	control := &fakeControl{}
	url := "http://" + start(t, admin.Options{Control: control}).Address()
	const jsonKind = "application/json"
	cases := []struct {
		name, method, path, kind, body string
		code                           int
	}{
		{"GET of a call", "GET", "/move-leader", "", "", 405},
		{"PUT of a call", "PUT", "/move-leader", jsonKind, `{"shard":1,"node":1}`, 405},
		{"POST of a page", "POST", "/status", jsonKind, "{}", 405},
		{"no such endpoint", "GET", "/nothing", "", "", 404},
		{"no type", "POST", "/move-leader", "", `{"shard":1,"node":1}`, 415},
		{"type of a web form", "POST", "/move-leader", "text/plain", `{"shard":1,"node":1}`, 415},
		{"empty", "POST", "/move-leader", jsonKind, "", 400},
		{"no object", "POST", "/move-leader", jsonKind, "[1]", 400},
		{"half an object", "POST", "/move-leader", jsonKind, `{"shard":1,`, 400},
		{"two objects", "POST", "/move-leader", jsonKind, `{"shard":1,"node":1}{}`, 400},
		{"unknown field", "POST", "/move-leader", jsonKind, `{"shard":1,"node":1,"x":1}`, 400},
		{"no shard", "POST", "/move-leader", jsonKind, `{"node":1}`, 400},
		{"no target", "POST", "/move-replica", jsonKind, `{"shard":1,"from":2}`, 400},
		{"no key", "POST", "/split", jsonKind, `{"shard":1}`, 400},
		{"a key of 9 bytes", "POST", "/split", jsonKind, `{"shard":1,"key":"k00000001"}`, 400},
		{"no node", "POST", "/decommission", jsonKind, `{}`, 400},
		{"no node", "POST", "/add-replica", jsonKind, `{"shard":1}`, 400},
		{"node 0", "POST", "/remove-replica", jsonKind, `{"shard":1,"node":0}`, 400},
		{"negative shard", "POST", "/snapshot", jsonKind, `{"shard":-1}`, 400},
		{"no shard to snapshot", "POST", "/snapshot", jsonKind, `{}`, 400},
		{"too long", "POST", "/snapshot", jsonKind, strings.Repeat(" ", 65<<10) + "{}", 413},
		{"no backup_dir", "POST", "/backup", jsonKind, `{"directory":"/tmp/x"}`, 400},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			code, body, header := send(t, test.method, url+test.path, test.kind, test.body)
			if code != test.code || !strings.Contains(body, `{"error":"`) {
				t.Errorf("%d %s, want %d", code, body, test.code)
			}
			if code == 405 && header.Get("Allow") == "" {
				t.Error("the answer lacks Allow")
			}
			if calls := control.takeCalls(); calls != "" {
				t.Errorf("the call was made: %s", calls)
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	control := &fakeControl{}
	options := admin.Options{Control: control, BackupDir: t.TempDir(),
		Timeout: 50 * time.Millisecond}
	server := start(t, options)
	control.set(func(f *fakeControl) {
		f.wait = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	})
	err := dial(t, server, nil).MoveLeader(context.Background(), 1, 2)
	if !errors.Is(err, service.ErrUnknown) || !strings.Contains(err.Error(), "504") {
		t.Errorf("a call without end gives %v", err)
	}
	// A backup may take longer than the other calls, and longer than bodies.
	server = start(t, options.WithBodyTimeout(3*time.Second))
	control.set(func(f *fakeControl) {
		f.wait = func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return fmt.Errorf("cancelled: %w", ctx.Err())
			case <-time.After(4 * time.Second):
				return nil
			}
		}
	})
	_, err = dial(t, server, nil).Restore(context.Background(), options.BackupDir+"/x")
	if err != nil {
		t.Errorf("a long restore gives %v", err)
	}
}

func TestClientThatLeavesCancelsItsCall(t *testing.T) {
	control := &fakeControl{}
	c := dial(t, start(t, admin.Options{Control: control}), nil)
	begun, ended := make(chan struct{}), make(chan struct{})
	control.set(func(f *fakeControl) {
		f.wait = func(ctx context.Context) error {
			close(begun)
			<-ctx.Done()
			close(ended)
			return ctx.Err()
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	go func() { <-begun; cancel() }()
	if err := c.AddReplica(ctx, 1, 2); !errors.Is(err, service.ErrUnknown) {
		t.Errorf("the client got %v", err)
	}
	select {
	case <-ended:
	case <-time.After(testDeadline):
		t.Error("the call goes on")
	}
}

func TestShutdown(t *testing.T) {
	control := &fakeControl{}
	server := start(t, admin.Options{Control: control, MetricsAddress: "127.0.0.1:0"}.
		WithStopPatience(time.Millisecond))
	c := dial(t, server, nil)
	begun, release := make(chan struct{}), make(chan struct{})
	control.set(func(f *fakeControl) {
		f.wait = func(context.Context) error { close(begun); <-release; return nil }
	})
	answered := make(chan error, 1)
	go func() { answered <- c.AddReplica(context.Background(), 1, 2) }()
	<-begun
	short, cancel := context.WithCancel(context.Background())
	cancel()
	// The call goes on, so a shutdown without time must report that it did not wait.
	if err := server.Shutdown(short); !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown during a call: %v", err)
	}
	close(release)
	if err := <-answered; !errors.Is(err, service.ErrUnknown) {
		t.Errorf("a call that a shutdown cut gives %v", err)
	}
	if err := server.Start(); err == nil {
		t.Error("a stopped server starts")
	}
}

func TestShutdownWaits(t *testing.T) {
	long, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	over, end := context.WithCancel(context.Background())
	end()
	t.Run("in time", func(t *testing.T) { shutdownWaits(t, long) })
	t.Run("when its time is over", func(t *testing.T) { shutdownWaits(t, over) })
}

func shutdownWaits(t *testing.T, limit context.Context) {
	control := &fakeControl{}
	server := start(t, admin.Options{Control: control}.WithStopPatience(testDeadline))
	c := dial(t, server, nil)
	begun, release := make(chan struct{}), make(chan struct{})
	control.set(func(f *fakeControl) {
		f.wait = func(context.Context) error { close(begun); <-release; return nil }
	})
	answered := make(chan error, 1)
	go func() { answered <- c.AddReplica(context.Background(), 1, 2) }()
	<-begun
	stopped := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	go func() { stopped <- server.Shutdown(limit) }()
	for { // The port closes while the shutdown waits.
		connection, err := net.Dial("tcp", server.Address())
		if err != nil {
			break
		}
		connection.Close()
		if ctx.Err() != nil {
			t.Fatal("the shutdown leaves the port open")
		}
	}
	select {
	case err := <-stopped:
		t.Fatalf("the shutdown did not wait: %v", err)
	default:
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the call under way: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestMutualTLS(t *testing.T) {
	control := &fakeControl{}
	security, friend := peerTLS(t)
	_, stranger := peerTLS(t)
	server := start(t, admin.Options{Control: control, TLS: security,
		MetricsAddress: "127.0.0.1:0"})
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := dial(t, server, friend).MoveLeader(ctx, 1, 2); err != nil {
		t.Fatalf("a peer: %v", err)
	}
	if calls := control.takeCalls(); calls != "move 1 2" {
		t.Errorf("calls: %s", calls)
	}
	impostor := &tls.Config{RootCAs: friend.RootCAs,
		GetClientCertificate: stranger.GetClientCertificate}
	// A refusal after the client's side of the handshake may reach the client as a broken connection.
	cases := []struct {
		name     string
		settings *tls.Config
		known    bool // the client can tell that nothing was done
	}{
		{"a client without certificate", &tls.Config{RootCAs: friend.RootCAs}, false},
		{"a client of another authority", impostor, false},
		{"a client that trusts another authority", stranger, true},
		{"a client without TLS 1.3", &tls.Config{RootCAs: friend.RootCAs,
			MaxVersion: tls.VersionTLS12}, true},
		{"a client without TLS", nil, false},
	}
	for _, test := range cases {
		err := dial(t, server, test.settings).MoveLeader(ctx, 1, 2)
		if err == nil || (test.known && !errors.Is(err, service.ErrUnavailable)) {
			t.Errorf("%s: error %v", test.name, err)
		}
		if calls := control.takeCalls(); calls != "" {
			t.Errorf("%s: calls %s", test.name, calls)
		}
	}
	code, _, _ := send(t, http.MethodGet, "http://"+server.MetricsAddress()+"/readyz", "", "")
	if code != http.StatusOK {
		t.Errorf("the metrics address answers %d without TLS", code)
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := admin.New(admin.Options{}); err == nil {
		t.Error("a server without Control")
	}
	if _, err := admin.New(admin.Options{Control: &fakeControl{}, Secret: testSecret,
		BackupDir: "x"}); err == nil {
		t.Error("a relative backup_dir")
	}
	for _, security := range []*tls.Config{nil, {ClientAuth: tls.RequestClientCert}} {
		if _, err := admin.New(admin.Options{Control: &fakeControl{}, TLS: security}); err == nil {
			t.Errorf("%v: a server that everybody may operate", security)
		}
	}
	taken := start(t, admin.Options{Control: &fakeControl{}})
	for _, options := range []admin.Options{
		{Address: taken.Address()},
		{Address: "127.0.0.1:0", MetricsAddress: taken.Address()},
	} {
		options.Control, options.Secret = &fakeControl{}, testSecret
		server, err := admin.New(options)
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err == nil {
			t.Errorf("%+v: a port that is taken", options)
		}
	}
	if err := taken.Start(); err == nil {
		t.Error("started twice")
	}
}
