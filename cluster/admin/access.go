package admin

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"engine_race/cluster/gate"
	"engine_race/cluster/secret"
)

// private refuses callers that are no node and no operator. They show the secret, or without one a
// certificate, which the handshake has checked. It also refuses requests that a web page made: an
// operator's browser would show its certificate for any page. Browsers tell by these headers;
// nodes and operators' programs have none.
func (s *Server) private(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
			writeError(w, http.StatusForbidden, "invalid", "web pages may not call this endpoint")
		case !s.trusts(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, http.StatusUnauthorized, "invalid", "this endpoint needs the secret of the"+
				" cluster: --config FILE with a node's secret_file, or the user that runs the nodes")
		default:
			// A client that asks for a node's health alone stays a stranger: its connection may end early.
			if conn, is := r.Context().Value(connKey{}).(net.Conn); is {
				gate.Known(conn)
			}
			next.ServeHTTP(w, r)
		}
	})
}

func (s *Server) trusts(r *http.Request) bool {
	if s.options.Secret == "" {
		return s.options.TLS != nil
	}
	return secret.IsShown(r.Header, s.options.Secret)
}

// checkHost refuses requests for hosts that are not this node. A web page can have the name of its
// own host point to this node's address. The browser then lets it read the answers. A client that
// has checked a certificate has checked the name. Clients that are no browsers may leave the host
// out.
func (s *Server) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil && !s.knowsHost(r.Host) {
			writeError(w, http.StatusMisdirectedRequest, "invalid", "the Host must be an IP address,"+
				" localhost, or a host of the addresses in the node's configuration")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) knowsHost(text string) bool {
	host, _, err := net.SplitHostPort(text)
	if err != nil {
		host = strings.Trim(text, "[]")
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "" || host == "localhost" || net.ParseIP(host) != nil ||
		slices.Contains(s.options.Hosts, host)
}
