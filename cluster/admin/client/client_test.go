package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"engine_race/cluster/admin/client"
	"engine_race/cluster/service"
	"engine_race/cluster/testkit"
)

const testDeadline = 20 * time.Second

func dial(t *testing.T, address string) (*client.Client, context.Context) {
	t.Helper()
	c, err := client.New(address, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	t.Cleanup(cancel)
	return c, ctx
}

func TestAddress(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1", "http://127.0.0.1:1/x"} {
		if c, err := client.New(address, nil, ""); err == nil {
			c.Close()
			t.Errorf("%q: was accepted", address)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	c, ctx := dial(t, testkit.FreeAddresses(t, "127.0.0.1", 1)[0])
	if err := c.MoveLeader(ctx, 1, 2); !errors.Is(err, service.ErrUnavailable) ||
		errors.Is(err, service.ErrUnknown) {
		t.Errorf("a call that never left gives %v", err)
	}
}

// TestBrokenAnswers has a node that took the call and then behaves badly.
func TestBrokenAnswers(t *testing.T) {
	cases := map[string]struct {
		handler http.HandlerFunc
		want    error
	}{
		"the connection breaks": {func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, service.ErrUnknown},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		}, service.ErrUnknown},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>"))
		}, service.ErrUnknown},
		"a redirection": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, nil},
		"an error of another server": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 1000), http.StatusBadGateway)
		}, service.ErrUnknown},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					calls.Add(1)
					test.handler(w, r)
				}))
			defer server.Close()
			c, ctx := dial(t, strings.TrimPrefix(server.URL, "http://"))
			_, err := c.Snapshot(ctx, 1)
			if err == nil || (test.want != nil && !errors.Is(err, test.want)) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			refused := (*client.Error)(nil)
			if test.want == nil && !errors.As(err, &refused) {
				t.Errorf("error %v is no answer of the node", err)
			}
			if len(err.Error()) > 500 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if made := calls.Load(); made != 1 {
				t.Errorf("the call was made %d times", made)
			}
		})
	}
}
