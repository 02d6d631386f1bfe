package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"engine_race/cluster/service"
)

// A part of a call, of one shard: the places of its keys in the call. A call's only part has no
// list of them.
type part struct {
	number  int
	shardID uint64
	places  []int
}

// place gives the place in the call of the part's key i.
func (p *part) place(i int) int {
	if p.places == nil {
		return i
	}
	return p.places[i]
}

// parts groups the places of keys by shard, in the order of the first key of each.
func (d *Directory) parts(count int, keyAt func(i int) uint64) []part {
	shardOf := func(i int) uint64 { return d.Ranges.ShardOf(keyAt(i)) }
	same := 0
	for same < count && shardOf(same) == shardOf(0) {
		same++
	}
	if same == count && count > 0 {
		return []part{{shardID: shardOf(0)}}
	}
	var parts []part
	index := map[uint64]int{}
	for i := range count {
		shardID := shardOf(i)
		at, known := index[shardID]
		if !known {
			at = len(parts)
			index[shardID] = at
			parts = append(parts, part{number: at, shardID: shardID})
		}
		parts[at].places = append(parts[at].places, i)
	}
	return parts
}

// ValueBytes implements service.Service.
func (n *Node) ValueBytes() int { return n.state.Genesis.valueBytes() }

func (n *Node) checkValues(ops []service.Op) error {
	for _, op := range ops {
		if op.Value != nil && len(op.Value) != n.ValueBytes() {
			return fmt.Errorf("%w: a value of %d bytes, and not %d", service.ErrUnavailable,
				len(op.Value), n.ValueBytes())
		}
	}
	return nil
}

// Write implements service.Service.
func (n *Node) Write(ctx context.Context, ops []service.Op, counted bool) ([]bool, error) {
	if err := n.checkValues(ops); err != nil {
		return nil, err
	}
	return n.writeOps(ctx, ops, counted)
}

func (n *Node) writeOps(ctx context.Context, ops []service.Op, counted bool) ([]bool, error) {
	var existed []bool
	if counted {
		existed = make([]bool, len(ops))
	}
	d := n.directory.Load()
	parts := d.parts(len(ops), func(i int) uint64 { return ops[i].Key })
	err := writeError(forEach(parts, func(p part) error {
		mine := ops
		if len(parts) > 1 {
			mine = make([]service.Op, len(p.places))
			for i, place := range p.places {
				mine[i] = ops[place]
			}
		}
		there, err := n.writeShard(ctx, p.shardID, mine, counted)
		if errors.Is(err, errMoved) && n.awaitRoute(ctx, d) {
			var again []bool
			again, err = n.writeOps(ctx, mine, counted)
			for i, was := range again {
				existed[p.place(i)] = was
			}
			return err
		}
		if err == nil && counted {
			for i, was := range there {
				existed[p.place(i)] = was != 0
			}
		}
		return err
	}))
	if err != nil {
		return nil, err
	}
	return existed, nil
}

// forEach runs the parts of a call side by side, and gives their errors.
func forEach(parts []part, do func(p part) error) []error {
	errs := make([]error, len(parts))
	if len(parts) == 1 {
		errs[0] = do(parts[0])
		return errs
	}
	var group sync.WaitGroup
	for i, p := range parts {
		group.Go(func() { errs[i] = do(p) })
	}
	group.Wait()
	return errs
}

