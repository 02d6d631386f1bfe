package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics with this prefix are of the whole process: each store tells the same.
const processPrefix = "engine_race_process_"

// storesGatherer gives the engine's own metrics, which it writes in Prometheus' text format, with
// the shard as a further label. `texts` has them by shard.
func storesGatherer(texts func() map[string]string) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		merged := map[string]*dto.MetricFamily{}
		all := texts()
		for _, shard := range slices.Sorted(maps.Keys(all)) {
			parser := expfmt.NewTextParser(model.LegacyValidation)
			families, err := parser.TextToMetricFamilies(strings.NewReader(all[shard]))
			if err != nil {
				return nil, fmt.Errorf("metrics of shard %s: %w", shard, err)
			}
			for name, family := range families {
				merge(merged, name, family, shard)
			}
		}
		inOrder := func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) }
		return slices.SortedFunc(maps.Values(merged), inOrder), nil
	})
}

func merge(merged map[string]*dto.MetricFamily, name string, family *dto.MetricFamily,
	shard string) {
	known := merged[name]
	switch ofProcess := strings.HasPrefix(name, processPrefix); {
	case ofProcess && known != nil:
		return
	case !ofProcess:
		label := "shard"
		for _, metric := range family.Metric {
			metric.Label = append(metric.Label, &dto.LabelPair{Name: &label, Value: &shard})
			slices.SortFunc(metric.Label, func(a, b *dto.LabelPair) int {
				return cmp.Compare(a.GetName(), b.GetName())
			})
		}
	}
	if known == nil {
		merged[name] = family
		return
	}
	known.Metric = append(known.Metric, family.Metric...)
}
