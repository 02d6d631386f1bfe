package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"engine_race/cluster/replica"
	"engine_race/cluster/service"
)

// Paths of calls between nodes, on their admin addresses. A call for a shard is answered by a
// replica there, and never sent on.
const (
	pathWrite     = "/internal/write"
	pathRead      = "/internal/read"
	pathScan      = "/internal/scan"
	pathCount     = "/internal/count"
	pathDirectory = "/internal/directory"
	pathJoin      = "/internal/join"
	pathHello     = "/internal/hello"
	pathControl   = "/internal/control"
	pathStream    = "/internal/stream"
	pathReplicas  = "/internal/replicas"
	pathVersion   = "/internal/version"
	pathHash      = "/internal/hash"
	pathRoom      = "/internal/room"
)

const (
	// The header that names the kind of a failure.
	errorHeader = "Engine-Race-Error"
	// The most keys of a read.
	maxPeerKeys = 16384
	// The most that a call or an answer has. Calls are also bounded by the bytes in flight.
	maxBodyBytes = 128 << 20
	// How long a call waits for bytes in flight.
	busyWait = 500 * time.Millisecond
)

// errorKinds names the kinds of failures. The first that fits counts, for an error may wrap a
// general one and a special one. A call whose outcome is unknown must not look like one that did
// nothing.
var errorKinds = []struct {
	name string
	err  error
}{
	{"unknown", service.ErrUnknown}, {"moved", errMoved}, {"not-here", errNotHere},
	{"conflict", service.ErrConflict},
	{"invalid", service.ErrInvalid}, {"corrupt", service.ErrCorrupt}, {"full", service.ErrFull},
	{"busy", service.ErrBusy}, {"loading", service.ErrLoading},
	{"unavailable", service.ErrUnavailable},
}

// errNotHere: the node has no replica of the shard. Nothing was done.
var errNotHere = errors.New("no replica here")

func kindOf(err error) string {
	for _, kind := range errorKinds {
		if errors.Is(err, kind.err) {
			return kind.name
		}
	}
	return "unavailable"
}

// kindNamed gives the error that a node has named. An unknown name says nothing of what was done.
func kindNamed(name string) error {
	for _, kind := range errorKinds {
		if kind.name == name {
			return kind.err
		}
	}
	return service.ErrUnknown
}

// post sends a call to a node. An error that leaves open whether the node has got the call is
// service.ErrUnknown. Where nothing was done it is service.ErrUnavailable.
func (n *Node) post(ctx context.Context, address, path string, query string,
	body []byte) ([]byte, error) {
	url := n.config.Scheme + "://" + address + path + "?" + query
	if deadline, limited := ctx.Deadline(); limited {
		url += "&timeout_ms=" + strconv.FormatInt(max(1, time.Until(deadline).Milliseconds()), 10)
	}
	if path == pathWrite {
		url += n.until(ctx, address)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	var command *offer
	if path == pathWrite {
		command = makeOffer(request, body)
	}
	response, err := n.config.Client.Do(request)
	if err != nil {
		dial := (*net.OpError)(nil)
		unconnected := errors.As(err, &dial) && dial.Op == "dial"
		if unconnected || command != nil && command.revoke() {
			return nil, fmt.Errorf("%w: %w", service.ErrUnavailable, err)
		}
		return nil, fmt.Errorf("%w: %w", service.ErrUnknown, err)
	}
	defer response.Body.Close()
	n.noteClock(address, response.Header.Get(clockHeader))
	answer, err := readBody(response.Body, response.ContentLength)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrUnknown, err)
	}
	if response.StatusCode == http.StatusOK {
		return answer, nil
	}
	if response.StatusCode < http.StatusInternalServerError {
		// The node refused the call before it read the body.
		return nil, fmt.Errorf("%w: %s: %s: %.200s", service.ErrUnavailable, address, response.Status,
			bytes.TrimSpace(answer))
	}
	kind := kindNamed(response.Header.Get(errorHeader))
	return nil, fmt.Errorf("%w: %s: %s", kind, address, bytes.TrimSpace(answer))
}

