package admin_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"engine_race/cluster/admin"
)

// scrape returns the lines of /metrics that are no comments.
func scrape(t *testing.T, server *admin.Server) map[string]bool {
	t.Helper()
	code, body, _ := send(t, http.MethodGet, "http://"+server.Address()+"/metrics", "", "")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	lines := make(map[string]bool)
	for _, line := range strings.Split(body, "\n") {
		if !strings.HasPrefix(line, "#") {
			lines[line] = true
		}
	}
	return lines
}

func TestMetrics(t *testing.T) {
	control := &fakeControl{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector()) // The program may have done so.
	source := func(emit func(admin.Sample)) {
		emit(admin.Sample{Name: "engine_raced_clients_count", Value: 7})
		emit(admin.Sample{Name: "engine_raced_commands_total", Counter: true, Value: 9,
			Labels: [][2]string{{"command", "get"}}})
		emit(admin.Sample{Name: "engine_raced_command_seconds", Count: 3, Sum: 0.5,
			Labels: [][2]string{{"command", "set"}}, Buckets: map[float64]uint64{0.1: 2, 1: 3}})
	}
	broken := func(emit func(admin.Sample)) { emit(admin.Sample{Name: "no valid\xff name"}) }
	server := start(t, admin.Options{Control: control, Registry: registry,
		Sources: []admin.Source{broken, source}})
	lines := scrape(t, server)
	for _, want := range []string{
		"engine_raced_live 1", "engine_raced_ready 1", "engine_raced_status_known 1",
		"engine_raced_nodes 3", "engine_raced_shards 3",
		"engine_raced_leaders 1", "engine_raced_leaderless_shards 1",
		`engine_raced_replica_applied_index{shard="2"} 201`,
		`engine_raced_replica_synced_index{shard="3"} 31`,
		`engine_raced_replica_leader{shard="1"} 1`, `engine_raced_replica_leader{shard="2"} 0`,
		`engine_raced_replica_ready{shard="1"} 1`,
		"engine_raced_clients_count 7", `engine_raced_commands_total{command="get"} 9`,
		`engine_raced_command_seconds_bucket{command="set",le="0.1"} 2`,
		`engine_raced_command_seconds_bucket{command="set",le="+Inf"} 3`,
		`engine_raced_command_seconds_sum{command="set"} 0.5`,
	} {
		if !lines[want] {
			t.Errorf("metrics lack %q", want)
		}
	}
	has := func(prefix string) bool {
		for line := range lines {
			if strings.HasPrefix(line, prefix) {
				return true
			}
		}
		return false
	}
	if !has("go_goroutines ") || !has("process_open_fds ") {
		t.Error("metrics lack those of Go or of the process")
	}
	control.set(func(f *fakeControl) { f.err, f.ready = errors.New("slow"), errors.New("slow") })
	lines = scrape(t, server)
	if !lines["engine_raced_ready 0"] || !lines["engine_raced_status_known 0"] ||
		has("engine_raced_shards") {
		t.Error("metrics without a status are wrong")
	}
	if !lines[`engine_raced_admin_requests_total{code="200",path="/metrics"} 1`] {
		t.Error("the earlier scrape is not counted")
	}
}
