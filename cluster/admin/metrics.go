package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"engine_race/cluster/service"
)

// Sample is one metric at the moment of a scrape. With Buckets it is a histogram, otherwise a
// counter or a gauge.
type Sample struct {
	// Name ends in the unit: "engine_raced_request_seconds". Counters end in "_total".
	Name, Help string
	// Labels has names and values. All samples of a name have the same names in the same order.
	Labels  [][2]string
	Counter bool
	Value   float64
	// Buckets has the count of observations that are not above each bound. Every count includes
	// the lower bounds' ones.
	Buckets map[float64]uint64
	// Count and Sum are of a histogram's observations.
	Count uint64
	Sum   float64
}

// Source gives its samples at each scrape. It may be called from several goroutines at once.
type Source func(emit func(Sample))

func (s *Server) registerMetrics() error {
	s.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "engine_raced_admin_requests_total",
		Help: "HTTP requests of the admin and metrics addresses.",
	}, []string{"path", "code"})
	own := []prometheus.Collector{
		s.requests,
		&statusCollector{control: s.options.Control, logger: s.logger},
		sourceCollector(s.options.Sources),
	}
	for _, collector := range own {
		if err := s.options.Registry.Register(collector); err != nil {
			return fmt.Errorf("admin: register metrics: %w", err)
		}
	}
	// The program may have registered these before.
	common := []prometheus.Collector{collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	for _, collector := range common {
		err := s.options.Registry.Register(collector)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil &&
			!errors.As(err, &already) {
			return fmt.Errorf("admin: register metrics: %w", err)
		}
	}
	return nil
}

func (s *Server) countRequest(path string, status int) {
	s.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
}

func (s *Server) metricsHandler() http.Handler {
	gatherers := prometheus.Gatherers{s.options.Registry}
	if s.options.Gatherer != nil {
		gatherers = append(gatherers, s.options.Gatherer)
	}
	return promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
		// A bad sample must not hide the good ones.
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
		Timeout:             2 * statusTimeout,
	})
}

// statusCollector turns Status, Live and Ready into metrics at each scrape.
type statusCollector struct {
	control service.Control
	logger  *slog.Logger
}

// Describe gives nothing: the shards, and so the metrics, vary.
func (c *statusCollector) Describe(chan<- *prometheus.Desc) {}

func (c *statusCollector) Collect(metrics chan<- prometheus.Metric) {
	emit := func(sample Sample) { metrics <- sample.metric() }
	gauge := func(name, help string, value float64, labels ...[2]string) {
		emit(Sample{Name: "engine_raced_" + name, Help: help, Value: value, Labels: labels})
	}
	gauge("live", "1 unless the process should be restarted.", truth(c.control.Live() == nil))
	gauge("ready", "1 if the node should get requests.", truth(c.control.Ready() == nil))
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	begin := time.Now()
	status, err := c.control.Status(ctx)
	gauge("status_known", "1 if the node could tell its status.", truth(err == nil))
	if err != nil {
		c.logger.Warn("metrics lack the status", "error", err.Error(),
			"duration_ms", time.Since(begin).Milliseconds())
		return
	}
	leading, leaderless, moving, splitting := 0, 0, 0, 0
	for _, shard := range status.Shards {
		if shard.MovesTo != 0 {
			moving++
		}
		if shard.Source != 0 {
			splitting++
		}
		switch shard.LeaderID {
		case 0:
			leaderless++
		case status.NodeID:
			leading++
		}
		for _, replica := range shard.Members {
			if replica.NodeID == status.NodeID {
				collectReplica(emit, replica)
			}
		}
	}
	gauge("nodes", "Nodes of the cluster that this node knows.", float64(len(status.Nodes)))
	gauge("silent_nodes", "Nodes that did not answer this one.", float64(len(status.Silent)))
	gauge("shards", "Shards of the cluster.", float64(len(status.Shards)))
	gauge("moves", "Replicas that are being moved to other nodes.", float64(moving))
	gauge("splits", "Shards that still copy the records of a range that was split.",
		float64(splitting))
	gauge("leaders", "Shards that this node leads.", float64(leading))
	gauge("leaderless_shards", "Shards without a leader that this node knows.",
		float64(leaderless))
}

// collectReplica is for the node's own replicas: each node reports its own.
func collectReplica(emit func(Sample), replica service.ReplicaStatus) {
	shard := [][2]string{{"shard", strconv.FormatUint(replica.ShardID, 10)}}
	gauge := func(name, help string, value float64) {
		emit(Sample{Name: "engine_raced_replica_" + name, Help: help, Value: value, Labels: shard})
	}
	counter := func(name, help string, value uint64) {
		emit(Sample{Name: "engine_raced_replica_" + name + "_total", Help: help, Counter: true,
			Value: float64(value), Labels: shard})
	}
	gauge("applied_index", "Raft index up to which the node's replica applied its log.",
		float64(replica.AppliedIndex))
	gauge("synced_index", "Raft index up to which the node's replica is on disk.",
		float64(replica.SyncedIndex))
	gauge("leader", "1 if the node's replica leads the shard.", truth(replica.Leader))
	gauge("ready", "1 if the node's replica can serve.", truth(replica.Ready))
	gauge("full", "1 if the node's replica waits for room on its disk.", truth(replica.Full))
	gauge("loading", "1 if the node's replica has not caught up since its start.",
		truth(replica.Loading))
	gauge("corrupt", "1 if the replica's data is damaged.", truth(replica.Failure != ""))
	gauge("fit", "1 if the replica may lead: its disk has room and is not slow.", truth(replica.Fit))
	gauge("log_bytes", "Size of the files with the replica's raft log.", float64(replica.LogBytes))
	counter("elections", "Times that the replica heard of a new leader.", replica.Elections)
	counter("read_keys", "Keys that the replica was asked for.", replica.ReadKeys)
	counter("written_ops", "Ops that the replica took as the leader.", replica.WrittenOps)
}

func truth(value bool) float64 {
	if value {
		return 1
	}
	return 0
}

// sourceCollector turns the samples of other packages into metrics.
type sourceCollector []Source

// Describe gives nothing: the sources choose their metrics at each scrape.
func (c sourceCollector) Describe(chan<- *prometheus.Desc) {}

func (c sourceCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, source := range c {
		source(func(sample Sample) { metrics <- sample.metric() })
	}
}

func (s Sample) metric() prometheus.Metric {
	names := make([]string, len(s.Labels))
	values := make([]string, len(s.Labels))
	for i, label := range s.Labels {
		names[i], values[i] = label[0], label[1]
	}
	description := prometheus.NewDesc(s.Name, s.Help, names, nil)
	var metric prometheus.Metric
	var err error
	switch {
	case s.Buckets != nil:
		metric, err = prometheus.NewConstHistogram(description, s.Count, s.Sum, s.Buckets,
			values...)
	case s.Counter:
		metric, err = prometheus.NewConstMetric(description, prometheus.CounterValue, s.Value,
			values...)
	default:
		metric, err = prometheus.NewConstMetric(description, prometheus.GaugeValue, s.Value,
			values...)
	}
	if err != nil {
		return prometheus.NewInvalidMetric(description, err)
	}
	return metric
}
