package node

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// A connection may end while a write is on its way to another node: a node that stops closes those
// that are silent. No state machine recognises a write that it has applied, so a write that a
// receiver may have taken must not be sent again. The header of a write therefore asks the receiver
// for permission (Expect: 100-continue), and the command follows its answer. A receiver never holds
// a command that it did not ask for.
// When a node stops, it asks for no further ones, and answers those that it has: see package admin.

// offer is the command of such a call.
type offer struct {
	command bytes.Reader
	state   atomic.Int32
}

const (
	offered = iota
	asked
	revoked
)

var errRevoked = errors.New("the call has ended")

// makeOffer lets a request wait until its receiver asks for the command.
func makeOffer(request *http.Request, command []byte) *offer {
	o := &offer{}
	o.command.Reset(command)
	request.Body, request.ContentLength = o, int64(len(command))
	// net/http takes another connection where nothing was written: it must send this offer there, too.
	request.GetBody = func() (io.ReadCloser, error) { return o, nil }
	request.Header.Set("Expect", "100-continue")
	return o
}

// Read is called when the receiver has asked.
func (o *offer) Read(into []byte) (int, error) {
	if o.state.CompareAndSwap(offered, asked); o.state.Load() == revoked {
		return 0, errRevoked
	}
	return o.command.Read(into)
}

// Close is called at the end of a request that waits or has ended.
func (o *offer) Close() error { return nil }

// revoke ends the offer. True: no byte of the command was sent, and none will be.
func (o *offer) revoke() bool {
	return o.state.CompareAndSwap(offered, revoked) || o.state.Load() == revoked
}
