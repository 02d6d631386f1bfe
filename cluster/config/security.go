package config

import (
	"errors"
	"fmt"
)

// insecurities lists the settings that would let strangers reach the node without being checked.
// Validate refuses them, unless allow_insecure is set.
func (c *Config) insecurities() []error {
	var problems []error
	if !c.HasPeerTLS() {
		exposed := c.addresses()
		for i, node := range c.Cluster.Nodes {
			exposed = append(exposed, addressesOf(i, node)...)
		}
		for _, named := range exposed {
			if !loopback(named.address) {
				problems = append(problems, fmt.Errorf("%s: %q is outside loopback, which needs "+
					"mutual TLS between nodes: set tls.peer_ca, tls.peer_cert and tls.peer_key",
					named.setting, named.address))
			}
		}
	}
	problems = append(problems, c.clientInsecurities()...)
	if c.MetricsAddress != "" && !loopback(c.MetricsAddress) && !c.AllowPlainMetrics {
		problems = append(problems, fmt.Errorf("metrics_address: %q is outside loopback and has "+
			"no TLS, which needs allow_plain_metrics = true", c.MetricsAddress))
	}
	return problems
}

func (c *Config) clientInsecurities() []error {
	if loopback(c.ClientAddress) {
		return nil
	}
	var problems []error
	if !c.HasClientTLS() {
		problems = append(problems, fmt.Errorf("client_address: %q is outside loopback, which "+
			"needs TLS: set tls.client_cert and tls.client_key", c.ClientAddress))
	}
	if len(c.Auth.Users) == 0 && c.Auth.PasswordFile == "" {
		problems = append(problems, fmt.Errorf("client_address: %q is outside loopback, which "+
			"needs a password: set auth.users or auth.password_file", c.ClientAddress))
	}
	return problems
}

// checkFiles reads the certificates, keys and passwords that the settings name.
func (c *Config) checkFiles() error {
	_, _, peerErr := c.PeerTLS()
	_, clientErr := c.ClientTLS()
	_, usersErr := c.Users()
	return errors.Join(peerErr, clientErr, usersErr)
}
