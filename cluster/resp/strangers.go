package resp

import (
	"container/list"
	"net"
)

// strangers are connections whose clients are not known yet: they are in a TLS handshake, or have
// not shown a password that the node demands. They have few places and bytes of their own, so that
// they take none of the users'. Beyond the places the oldest connection ends: a user is not a
// stranger for long. The server's mutex guards them.
type strangers struct {
	limit  int
	order  list.List // of net.Conn, the oldest first
	places map[net.Conn]*list.Element
}

// add gives the socket of a stranger a place. It answers the one that lost its place, or nil.
func (s *strangers) add(socket net.Conn) (oldest net.Conn) {
	if s.places[socket] != nil {
		return nil
	}
	s.places[socket] = s.order.PushBack(socket)
	if s.order.Len() <= s.limit {
		return nil
	}
	oldest = s.order.Front().Value.(net.Conn)
	s.remove(oldest)
	return oldest
}

// remove is also for sockets that have no place.
func (s *strangers) remove(socket net.Conn) {
	if place := s.places[socket]; place != nil {
		s.order.Remove(place)
		delete(s.places, socket)
	}
}

// addStranger gives a place to a socket. The caller holds the mutex.
func (s *Server) addStranger(socket net.Conn) {
	if oldest := s.strangers.add(socket); oldest != nil {
		s.counters.StrangersEnded.Add(1)
		_ = oldest.Close()
	}
}

// classify makes the client a stranger or a user, as its last round has left it.
func (c *client) classify() {
	s := c.server
	if c.isStranger == !c.authed {
		return
	}
	c.isStranger = !c.authed
	socket := rawConn(c.conn)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if c.isStranger {
		c.account.MoveTo(s.strangersBudget)
		s.addStranger(socket)
	} else {
		c.account.MoveTo(s.budget)
		s.strangers.remove(socket)
	}
}
