// Package client calls the admin server of a node.
//
// Purpose: typed calls for operators and for other nodes. Client implements service.Control for a
// node elsewhere, so that errors.Is finds the same errors as on the node itself.
//
// Thread safety: a Client may be used by any number of goroutines.
//
// Ownership: the caller closes the Client. The TLS configuration is copied.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"engine_race/cluster/admin"
	"engine_race/cluster/secret"
	"engine_race/cluster/service"
)

const (
	connectTimeout = 5 * time.Second
	healthTimeout  = 5 * time.Second
	maxAnswerBytes = 64 << 20
)

var _ service.Control = (*Client)(nil)

// Client calls one node. The context of each call bounds it.
type Client struct {
	base string
	http *http.Client
}

// New makes a client for the admin address of a node, as host:port. With a TLS configuration, the
// client's side of config.PeerTLS, it talks HTTPS. It shows the secret `shown`, as config.Secret
// gives it, unless that is empty. It does not connect yet.
func New(address string, security *tls.Config, shown string) (*Client, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("admin address %q: %w", address, err)
	}
	scheme := "http"
	if security != nil {
		scheme, security = "https", security.Clone()
	}
	dialer := &net.Dialer{Timeout: connectTimeout}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     security,
		TLSHandshakeTimeout: connectTimeout,
		IdleConnTimeout:     time.Minute,
		MaxIdleConnsPerHost: 4,
	}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: scheme + "://" + address,
		http: &http.Client{Transport: secret.Transport(transport, shown), CheckRedirect: refuse}}, nil
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Error is the answer of a node that refused a call, or that failed.
type Error struct {
	// Code is the HTTP code.
	Code int
	// Message is the node's, for people.
	Message string
	cause   error
}

func (e *Error) Error() string { return fmt.Sprintf("the node answered %d: %s", e.Code, e.Message) }

