package raftlog

import (
	"container/list"
	"sync"
)

// tails bounds what all replicas of a node keep of the ends of their logs. Fixed shares would be
// smaller than one entry where a node has many replicas, and an idle replica needs none. So a
// replica takes what it needs, and the one that logged longest ago gives its oldest entries up.
//
// Its mutex is locked before that of a replicaLog.
type tails struct {
	limit uint64

	mu    sync.Mutex
	total uint64
	// Elements are of *kept. The replica that logged last is at the back.
	order  *list.List
	places map[*replicaLog]*list.Element
}

// kept is a replica, and the bytes of its tail that are a part of the total.
type kept struct {
	replica *replicaLog
	bytes   uint64
}

func newTails(limit uint64) tails {
	return tails{limit: limit, order: list.New(), places: map[*replicaLog]*list.Element{}}
}

// note is called when a replica has logged entries. It brings the sum of all tails below the limit.
func (t *tails) note(r *replicaLog) {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := t.places[r]
	if place == nil {
		place = t.order.PushBack(&kept{replica: r})
		t.places[r] = place
	}
	t.order.MoveToBack(place)
	t.shrink(place, tailBytes)
	for t.total > t.limit {
		first := t.order.Front()
		bytes := first.Value.(*kept).bytes
		t.shrink(first, bytes-min(bytes, t.total-t.limit))
	}
}

// shrink cuts the tail of a replica to a limit. A replica without a tail leaves the order.
func (t *tails) shrink(place *list.Element, limit uint64) {
	k := place.Value.(*kept)
	bytes := k.replica.shrinkTail(limit)
	t.total, k.bytes = t.total-k.bytes+bytes, bytes
	if bytes == 0 {
		t.order.Remove(place)
		delete(t.places, k.replica)
	}
}

// forget drops a removed replica from the order.
func (t *tails) forget(r *replicaLog) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if place := t.places[r]; place != nil {
		t.shrink(place, 0)
	}
}
