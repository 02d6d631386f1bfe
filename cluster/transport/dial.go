package transport

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// silentTime ends a connection whose bytes nobody confirms: the peer, or the way to it, is gone.
const silentTime = time.Second

// keepAlive finds dead peers of connections on which nothing is sent.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second,
	Count: 3}

// Dial connects with another node, by TLS if `secure` is not nil. Its errors are those of the
// operation "dial": nothing was sent to anybody then. A connection breaks when the other side
// confirms nothing of what was sent for silentTime.
func Dial(ctx context.Context, address string, secure func() *tls.Config) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectTimeout, KeepAliveConfig: keepAlive,
		Control: func(_, _ string, raw syscall.RawConn) error {
			return raw.Control(func(fd uintptr) {
				// A kernel that refuses it finds dead peers later.
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
					int(silentTime.Milliseconds()))
			})
		}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil || secure == nil {
		return conn, err
	}
	config := secure()
	if config.ServerName, _, err = net.SplitHostPort(address); err == nil {
		client := tls.Client(conn, config)
		limited, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		if err = client.HandshakeContext(limited); err == nil {
			return client, nil
		}
	}
	_ = conn.Close()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: conn.RemoteAddr(), Err: err}
}