// Unwrap gives the error of package service that the node named, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Call sends the call as JSON, unless it is nil, and decodes the answer into `answer`, unless that
// is nil. It suits the endpoints that package node adds. A POST that broke after it was sent is
// service.ErrUnknown; one that never reached the node is service.ErrUnavailable.
func (c *Client) Call(ctx context.Context, method, path string, call, answer any) error {
	var body io.Reader
	if call != nil {
		text, err := json.Marshal(call)
		if err != nil {
			return fmt.Errorf("encode the call: %w", err)
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	if call != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", outcome(method, err), err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err == nil && len(text) > maxAnswerBytes {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswerBytes)
	}
	if err != nil {
		return fmt.Errorf("%w: read the answer: %w", outcome(method, err), err)
	}
	if response.StatusCode != http.StatusOK {
		return failure(method, response.StatusCode, text)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%w: the answer is no valid JSON: %w", outcome(method, err), err)
	}
	return nil
}

// outcome tells what a broken call did, as an error of package service.
func outcome(method string, err error) error {
	if method == http.MethodGet {
		return service.ErrUnavailable
	}
	network := (*net.OpError)(nil)
	if errors.As(err, &network) && (network.Op == "dial" || refusedHandshake(network)) {
		return service.ErrUnavailable
	}
	verification := (*tls.CertificateVerificationError)(nil)
	header := tls.RecordHeaderError{}
	if errors.As(err, &verification) || errors.As(err, &header) {
		return service.ErrUnavailable
	}
	return service.ErrUnknown
}

// refusedHandshake says whether the server sent an alert that only a handshake has. A TLS 1.3
// server can refuse the client's certificate after the client sent its request. The server has not
// read the request then. Other alerts may come after it.
func refusedHandshake(network *net.OpError) bool {
	if network.Op != "remote error" || network.Err == nil {
		return false
	}
	// Numbers of RFC 8446: handshake_failure, bad_certificate, unsupported_certificate,
	// certificate_revoked, certificate_expired, certificate_unknown, unknown_ca, access_denied,
	// protocol_version, certificate_required.
	for _, alert := range []tls.AlertError{40, 42, 43, 44, 45, 46, 48, 49, 70, 116} {
		if network.Err.Error() == alert.Error() {
			return true
		}
	}
	return false
}

// failure makes the error of an answer that is no success. A server's error that names no error of
// package service does not tell what a POST did.
func failure(method string, code int, text []byte) error {
	var told admin.Failure
	if err := json.Unmarshal(text, &told); err != nil || told.Error == "" {
		told = admin.Failure{Error: fmt.Sprintf("%.200q", text)}
	}
	cause := admin.KindError(told.Kind)
	if cause == nil && method != http.MethodGet && code >= http.StatusInternalServerError {
		cause = service.ErrUnknown
	}
	return &Error{Code: code, Message: told.Error, cause: cause}
}

// Status implements service.Control.
func (c *Client) Status(ctx context.Context) (service.Status, error) {
	var status service.Status
	err := c.Call(ctx, http.MethodGet, "/status", nil, &status)
	return status, err
}

// AddReplica implements service.Control.
func (c *Client) AddReplica(ctx context.Context, shardID, nodeID uint64) error {
	return c.replicaCall(ctx, "/add-replica", shardID, nodeID)
}

// RemoveReplica implements service.Control.
func (c *Client) RemoveReplica(ctx context.Context, shardID, nodeID uint64) error {
	return c.replicaCall(ctx, "/remove-replica", shardID, nodeID)
}

// MoveLeader implements service.Control.
func (c *Client) MoveLeader(ctx context.Context, shardID, nodeID uint64) error {
	return c.replicaCall(ctx, "/move-leader", shardID, nodeID)
}

// MoveReplica implements service.Control.
func (c *Client) MoveReplica(ctx context.Context, shardID, from, to uint64) error {
	call := admin.MoveCall{Shard: &shardID, From: &from, To: &to}
	return c.Call(ctx, http.MethodPost, "/move-replica", call, nil)
}

// Decommission implements service.Control.
func (c *Client) Decommission(ctx context.Context, nodeID uint64, leaves bool) error {
	path := "/recommission"
	if leaves {
		path = "/decommission"
	}
	return c.Call(ctx, http.MethodPost, path, admin.NodeCall{Node: &nodeID}, nil)
}

// SplitShard implements service.Control.
func (c *Client) SplitShard(ctx context.Context, shardID, key uint64) (uint64, error) {
	var answer admin.SplitAnswer
	call := admin.SplitCall{Shard: &shardID, Key: fmt.Sprintf("0x%016x", key)}
	err := c.Call(ctx, http.MethodPost, "/split", call, &answer)
	return answer.Shard, err
}

func (c *Client) replicaCall(ctx context.Context, path string, shardID, nodeID uint64) error {
	call := admin.ReplicaCall{Shard: &shardID, Node: &nodeID}
	return c.Call(ctx, http.MethodPost, path, call, nil)
}

// Snapshot implements service.Control.
func (c *Client) Snapshot(ctx context.Context, shardID uint64) (uint64, error) {
	var answer admin.IndexAnswer
	call := admin.ShardCall{Shard: &shardID}
	err := c.Call(ctx, http.MethodPost, "/snapshot", call, &answer)
	return answer.Index, err
}

// Compare implements service.Control.
func (c *Client) Compare(ctx context.Context, shardID uint64) (service.Comparison, error) {
	var answer service.Comparison
	call := admin.ShardCall{Shard: &shardID}
	err := c.Call(ctx, http.MethodPost, "/compare", call, &answer)
	return answer, err
}

// Backup implements service.Control.
func (c *Client) Backup(ctx context.Context, directory, since string) (service.BackupReport,
	error) {
	var report service.BackupReport
	call := admin.BackupCall{Directory: directory, Since: since}
	err := c.Call(ctx, http.MethodPost, "/backup", call, &report)
	return report, err
}

// Restore implements service.Control.
func (c *Client) Restore(ctx context.Context, directory string) (service.BackupReport, error) {
	var report service.BackupReport
	call := admin.RestoreCall{Directory: directory}
	err := c.Call(ctx, http.MethodPost, "/restore", call, &report)
	return report, err
}

// Live implements service.Control. It waits 5 seconds at most.
func (c *Client) Live() error { return c.health("/healthz") }

// Ready implements service.Control. It waits 5 seconds at most.
func (c *Client) Ready() error { return c.health("/readyz") }

func (c *Client) health(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	return c.Call(ctx, http.MethodGet, path, nil, nil)
}