func (n *Node) writeRemote(ctx context.Context, shardID uint64, ops []service.Op,
	counted bool) ([]byte, error) {
	command := commandOf(nil, []*write{newWrite(ops, counted)}, sentHeader(counted, hasReads(ops)))
	existed, err := n.elsewhere(ctx, shardID, pathWrite, "", command, false)
	if err == nil && counted && len(existed) != len(ops) && !hasReads(ops) {
		return nil, fmt.Errorf("%w: an answer of %d bytes", service.ErrUnknown, len(existed))
	}
	return existed, err
}

// writeAt sends a command to the node of a replica, which must lead the shard.
func (n *Node) writeAt(ctx context.Context, shardID, replicaID uint64, command []byte) ([]byte,
	error) {
	d := n.directory.Load()
	for _, p := range d.Shards[shardID].Replicas {
		if p.ReplicaID == replicaID {
			return n.post(ctx, d.Nodes[p.NodeID].AdminAddress, pathWrite,
				fmt.Sprintf("shard=%d&leader=1", shardID), command)
		}
	}
	n.nudgeReconciler()
	return nil, fmt.Errorf("%w: replica %d of shard %d", errNotHere, replicaID, shardID)
}

func (n *Node) readRemote(ctx context.Context, shardID uint64, keys []uint64,
	c service.Consistency) ([][]byte, error) {
	var body []byte
	for _, key := range keys {
		body = binary.BigEndian.AppendUint64(body, key)
	}
	answer, err := n.elsewhere(ctx, shardID, pathRead, "c="+strconv.Itoa(int(c)), body, true)
	if err != nil {
		return nil, err
	}
	return decodeValues(answer, len(keys), n.ValueBytes())
}

// Values are sent as a byte each, 1 if there is a value, which follows.
func encodeValues(values [][]byte, valueBytes int) []byte {
	body := make([]byte, 0, len(values)*(1+valueBytes))
	for _, value := range values {
		if value == nil {
			body = append(body, 0)
			continue
		}
		body = append(append(body, 1), value...)
	}
	return body
}

func decodeValues(body []byte, count, valueBytes int) ([][]byte, error) {
	values := make([][]byte, count)
	for i := range values {
		if len(body) == 0 || body[0] == 1 && len(body) < 1+valueBytes {
			return nil, fmt.Errorf("%w: a short answer", service.ErrUnavailable)
		}
		there := body[0] == 1
		body = body[1:]
		if there {
			values[i] = body[:valueBytes:valueBytes]
			body = body[valueBytes:]
		}
	}
	return values, nil
}

// scanRemote fills the query.
func (n *Node) scanRemote(ctx context.Context, shardID uint64, q *replica.ScanQuery,
	c service.Consistency) error {
	if err := n.lookRemote(ctx, shardID, pathScan, q, c); err != nil {
		return err
	}
	if len(q.Keys) > q.Limit || q.WithValues && len(q.Values) != len(q.Keys)*n.ValueBytes() {
		return fmt.Errorf("%w: a malformed answer", service.ErrUnavailable)
	}
	return nil
}

// lookRemote sends a query as JSON, and fills it with the answer.
func (n *Node) lookRemote(ctx context.Context, shardID uint64, path string, query any,
	c service.Consistency) error {
	body, err := json.Marshal(query)
	if err != nil {
		return fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	answer, err := n.elsewhere(ctx, shardID, path, "c="+strconv.Itoa(int(c)), body, true)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, query); err != nil {
		return fmt.Errorf("%w: a malformed answer: %w", service.ErrUnavailable, err)
	}
	return nil
}

// Handlers gives what the admin server answers to other nodes, by path.
func (n *Node) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		pathWrite:     n.handler(n.serveWrite),
		pathRead:      n.handler(n.serveRead),
		pathScan:      n.handler(n.serveScan),
		pathCount:     n.handler(n.serveCount),
		pathDirectory: n.handler(n.serveDirectory),
		pathJoin:      n.handler(n.serveJoin),
		pathHello:     n.handler(n.serveHello),
		pathControl:   n.handler(n.serveControl),
		pathStream:    http.HandlerFunc(n.serveStream),
		pathReplicas:  n.handler(n.serveReplicas),
		pathVersion:   n.handler(n.serveVersion),
		pathHash:      n.handler(n.serveHash),
		pathRoom:      n.handler(n.serveRoom),
	}
}

