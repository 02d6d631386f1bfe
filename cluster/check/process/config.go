package process

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"engine_race/cluster/config"
	"engine_race/cluster/config/testtls"
)

// configuration gives the text of a node's configuration file. Addresses of namespaces are outside
// loopback, but no other machine can reach them, so the node may go without TLS.
func (c *Cluster) configuration(n *node) string {
	var text strings.Builder
	fmt.Fprintf(&text, "node_id = %d\n", n.id)
	fmt.Fprintf(&text, "data_dir = %q\n", n.dataDir)
	fmt.Fprintf(&text, "raft_address = %q\n", n.info.RaftAddress)
	fmt.Fprintf(&text, "client_address = %q\n", n.info.ClientAddress)
	fmt.Fprintf(&text, "admin_address = %q\n", n.info.AdminAddress)
	fmt.Fprintf(&text, "secret_file = %q\n", c.secretPath())
	if c.options.LogBytes > 0 && !strings.Contains(c.options.Extra, "[raft]") {
		fmt.Fprintf(&text, "raft.log_bytes = %d\n", c.options.LogBytes)
	}
	if c.options.NodeTimeout > 0 && !strings.Contains(c.options.Extra, "[limits]") {
		fmt.Fprintf(&text, "limits.request_timeout_ms = %d\n", c.options.NodeTimeout.Milliseconds())
		// A node that stops leaves each request the time that it may take.
		drain := max(c.options.NodeTimeout, config.Default().Limits.DrainTimeout())
		fmt.Fprintf(&text, "limits.drain_timeout_ms = %d\n", drain.Milliseconds())
	}
	if c.options.Network != nil {
		fmt.Fprintf(&text, "allow_insecure = true\n")
	}
	fmt.Fprintf(&text, "\n[cluster]\nname = \"check\"\nshards = %d\nreplicas = %d\n"+
		"value_bytes = %d\nnodes = [\n", c.options.Shards, replicas(len(c.nodes)),
		c.options.ValueSize.Bytes())
	for _, other := range c.nodes {
		fmt.Fprintf(&text, "  {id = %d, raft = %q, client = %q, admin = %q},\n", other.id,
			other.info.RaftAddress, other.info.ClientAddress, other.info.AdminAddress)
	}
	text.WriteString("]\n" + n.tls)
	if c.options.Extra != "" {
		text.WriteString("\n" + c.options.Extra + "\n")
	}
	return text.String()
}

// secure makes certificates for the nodes, and for the requests of this process.
func (c *Cluster) secure() error {
	authority, err := testtls.New(filepath.Join(c.options.Dir, "tls"))
	if err != nil {
		return err
	}
	for _, n := range c.nodes {
		pair, err := authority.Issue(fmt.Sprint("node", n.id), c.host(n.id))
		if err != nil {
			return err
		}
		n.tls = fmt.Sprintf("\n[tls]\npeer_ca = %q\npeer_cert = %q\npeer_key = %q\n",
			authority.CAPath, pair.CertPath, pair.KeyPath)
		settings := config.Config{TLS: config.TLS{PeerCA: authority.CAPath, PeerCert: pair.CertPath,
			PeerKey: pair.KeyPath}}
		_, client, err := settings.PeerTLS()
		if err != nil {
			return err
		}
		c.pages = &http.Client{Transport: &http.Transport{TLSClientConfig: client()}}
	}
	return nil
}

// replicas gives the largest odd number that is not above the number of nodes, 7 at most.
func replicas(nodes int) int { return min(nodes-1+nodes%2, 7) }
