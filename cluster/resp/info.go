package resp

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"engine_race/cluster/service"
)

// serverVersion is the version of Redis whose replies clients may expect, for those that ask.
const serverVersion = "7.0.0"

// info serves INFO [section ...]: the server's sections, then those of the service.
func (c *client) info(arguments [][]byte) error {
	wanted := map[string]bool{}
	for _, argument := range arguments[1:] {
		wanted[strings.ToLower(clip(argument))] = true
	}
	all := len(wanted) == 0 || wanted["all"] || wanted["everything"] || wanted["default"]
	var text bytes.Buffer
	for _, section := range c.server.infoSections(c.conn.LocalAddr()) {
		if !all && !wanted[strings.ToLower(section.Name)] {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\r\n")
		}
		fmt.Fprintf(&text, "# %s\r\n", section.Name)
		for _, field := range section.Fields {
			fmt.Fprintf(&text, "%s:%s\r\n", field[0], field[1])
		}
	}
	c.text(text.Bytes())
	return nil
}

// infoSections describes the process, the service, clients and commands. Clients look for some
// fields of Redis, such as `loading`.
func (s *Server) infoSections(local net.Addr) []service.InfoSection {
	number := func(value any) string { return fmt.Sprint(value) }
	counters := &s.counters
	up := int64(time.Since(s.began).Seconds())
	_, port, _ := net.SplitHostPort(local.String())
	first := []service.InfoSection{
		{Name: "Server", Fields: [][2]string{
			{"redis_version", serverVersion},
			{"redis_mode", "standalone"},
			{"os", runtime.GOOS},
			{"arch_bits", number(strconv.IntSize)},
			{"process_id", number(os.Getpid())},
			{"tcp_port", port},
			{"uptime_in_seconds", number(up)},
			{"uptime_in_days", number(up / (24 * 3600))},
		}},
		{Name: "Clients", Fields: [][2]string{
			{"connected_clients", number(counters.ConnectionsOpen.Load())},
			{"maxclients", number(s.limits.Clients)},
			{"bytes_in_flight", number(s.BytesInFlight())},
			{"max_bytes_in_flight", number(s.limits.BytesInFlight)},
		}},
		{Name: "Persistence", Fields: [][2]string{{"loading", "0"}}},
		{Name: "Stats", Fields: [][2]string{
			{"total_connections_received", number(counters.ConnectionsAccepted.Load())},
			{"rejected_connections", number(counters.ConnectionsRefused.Load())},
			{"total_commands_processed", number(counters.Commands.Load())},
			{"total_net_input_bytes", number(counters.BytesReceived.Load())},
			{"total_net_output_bytes", number(counters.BytesSent.Load())},
		}},
		{Name: "Replication", Fields: [][2]string{
			{"role", "master"},
			{"connected_slaves", "0"},
			{"master_repl_offset", "0"},
		}},
	}
	return append(first, s.service.Info()...)
}
