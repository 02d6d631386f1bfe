package resp

import (
	"fmt"
	"strings"

	"engine_race/cluster/service"
)

// serverVersion is the version of Redis whose replies clients may expect, for those that ask.
const serverVersion = "7.0.0"

// info serves INFO [section ...]: the service's sections, then those of the server.
func (c *client) info(arguments [][]byte) error {
	wanted := map[string]bool{}
	for _, argument := range arguments[1:] {
		wanted[strings.ToLower(clip(argument))] = true
	}
	all := len(wanted) == 0 || wanted["all"] || wanted["everything"] || wanted["default"]
	var text strings.Builder
	for _, section := range append(c.server.service.Info(), c.server.infoSections()...) {
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
	c.bulk([]byte(text.String()))
	return nil
}

// infoSections describes clients and commands.
func (s *Server) infoSections() []service.InfoSection {
	number := func(value any) string { return fmt.Sprint(value) }
	counters := &s.counters
	return []service.InfoSection{
		{Name: "Clients", Fields: [][2]string{
			{"connected_clients", number(counters.ConnectionsOpen.Load())},
			{"maxclients", number(s.limits.Clients)},
			{"bytes_in_flight", number(s.BytesInFlight())},
			{"max_bytes_in_flight", number(s.limits.BytesInFlight)},
		}},
		{Name: "Stats", Fields: [][2]string{
			{"total_connections_received", number(counters.ConnectionsAccepted.Load())},
			{"rejected_connections", number(counters.ConnectionsRefused.Load())},
			{"total_commands_processed", number(counters.Commands.Load())},
			{"total_net_input_bytes", number(counters.BytesReceived.Load())},
			{"total_net_output_bytes", number(counters.BytesSent.Load())},
		}},
	}
}

// clientList serves CLIENT LIST. Its text holds bytes in flight until it is sent.
func (c *client) clientList() error {
	clients := c.server.snapshotClients()
	reserved := int64(len(clients)) * describeBytes
	if !c.account.Acquire(reserved, c.server.limits.BusyWait) {
		return errBusyMemory
	}
	defer c.account.Release(reserved)
	text := make([]byte, 0, reserved)
	for _, other := range clients {
		text = append(text, other.describe()...)
	}
	c.bulk(text)
	return nil
}
