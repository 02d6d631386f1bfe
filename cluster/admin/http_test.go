package admin_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"engine_race/cluster/admin"
	"engine_race/cluster/secret"
	"engine_race/cluster/service"
)

func TestWebPagesCannotCall(t *testing.T) {
	control := &fakeControl{}
	server := start(t, admin.Options{Control: control})
	server.Handle("/internal", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	for _, header := range [][2]string{{"Origin", "http://example.com"}, {"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-origin"}} {
		for _, path := range []string{"/internal", "/move-leader"} {
			request, err := http.NewRequest(http.MethodPost, "http://"+server.Address()+path,
				strings.NewReader(`{"shard":1,"node":1}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set(header[0], header[1])
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusForbidden {
				t.Errorf("%s %v: %s", path, header, response.Status)
			}
		}
	}
	if calls := control.takeCalls(); calls != "" {
		t.Errorf("calls %q", calls)
	}
}

func TestPanicsAreLogged(t *testing.T) {
	var text bytes.Buffer
	server := start(t, admin.Options{Control: &fakeControl{},
		Logger: slog.New(slog.NewTextHandler(&text, nil))})
	server.Handle("/internal", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic("a fault of the node")
	}))
	if err := dial(t, server, nil).Call(t.Context(), http.MethodPost, "/internal", nil,
		nil); err == nil {
		t.Error("a call that panicked was answered")
	}
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "a fault of the node") {
		t.Errorf("the log is %q", text.String())
	}
}

// TestOneBackupAtATime has a backup that waits while others are asked for.
func TestOneBackupAtATime(t *testing.T) {
	entered, leave := make(chan struct{}, 3), make(chan struct{})
	control := &fakeControl{wait: func(context.Context) error {
		entered <- struct{}{}
		<-leave
		return nil
	}}
	root := t.TempDir()
	c := dial(t, start(t, admin.Options{Control: control, BackupDir: root}), nil)
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	first := make(chan error, 1)
	go func() {
		_, err := c.Backup(ctx, root+"/a", "")
		first <- err
	}()
	<-entered
	_, backup := c.Backup(ctx, root+"/a", "")
	_, restore := c.Restore(ctx, root+"/b")
	for _, err := range []error{backup, restore} {
		if !errors.Is(err, service.ErrBusy) {
			t.Errorf("beside a backup: %v", err)
		}
	}
	close(leave)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if _, err := c.Restore(ctx, root+"/a"); err != nil {
		t.Errorf("after the backup: %v", err)
	}
}

// TestCallsAreRefusedWhenTheServerHasStopped has a call that net/http has read from a connection
// which it then closed as an idle one. The caller gets no answer, so nothing may be done.
func TestCallsAreRefusedWhenTheServerHasStopped(t *testing.T) {
	server := start(t, admin.Options{Control: &fakeControl{}})
	handled := 0
	server.Handle("/internal", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		handled++
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	call := func() (status, left int) {
		body := strings.NewReader("a command")
		request := httptest.NewRequest(http.MethodPost, "/internal", body)
		request.Host = "localhost"
		secret.Show(request.Header, testSecret)
		answer := httptest.NewRecorder()
		server.Serve(answer, request)
		return answer.Code, body.Len()
	}
	if status, left := call(); status != http.StatusOK || handled != 1 || left != 0 {
		t.Fatalf("before: status %d, %d calls, %d bytes are left", status, handled, left)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	// Package node takes codes below 500 for refusals.
	status, left := call()
	if status < 400 || status >= 500 || handled != 1 || left != len("a command") {
		t.Errorf("after: status %d, %d calls, %d bytes are left", status, handled, left)
	}
}
