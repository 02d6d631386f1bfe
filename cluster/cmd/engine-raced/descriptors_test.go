package main

import (
	"strings"
	"testing"

	"engine_race/cluster/config"
	"engine_race/cluster/service"
)

func TestTheFileLimitIsComparedWithAllLimits(t *testing.T) {
	c := config.Default()
	few := filesNeeded(c)
	for name, change := range map[string]func(*config.Config){
		"clients": func(c *config.Config) { c.Limits.MaxClients++ },
		"nodes": func(c *config.Config) {
			c.Cluster.Nodes = []service.NodeInfo{{ID: 1}, {ID: 2}}
		},
		"shards": func(c *config.Config) { c.Cluster.Shards *= 2 },
	} {
		changed := config.Default()
		change(changed)
		if filesNeeded(changed) <= few {
			t.Errorf("more %s need no more files than %d", name, few)
		}
	}
	for _, test := range []struct {
		permitted uint64
		says      string
	}{
		{few, ""},
		{few - 1, "lower limits.max_clients from 10000 to 9999"},
		{few - 10_000, "too few for the node even without clients"},
		{64, "too few for the node even without clients"},
	} {
		warning := fileWarning(c, few, test.permitted)
		if (warning == "") != (test.says == "") || !strings.Contains(warning, test.says) {
			t.Errorf("with %d files: %q, not %q", test.permitted, warning, test.says)
		}
	}
}
