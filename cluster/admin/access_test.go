package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"engine_race/cluster/admin"
)

// addInternal adds an endpoint that answers 418.
func addInternal(server *admin.Server) {
	server.Handle("/internal", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
}

// ask sends a request with these headers, and gives the code of the answer.
func ask(t *testing.T, method, url string, header map[string]string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url,
		strings.NewReader(`{"shard":1,"node":1}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		request.Header.Set(name, value)
	}
	request.Host = header["Host"]
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// TestStrangersCannotCall asks each endpoint that reads or changes anything, with each secret that
// is not the node's.
func TestStrangersCannotCall(t *testing.T) {
	control := &fakeControl{}
	server := start(t, admin.Options{Control: control, BackupDir: t.TempDir()})
	addInternal(server)
	url := "http://" + server.Address()
	paths := map[string]string{"/status": http.MethodGet, "/internal": http.MethodPost,
		"/debug/pprof/": http.MethodGet, "/debug/pprof/heap": http.MethodGet}
	for _, path := range []string{"/add-replica", "/remove-replica", "/move-leader", "/snapshot",
		"/move-replica", "/split", "/decommission", "/recommission", "/backup", "/restore"} {
		paths[path] = http.MethodPost
	}
	for path, method := range paths {
		for _, shown := range []string{"", "Bearer ", "Bearer another secret of", testSecret,
			"Bearer " + testSecret + "x", "Basic " + testSecret} {
			header := map[string]string{"Authorization": shown}
			if code := ask(t, method, url+path, header); code != http.StatusUnauthorized {
				t.Errorf("%s with %q: %d", path, shown, code)
			}
		}
		header := map[string]string{"Authorization": "Bearer " + testSecret}
		if code := ask(t, method, url+path, header); code == http.StatusUnauthorized {
			t.Errorf("%s with the secret: %d", path, code)
		}
		other := http.MethodPost
		if method == other {
			other = http.MethodGet
		}
		if code := ask(t, other, url+path, header); code != http.StatusMethodNotAllowed {
			t.Errorf("%s by %s: %d", path, other, code)
		}
		control.takeCalls()
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if code := ask(t, http.MethodGet, url+path, nil); code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// TestHostsOfOthers asks as a page does whose host has got the address of this node.
func TestHostsOfOthers(t *testing.T) {
	server := start(t, admin.Options{Control: &fakeControl{}, MetricsAddress: "127.0.0.1:0",
		Hosts: []string{"node1.example"}})
	for host, known := range map[string]bool{
		"": true, "localhost": true, "LocalHost:7201": true, "127.0.0.1": true, "10.1.2.3:99": true,
		"[::1]": true, "[::1]:7201": true, "node1.example": true, "NODE1.example.:7201": true,
		"evil.example": false, "evil.example:7201": false, "127.0.0.1.evil.example": false,
		"node1.example.evil.example": false, "evil": false,
	} {
		for _, address := range []string{server.Address(), server.MetricsAddress()} {
			code := ask(t, http.MethodGet, "http://"+address+"/metrics",
				map[string]string{"Host": host})
			if want := http.StatusOK; known && code != want ||
				!known && code != http.StatusMisdirectedRequest {
				t.Errorf("%q: %d", host, code)
			}
		}
	}
}