// writeError gives the error of a write. When only some of its parts fail, the outcome of the whole
// is unknown.
func writeError(errs []error) error {
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	all := errors.Join(errs...)
	if failed == 0 || failed == len(errs) && !errors.Is(all, service.ErrUnknown) || len(errs) == 1 {
		return firstOf(errs)
	}
	return fmt.Errorf("%w: %d of %d shards failed: %w", service.ErrUnknown, failed, len(errs),
		firstOf(errs))
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// serving gives the replica here that answers for a shard, or nil. One that was added answers when
// it has caught up: until then others are faster, or it is no member yet.
func (n *Node) serving(shardID uint64, c service.Consistency) *shard {
	s := n.shard(shardID)
	if s != nil && s.joined && !s.caughtUp.Load() && c == service.Linearizable &&
		len(n.directory.Load().Shards[shardID].Replicas) > 1 {
		return nil
	}
	return s
}

func (n *Node) writeShard(ctx context.Context, shardID uint64, ops []service.Op,
	counted bool) ([]byte, error) {
	if s := n.serving(shardID, service.Linearizable); s != nil {
		existed, err := s.proposer.do(ctx, newWrite(ops, counted))
		if !errors.Is(err, errNotHere) {
			return existed, err
		}
	}
	return n.writeRemote(ctx, shardID, ops, counted)
}

// Read implements service.Service.
func (n *Node) Read(ctx context.Context, keys []uint64, c service.Consistency) ([][]byte, func(),
	error) {
	d := n.directory.Load()
	if len(keys) == 1 {
		return n.readPart(ctx, d, d.Ranges.ShardOf(keys[0]), keys, c)
	}
	parts := d.parts(len(keys), func(i int) uint64 { return keys[i] })
	if len(parts) == 1 {
		return n.readPart(ctx, d, parts[0].shardID, keys, c)
	}
	return n.readParts(ctx, d, parts, keys, c)
}

// readPart reads keys that belong to a shard as the directory has it.
func (n *Node) readPart(ctx context.Context, d *Directory, shardID uint64, keys []uint64,
	c service.Consistency) ([][]byte, func(), error) {
	values, release, err := n.readShard(ctx, shardID, keys, c)
	if errors.Is(err, errMoved) && n.awaitRoute(ctx, d) {
		return n.Read(ctx, keys, c)
	}
	return values, release, err
}

// readParts reads the parts of a call side by side.
func (n *Node) readParts(ctx context.Context, d *Directory, parts []part, keys []uint64,
	c service.Consistency) ([][]byte, func(), error) {
	values := make([][]byte, len(keys))
	releases := make([]func(), len(parts))
	release := func() {
		for _, one := range releases {
			if one != nil {
				one()
			}
		}
	}
	// A read that failed in part has done nothing.
	err := firstOf(forEach(parts, func(p part) error {
		mine := make([]uint64, len(p.places))
		for i, place := range p.places {
			mine[i] = keys[place]
		}
		got, free, err := n.readPart(ctx, d, p.shardID, mine, c)
		if err == nil {
			releases[p.number] = free
			for i, place := range p.places {
				values[place] = got[i]
			}
		}
		return err
	}))
	if err != nil {
		release()
		return nil, nil, err
	}
	return values, release, nil
}

// readError: a read whose outcome is unknown has done nothing.
func readError(err error) error {
	if errors.Is(err, service.ErrUnknown) {
		return fmt.Errorf("%w: %s", service.ErrUnavailable, err)
	}
	return err
}

func (n *Node) readShard(ctx context.Context, shardID uint64, keys []uint64,
	c service.Consistency) (values [][]byte, release func(), err error) {
	if s := n.serving(shardID, c); s != nil {
		values, release, err = s.read(ctx, keys, c)
		if !othersMayAnswer(err) {
			return values, release, err
		}
	}
	here := err
	values, err = n.readRemote(ctx, shardID, keys, c)
	return values, func() {}, unlessDamaged(here, err)
}

// othersMayAnswer tells whether a read that failed here may succeed on another node.
func othersMayAnswer(err error) bool {
	return errors.Is(err, errNotHere) || errors.Is(err, service.ErrCorrupt) ||
		errors.Is(err, errMoved)
}

// unlessDamaged gives the error of a read that others were asked for. If they cannot answer either,
// the damage here is what the client must know. A read of keys that have moved is routed again.
func unlessDamaged(here, elsewhere error) error {
	if elsewhere != nil && (errors.Is(here, service.ErrCorrupt) || errors.Is(here, errMoved)) {
		return here
	}
	return elsewhere
}

// Info implements service.Service.
func (n *Node) Info() []service.InfoSection {
	d := n.directory.Load()
	cluster := service.InfoSection{Name: "Cluster", Fields: [][2]string{
		{"cluster_name", n.state.Genesis.Cluster},
		{"value_bytes", strconv.Itoa(n.ValueBytes())},
		{"node_id", strconv.FormatUint(n.state.NodeID, 10)},
		{"nodes", strconv.Itoa(len(d.Nodes))},
		{"shards", strconv.Itoa(len(d.Ranges))},
	}}
	replicas := service.InfoSection{Name: "Replicas"}
	for _, s := range n.localShards() {
		if s.replica == nil {
			continue
		}
		replicas.Fields = append(replicas.Fields, [2]string{
			fmt.Sprintf("shard%d", s.shardID),
			fmt.Sprintf("replica=%d,leader=%t,applied=%d,synced=%d", s.replicaID, s.leads(),
				s.replica.Applied(), s.replica.Synced()),
		})
	}
	return []service.InfoSection{cluster, replicas}
}

// StoreMetrics gives the metrics of the stores here in Prometheus' text format, by shard.
func (n *Node) StoreMetrics() map[string]string {
	all := map[string]string{}
	for _, s := range n.localShards() {
		if s.replica == nil {
			continue
		}
		if text, err := s.replica.Metrics(); err == nil {
			all[strconv.FormatUint(s.shardID, 10)] = text
		}
	}
	return all
}
