package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"engine_race/cluster/budget"
	"engine_race/cluster/service"
)

// call is a request of another node.
type call struct {
	ctx     context.Context
	shard   *shard // nil: not here
	query   func(name string) string
	body    []byte
	account *budget.Account // holds the body
}

// hold takes bytes in flight until the call ends.
func (c *call) hold(bytes int) error {
	if !c.account.Acquire(int64(bytes), busyWait) {
		return fmt.Errorf("%w: too many bytes are in flight", service.ErrBusy)
	}
	return nil
}

// defaultTimeout bounds calls that name none.
const defaultTimeout = 10 * time.Second

func (n *Node) handler(serve func(c call) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		timeout := defaultTimeout
		if ms, err := strconv.Atoi(query.Get("timeout_ms")); err == nil && ms > 0 {
			timeout = time.Duration(ms) * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		c := call{ctx: ctx, query: query.Get, account: n.config.Budget.Open()}
		defer c.account.Close()
		if id, err := strconv.ParseUint(query.Get("shard"), 10, 64); err == nil {
			c.shard = n.shard(id)
		}
		answer, err := c.answer(w, r, timeout, serve)
		n.tellClock(w)
		if err != nil {
			w.Header().Set(errorHeader, kindOf(err))
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		w.Write(answer)
	})
}

// answer reads the body when there is room for it. A node that is cut off while it sends holds that
// room no longer than the call may take.
func (c *call) answer(w http.ResponseWriter, r *http.Request, timeout time.Duration,
	serve func(c call) ([]byte, error)) ([]byte, error) {
	if r.ContentLength < 0 || r.ContentLength > maxBodyBytes {
		return nil, fmt.Errorf("%w: a body of %d bytes", service.ErrInvalid, r.ContentLength)
	}
	if err := c.hold(int(r.ContentLength)); err != nil {
		return nil, err
	}
	// Only connections of tests have no deadlines.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
	var err error
	if c.body, err = readBody(r.Body, r.ContentLength); err != nil {
		return nil, err
	}
	return serve(*c)
}

// readBody reads a body of `length` bytes; -1: it has not told how many. Its memory does not grow
// step by step, which would take twice as much.
func readBody(body io.Reader, length int64) ([]byte, error) {
	if length > maxBodyBytes {
		return nil, fmt.Errorf("a body of %d bytes, more than %d", length, maxBodyBytes)
	}
	if length < 0 {
		return io.ReadAll(io.LimitReader(body, maxBodyBytes))
	}
	data := make([]byte, length)
	_, err := io.ReadFull(body, data)
	return data, err
}

func (c *call) consistency() service.Consistency {
	if c.query("c") == strconv.Itoa(int(service.Local)) {
		return service.Local
	}
	return service.Linearizable
}
