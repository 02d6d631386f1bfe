// Package secret shows the secret of a cluster in requests to the admin addresses of its nodes, and
// recognizes it there.
//
// Thread safety: all functions may be called from any goroutine.
package secret

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

const bearer = "Bearer "

// Show puts the secret into a request's header, unless it is empty.
func Show(header http.Header, secret string) {
	if secret != "" {
		header.Set("Authorization", bearer+secret)
	}
}

// IsShown says whether the header has this secret.
func IsShown(header http.Header, secret string) bool {
	shown, found := strings.CutPrefix(header.Get("Authorization"), bearer)
	return found && Equal(shown, secret)
}

// Equal compares two secrets. The time that it takes does not tell how much of one is right.
func Equal(one, other string) bool {
	a, b := sha256.Sum256([]byte(one)), sha256.Sum256([]byte(other))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// Transport shows the secret in each request, unless it is empty.
func Transport(next http.RoundTripper, secret string) http.RoundTripper {
	if secret == "" {
		return next
	}
	return &transport{next, secret}
}

type transport struct {
	next   http.RoundTripper
	secret string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	Show(request.Header, t.secret)
	return t.next.RoundTrip(request)
}

// CloseIdleConnections lets http.Client reach the transport below.
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