func (c *call) data() (*shard, error) {
	if c.shard == nil || c.shard.replica == nil {
		return nil, errNotHere
	}
	return c.shard, nil
}

func (n *Node) serveWrite(c call) ([]byte, error) {
	s, err := c.data()
	if err != nil {
		return nil, err
	}
	header, ops, count, reads, err := s.replica.CheckCommand(c.body)
	if errors.Is(err, replica.ErrMoved) {
		return nil, errMoved
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrInvalid, err)
	}
	w := &write{sentOn: c.query("leader") != "", encoded: ops, opCount: count,
		counted: header.Counted, reads: header.Reads}
	if header.Reads && n.commands() < replica.ReadsVersion {
		return nil, errNoReads
	}
	if w.sentOn && !s.leads() {
		return nil, errNotHere
	}
	// Nodes without the shard move to another replica before this node's connections end.
	if !w.sentOn && n.draining.Load() {
		return nil, errNotHere
	}
	ctx, cancel, err := n.boundOf(c)
	if err != nil {
		return nil, err
	}
	defer cancel()
	// The proposal is a copy, and the answer has the values of reads.
	if err := c.hold(len(c.body) + reads*s.replica.FoundBytes()); err != nil {
		return nil, err
	}
	return s.proposer.do(ctx, w)
}

func (n *Node) serveRead(c call) ([]byte, error) {
	s, err := c.data()
	if err != nil {
		return nil, err
	}
	if len(c.body) > 8*maxPeerKeys {
		return nil, fmt.Errorf("%w: more than %d keys", service.ErrInvalid, maxPeerKeys)
	}
	var keys []uint64
	for chunk := range slices.Chunk(c.body, 8) {
		if len(chunk) != 8 {
			return nil, fmt.Errorf("%w: a short key", service.ErrUnavailable)
		}
		keys = append(keys, binary.BigEndian.Uint64(chunk))
	}
	if err := c.hold(readBytes(len(keys), n.ValueBytes())); err != nil {
		return nil, err
	}
	values, release, err := s.read(c.ctx, keys, c.consistency())
	if err != nil {
		return nil, err
	}
	defer release()
	return encodeValues(values, n.ValueBytes()), nil
}

func (n *Node) serveScan(c call) ([]byte, error) { return serveLook(c, &replica.ScanQuery{}) }

const (
	// jsonCopies is how often the values of a scan lie in memory while they become JSON. They are
	// there as they were found, in the encoder's buffer, and in the answer: a third larger in each of
	// these.
	jsonCopies = 4
	// peerKeyBytes is what a key takes beside its value. A scan has it as a number, and twice as up to
	// 20 digits. A read has it with its result and the slice of its value.
	peerKeyBytes = 64
)

// readBytes is what the values of a read take: as they were found, and in the answer.
func readBytes(keys, valueBytes int) int { return keys * (peerKeyBytes + 2*(1+valueBytes)) }

func (n *Node) serveCount(c call) ([]byte, error) { return serveLook(c, &replica.CountQuery{}) }

// scanBytes bounds what a scan takes. A limit that the replica refuses takes nothing.
func scanBytes(q *replica.ScanQuery, valueBytes int) int {
	each := peerKeyBytes
	if q.WithValues {
		each += jsonCopies * valueBytes
	}
	if q.Limit < 1 || q.Limit > replica.MaxScanLimit {
		return 0
	}
	return q.Limit * each
}

func serveLook(c call, query any) ([]byte, error) {
	s, err := c.data()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(c.body, query); err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrUnavailable, err)
	}
	if scan, ok := query.(*replica.ScanQuery); ok {
		if err := c.hold(scanBytes(scan, s.replica.ValueBytes())); err != nil {
			return nil, err
		}
	}
	if err := s.look(c.ctx, query, c.consistency()); err != nil {
		return nil, err
	}
	return json.Marshal(query)
}

func (n *Node) serveDirectory(c call) ([]byte, error) {
	if c.query("newest") == "" {
		return json.Marshal(n.directory.Load())
	}
	if n.shard(directoryShard) == nil {
		return nil, errNotHere
	}
	d, err := n.tryReadDirectory(c.ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(d)
}
