package transport

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"engine_race/cluster/secret"
)

// version of the frames and of what they mean.
const version = 1

// The purposes of connections.
const (
	forMessages = "messages"
	forSnapshot = "snapshot"
)

// greeting is the first frame of the dialling side.
type greeting struct {
	Version    int    `json:"version"`
	Deployment uint64 `json:"deployment"` // of the cluster
	From       uint64 `json:"from"`       // a node's number
	Address    string `json:"address"`    // of that node
	To         uint64 `json:"to"`         // the number of the node that it wants; 0: any
	Purpose    string `json:"purpose"`
	Secret     string `json:"secret,omitempty"`
}

// welcome is the answer. Refused says why not.
type welcome struct {
	From    uint64 `json:"from"`
	Refused string `json:"refused,omitempty"`
}

// jsonText is a frame's payload.
type jsonText []byte

func (j jsonText) MarshalTo(to []byte) (int, error) { return copy(to, j), nil }

func writeJSON(conn net.Conn, kind frameKind, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return (&writer{conn: conn}).write(kind, nil, jsonText(text), len(text))
}

func readJSON(conn net.Conn, deadline time.Time, kind frameKind, value any) error {
	payload, err := (&reader{conn: conn}).next(deadline, kind)
	if err != nil {
		return err
	}
	return json.Unmarshal(payload, value)
}

// greet finds out who dialled. It gives the connection to go on with.
func (t *Transport) greet(conn net.Conn) (net.Conn, *greeting, error) {
	deadline := time.Now().Add(t.options.handshakeTimeout)
	var secure *tls.Conn
	if t.options.Server != nil {
		secure = tls.Server(conn, t.options.Server)
		ctx, cancel := context.WithDeadline(t.ctx, deadline)
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, nil, err
		}
		conn = secure
	}
	g := &greeting{}
	if err := readJSON(conn, deadline, helloFrame, g); err != nil {
		return nil, nil, err
	}
	answer := welcome{From: t.options.Node}
	refusal := t.refuse(g, secure)
	if refusal != nil {
		answer.Refused = refusal.Error()
	}
	if err := writeJSON(conn, welcomeFrame, answer); err != nil {
		return nil, nil, err
	}
	return conn, g, refusal
}

// refuse says what is wrong with a greeting, if anything.
func (t *Transport) refuse(g *greeting, secure *tls.Conn) error {
	switch known := t.options.Peers.RaftAddress(g.From); {
	case g.Version != version:
		return fmt.Errorf("this node talks version %d, not %d", version, g.Version)
	case g.Deployment != t.deployment:
		return errors.New("this node belongs to another cluster")
	case !secret.Equal(g.Secret, t.options.Secret):
		return errors.New("the secret of the cluster is wrong")
	case g.To != 0 && g.To != t.options.Node:
		return fmt.Errorf("this is node %d, not %d", t.options.Node, g.To)
	case g.Purpose != forMessages && g.Purpose != forSnapshot:
		return fmt.Errorf("no connection is for %q", g.Purpose)
	case g.From == 0 || !ValidAddress(g.Address):
		return fmt.Errorf("node %d at %q is none", g.From, g.Address)
	case known != "" && known != g.Address:
		return fmt.Errorf("node %d is at %s, not at %s", g.From, known, g.Address)
	}
	if secure == nil {
		return nil
	}
	host, _, err := net.SplitHostPort(g.Address)
	if err == nil {
		err = secure.ConnectionState().PeerCertificates[0].VerifyHostname(host)
	}
	if err != nil {
		return fmt.Errorf("the certificate is not that of node %d: %w", g.From, err)
	}
	return nil
}

// dial reaches a peer and greets it. Both take as long as their time-outs permit.
func (t *Transport) dial(ctx context.Context, target, purpose string) (net.Conn, error) {
	conn, err := Dial(ctx, target, t.options.Client)
	if err != nil {
		return nil, err
	}
	wanted := t.options.Peers.NodeAt(target)
	if err := t.introduce(ctx, conn, wanted, purpose); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// introduce says who this node is, and makes sure that the other side is the wanted node.
func (t *Transport) introduce(ctx context.Context, conn net.Conn, wanted uint64,
	purpose string) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	err := writeJSON(conn, helloFrame, greeting{Version: version, Deployment: t.deployment,
		From: t.options.Node, Address: t.address, To: wanted, Purpose: purpose,
		Secret: t.options.Secret})
	if err != nil {
		return err
	}
	var answer welcome
	err = readJSON(conn, time.Now().Add(handshakeTimeout), welcomeFrame, &answer)
	switch {
	case err != nil:
		return err
	case answer.Refused != "":
		return fmt.Errorf("refused: %s", answer.Refused)
	case wanted != 0 && answer.From != wanted:
		return fmt.Errorf("this is node %d, not %d", answer.From, wanted)
	}
	return conn.SetDeadline(time.Time{})
}

// decode gives the batch of a frame. It refuses what would end the process: messages of kinds that
// no node sends, and those of a replica that another node has.
func (t *Transport) decode(payload []byte, peer *greeting) (raftpb.MessageBatch, error) {
	var batch raftpb.MessageBatch
	if err := batch.Unmarshal(payload); err != nil {
		return batch, err
	}
	if batch.SourceAddress != peer.Address {
		return batch, fmt.Errorf("a batch of %q", batch.SourceAddress)
	}
	for i := range batch.Requests {
		m := &batch.Requests[i]
		if !sentTypes[m.Type] || m.To == 0 {
			return batch, fmt.Errorf("a message of kind %d to replica %d", m.Type, m.To)
		}
		if owner := t.options.Peers.OwnerOf(m.ShardID, m.From); owner != 0 && owner != peer.From {
			return batch, fmt.Errorf("replica %d of shard %d belongs to node %d, not to %d", m.From,
				m.ShardID, owner, peer.From)
		}
	}
	return batch, nil
}
