// Package respload is a driver that speaks RESP. Each client has a connection of its own, and waits
// for the answers of a call before the next one. One goroutine serves all of them by epoll: the
// load takes as little as it can of a machine that it shares with the servers.
//
// Do may be called from any goroutine. Each call has clients of its own.
package respload

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"engine_race/cluster/bench/load"
)

const (
	dialTimeout = 2 * time.Second
	callTimeout = 5 * time.Second
	// Between two looks for calls without an answer.
	checkInterval = 100 * time.Millisecond
)

// driver has the clients of an order.
type driver struct {
	clients []*client
	epoll   int
	working int       // clients whose work is not done
	pausing []*client // until their times
	checked time.Time
}

// Do works off an order against its addresses. Client number i connects to address i modulo their
// count.
func Do(work load.Work) (load.Figures, error) {
	if len(work.Addresses) == 0 {
		return load.Figures{}, errors.New("the order names no address")
	}
	switch work.Kind {
	case load.Fill, load.Write, load.Read, load.LocalRead:
	default:
		return load.Figures{}, fmt.Errorf("RESP clients cannot do %q", work.Kind)
	}
	calls, err := load.NewClients(work)
	if err != nil {
		return load.Figures{}, err
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return load.Figures{}, fmt.Errorf("epoll_create1: %w", err)
	}
	defer unix.Close(epoll)
	d := &driver{epoll: epoll, working: len(calls), checked: time.Now()}
	for i, one := range calls {
		c := &client{calls: one, number: i, socket: -1, epoll: epoll,
			address: work.Addresses[i%len(work.Addresses)], local: work.Kind == load.LocalRead,
			valueBytes: work.Size(), valueHeader: fmt.Appendf(nil, "$%d", work.Size()),
			buffer: make([]byte, max(bufferBytes, 2*work.Size()))}
		defer c.close()
		d.clients = append(d.clients, c)
	}
	began := time.Now()
	err = d.run()
	return load.Sum(calls, time.Since(began)), err
}

func (d *driver) run() error {
	for _, c := range d.clients {
		d.nextAfter(c, 0)
	}
	events := make([]unix.EpollEvent, len(d.clients))
	for d.working > 0 {
		wait := checkInterval
		if len(d.pausing) > 0 {
			wait = load.ErrorPause
		}
		count, err := unix.EpollWait(d.epoll, events, int(wait.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		for _, event := range events[:max(count, 0)] {
			c := d.clients[event.Fd]
			if done, err := c.receive(); done || err != nil {
				d.note(c, err)
			}
		}
		d.check()
	}
	return nil
}

// check ends calls without an answer and pauses that are over.
func (d *driver) check() {
	if len(d.pausing) == 0 && time.Since(d.checked) < checkInterval {
		return
	}
	d.checked = time.Now()
	waiting := d.pausing
	d.pausing = nil
	for _, c := range waiting {
		if c.resumes.After(d.checked) {
			d.pausing = append(d.pausing, c)
			continue
		}
		d.next(c)
	}
	for _, c := range d.clients {
		if c.calling && d.checked.Sub(c.sent) > callTimeout {
			d.note(c, errors.New("no answer in time"))
		}
	}
}

// note counts a call that has ended, and begins the next one.
func (d *driver) note(c *client, err error) {
	c.calling, c.ended = false, time.Now()
	var refusal refusalError
	if err != nil && !errors.As(err, &refusal) {
		c.close()
	}
	pause := load.ErrorPause
	if c.calls.Note(c.ended.Sub(c.sent), c.missing, err) {
		pause = 0
	}
	d.nextAfter(c, pause)
}

// nextAfter begins the client's next call after a pause, and not before it is due.
func (d *driver) nextAfter(c *client, pause time.Duration) {
	if pause = max(pause, c.calls.Wait()); pause <= 0 {
		d.next(c)
		return
	}
	c.resumes = time.Now().Add(pause)
	d.pausing = append(d.pausing, c)
}

// next begins the client's next call, if it has one.
func (d *driver) next(c *client) {
	keys, value, more := c.calls.Next()
	if !more {
		d.working--
		return
	}
	if err := c.call(keys, value); err != nil {
		d.note(c, err)
	}
}
