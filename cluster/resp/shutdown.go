package resp

import (
	"context"
	"io"
	"net"
	"time"
)

// lingerTime is how long a closed connection is read to its end, and lingerBytes how far. Closing a
// socket with unread bytes would make the kernel reset the connection, and replies might be lost.
const (
	lingerTime  = 250 * time.Millisecond
	lingerBytes = 1 << 20
)

// closeGently ends the stream of replies, reads what the client still sends, and closes.
func closeGently(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		deadline := time.Now().Add(lingerTime)
		_ = conn.SetDeadline(deadline)
		if half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(conn, lingerBytes))
		}
	}
	_ = conn.Close()
}

// stopPatience is how long calls of the service may go on when Shutdown's context has ended. As
// long may connections take to end after that.
const stopPatience = 4 * lingerTime

// Shutdown drains the server. It accepts no connections any more, and closes those that are silent
// for Limits.DrainIdle. Others are served until ctx ends. Then calls that are under way may end,
// the next commands of each connection are refused, and the connections are closed. Calls that take
// more than stopPatience longer are cancelled. It answers nil if every connection had become
// silent, ctx's error otherwise.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		s.cancel()
		return nil
	case <-ctx.Done():
	}
	s.stop()
	for _, next := range []func(){s.cancel, s.closeAll} {
		select {
		case <-ended:
		case <-time.After(stopPatience):
			next()
		}
	}
	<-ended
	s.cancel()
	return ctx.Err()
}

// Close ends all connections at once. Requests under way may stay without a reply.
func (s *Server) Close() error {
	s.drain()
	s.stop()
	s.cancel()
	s.closeAll()
	s.running.Wait()
	return nil
}

// drain closes the listeners and lets connections that are silent end. Strangers end even within a
// handshake or a command: nobody waits for them.
func (s *Server) drain() {
	s.mutex.Lock()
	s.draining.Store(true)
	for listener := range s.listeners {
		_ = listener.Close()
	}
	for conn := range s.pending {
		_ = conn.SetDeadline(time.Now().Add(s.limits.DrainIdle))
	}
	unknown := map[*client]bool{}
	for c := range s.clients {
		unknown[c] = c.place != nil
	}
	s.mutex.Unlock()
	for c, stranger := range unknown {
		c.hurry(s.limits.DrainIdle, stranger)
	}
}

// stop lets every connection end after its round, or refuse the next one and end.
func (s *Server) stop() {
	s.mutex.Lock()
	s.stopping.Store(true)
	s.mutex.Unlock()
	for _, c := range s.snapshotClients() {
		c.hurry(s.limits.DrainIdle, true)
	}
}

// closeAll closes all sockets.
func (s *Server) closeAll() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for c := range s.clients {
		_ = rawConn(c.conn).Close()
	}
	for conn := range s.pending {
		_ = conn.Close()
	}
}

// rawConn gives the socket below TLS, whose Close might wait for the client.
func rawConn(conn net.Conn) net.Conn {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return secure.NetConn()
	}
	return conn
}

// hurry lets a read of the client end within `wait`. A client that waits for the rest of a command
// is left alone unless `all`.
func (c *client) hurry(wait time.Duration, all bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.waiting && (c.fresh || all) {
		_ = c.conn.SetReadDeadline(time.Now().Add(wait))
	}
}
