package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"engine_race/cluster/admin"
	"engine_race/cluster/engine"
	"engine_race/cluster/resp"
	"engine_race/cluster/service"
)

// storeTexts gives the metrics of real stores, by shard.
func storeTexts(t *testing.T, shards ...string) func() map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, shard := range shards {
		store, err := engine.Open(t.TempDir(), map[string]string{"bucket_count": "4",
			"file_count": "2", "bucket_capacity_records": "4096", "memory_budget_bytes": "64m"})
		if err != nil {
			t.Fatal(err)
		}
		if texts[shard], err = store.Metrics(); err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return func() map[string]string { return texts }
}

func TestStoresHaveTheirShardAsALabel(t *testing.T) {
	gatherer := storesGatherer(storeTexts(t, "2", "3"))
	families, err := prometheus.Gatherers{gatherer}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, family := range families {
		for _, metric := range family.Metric {
			labels := ""
			for _, label := range metric.Label {
				labels += label.GetName() + "=" + label.GetValue() + " "
			}
			found[family.GetName()+" "+labels]++
		}
		if name := family.GetName(); strings.HasSuffix(name, "_total") !=
			(family.GetType().String() == "COUNTER") {
			t.Errorf("%s is a %v", name, family.GetType())
		}
	}
	for _, want := range []string{"engine_race_records shard=2 ", "engine_race_records shard=3 ",
		"engine_race_calls_total call=read shard=2 ", "engine_race_process_written_bytes_total "} {
		if found[want] != 1 {
			t.Errorf("%d times %q", found[want], want)
		}
	}
	broken := func() map[string]string { return map[string]string{"2": "no metric {"} }
	if _, err := storesGatherer(broken).Gather(); err == nil {
		t.Error("a malformed text was taken")
	}
}

// TestStoreMetricsAreClean lints them as promtool does.
func TestStoreMetricsAreClean(t *testing.T) {
	problems, err := testutil.GatherAndLint(storesGatherer(storeTexts(t, "2", "3")))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// quietControl is a node with one shard.
type quietControl struct{ service.Control }

func (quietControl) Live() error  { return nil }
func (quietControl) Ready() error { return nil }
func (quietControl) Status(context.Context) (service.Status, error) {
	return service.Status{NodeID: 1, Nodes: []service.NodeInfo{{ID: 1}},
		Shards: []service.ShardStatus{{ShardID: 1, LeaderID: 1,
			Members: []service.ReplicaStatus{{ShardID: 1, NodeID: 1}}}}}, nil
}

// TestNodeMetricsAreClean lints all that a node tells beside its stores.
func TestNodeMetricsAreClean(t *testing.T) {
	registry := prometheus.NewRegistry()
	newLatencies(registry).observe("get", 1, nil)
	clients, err := resp.New(resp.Options{Service: &failing{}})
	if err != nil {
		t.Fatal(err)
	}
	expiries := func() map[string]time.Time { return map[string]time.Time{"tls.peer_cert": {}} }
	_, err = admin.New(admin.Options{Control: quietControl{}, Registry: registry,
		Secret: "a secret of tests", Sources: []admin.Source{countersOf(clients),
			nodeMetrics(t.TempDir(), 512), expiriesOf(expiries)}})
	if err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		if strings.HasPrefix(problem.Metric, "engine_") {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, family := range families {
		names[family.GetName()] = true
	}
	for _, want := range []string{"engine_raced_build_info", "engine_raced_disk_free_bytes",
		"engine_raced_disk_size_bytes", "engine_raced_replica_full", "engine_raced_replica_loading",
		"engine_raced_replica_log_bytes", "engine_raced_replica_elections_total",
		"engine_raced_replies_full_total", "engine_raced_replies_corrupt_total",
		"engine_raced_replies_loading_total", "engine_raced_silent_nodes"} {
		if !names[want] {
			t.Errorf("metrics lack %s", want)
		}
	}
}
