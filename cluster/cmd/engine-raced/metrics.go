package main

import (
	"errors"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"engine_race/cluster/admin"
	"engine_race/cluster/engine"
	"engine_race/cluster/node"
	"engine_race/cluster/resp"
	"engine_race/cluster/service"
)

// latencies measures the commands of clients.
type latencies struct {
	seconds *prometheus.HistogramVec
	// By command: the histogram of those that were done, a prometheus.Observer.
	done sync.Map
}

func newLatencies(registry *prometheus.Registry) *latencies {
	l := &latencies{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "engine_raced_command_seconds",
		Help:    "How long commands of clients took, by their outcome.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
	}, []string{"command", "outcome"})}
	registry.MustRegister(l.seconds)
	return l
}

func (l *latencies) observe(command string, seconds float64, err error) {
	if histogram, known := l.done.Load(command); known && err == nil {
		histogram.(prometheus.Observer).Observe(seconds)
		return
	}
	histogram := l.seconds.WithLabelValues(command, outcomeOf(err))
	histogram.Observe(seconds)
	if err == nil {
		l.done.Store(command, histogram)
	}
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, service.ErrUnknown):
		return "unknown"
	default:
		return "refused"
	}
}

// countersOf gives the counters of the server of clients.
func countersOf(server *resp.Server) admin.Source {
	return func(emit func(admin.Sample)) {
		c := server.Counters()
		counter := func(name, help string, value uint64) {
			emit(admin.Sample{Name: "engine_raced_" + name + "_total", Help: help, Counter: true,
				Value: float64(value)})
		}
		counter("connections_accepted", "Connections of clients.", c.ConnectionsAccepted.Load())
		counter("connections_refused", "Connections beyond the limit.", c.ConnectionsRefused.Load())
		counter("connections_slow", "Connections closed because the client was too slow.",
			c.ConnectionsSlow.Load())
		counter("commands", "Commands of clients.", c.Commands.Load())
		counter("received_bytes", "Bytes from clients.", c.BytesReceived.Load())
		counter("sent_bytes", "Bytes to clients.", c.BytesSent.Load())
		counter("protocol_errors", "Requests that could not be parsed.", c.ProtocolErrors.Load())
		counter("handshakes_failed", "TLS handshakes with clients that failed.",
			c.HandshakesFailed.Load())
		counter("auth_failures", "Wrong passwords and unknown users.", c.AuthFailures.Load())
		counter("replies_unknown", "Replies that leave the outcome open.", c.RepliesUnknown.Load())
		counter("replies_unavailable", "Refusals without a leader.", c.RepliesUnavailable.Load())
		counter("replies_busy", "Refusals at a limit.", c.RepliesBusy.Load())
		counter("replies_full", "Refusals for want of room on disks.", c.RepliesFull.Load())
		counter("replies_loading", "Refusals of replicas that have not caught up.",
			c.RepliesLoading.Load())
		counter("replies_corrupt", "Replies about records that failed their checksum.",
			c.RepliesCorrupt.Load())
		counter("replies_error", "Replies about commands that are wrong.", c.RepliesError.Load())
		counter("connections_idle", "Connections closed because the client was idle.",
			c.ConnectionsIdle.Load())
		counter("strangers_ended", "Connections without a password that others took the place of.",
			server.StrangersEnded())
		emit(admin.Sample{Name: "engine_raced_connections", Help: "Open connections of clients.",
			Value: float64(c.ConnectionsOpen.Load())})
		emit(admin.Sample{Name: "engine_raced_in_flight_bytes",
			Help:  "Bytes of requests and replies that are held for clients.",
			Value: float64(server.BytesInFlight())})
	}
}

// expiriesOf tells when the node's certificates expire, by their setting.
func expiriesOf(expiries func() map[string]time.Time) admin.Source {
	return func(emit func(admin.Sample)) {
		for setting, end := range expiries() {
			emit(admin.Sample{Name: "engine_raced_certificate_expiry_seconds",
				Help:   "When a certificate expires, as Unix time. Of several authorities: the first.",
				Labels: [][2]string{{"setting", setting}}, Value: float64(end.Unix())})
		}
	}
}

// comparisonsOf gives what comparisons of replicas have found.
func comparisonsOf(n *node.Node) admin.Source {
	return func(emit func(admin.Sample)) {
		done, last := n.Comparisons()
		emit(admin.Sample{Name: "engine_raced_comparisons_total", Counter: true,
			Help: "Comparisons of replicas that this node has made.", Value: float64(done)})
		for _, c := range last {
			emit(admin.Sample{Name: "engine_raced_differing_ranges",
				Help:   "Ranges of keys in which replicas differed at the last comparison.",
				Labels: [][2]string{{"shard", strconv.FormatUint(c.ShardID, 10)}},
				Value:  float64(len(c.Differences))})
		}
	}
}

// nodeMetrics gives the space of the disk with the node's data, the size of values, and the
// program's version.
func nodeMetrics(dataDir string, valueBytes int) admin.Source {
	return func(emit func(admin.Sample)) {
		emit(admin.Sample{Name: "engine_raced_build_info", Help: "1, with the version as a label.",
			Labels: [][2]string{{"version", engine.Version()}}, Value: 1})
		emit(admin.Sample{Name: "engine_raced_value_bytes", Help: "Size of each value of the cluster.",
			Value: float64(valueBytes)})
		var stat syscall.Statfs_t
		if syscall.Statfs(dataDir, &stat) != nil {
			return
		}
		emit(admin.Sample{Name: "engine_raced_disk_free_bytes",
			Help:  "Space of the disk with the node's data that the node may still take.",
			Value: float64(stat.Bavail) * float64(stat.Bsize)})
		emit(admin.Sample{Name: "engine_raced_disk_size_bytes",
			Help:  "Size of the disk with the node's data.",
			Value: float64(stat.Blocks) * float64(stat.Bsize)})
	}
}
