package wire

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

func TestClassify(t *testing.T) {
	tests := []struct {
		err  error
		want Outcome
	}{
		{nil, Done},
		{ErrorReply("UNKNOWN the write may or may not have been done: a time-out"), Unknown},
		{ErrorReply("UNAVAILABLE nothing was done: no leader"), Refused},
		{ErrorReply("BUSY limits"), Refused},
		{ErrorReply("FULL disk"), Refused},
		{ErrorReply("LOADING"), Refused},
		{ErrorReply("ERR a key has 8 bytes"), Unexpected},
		{ErrorReply("UNKNOWNISH"), Unexpected},
		{io.EOF, Unknown},
		{ErrProtocol, Unknown},
	}
	for _, test := range tests {
		if got := Classify(test.err); got != test.want {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
	}
}

// answered gives a connection whose server sends the text and closes.
func answered(t *testing.T, text string) *Conn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		conn.Read(make([]byte, 1))
		conn.Write([]byte(text))
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, conn)
	}()
	dialer := Dialer{Address: listener.Addr().String(), Timeout: 10 * time.Second}
	conn, err := dialer.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestRepliesAreParsed(t *testing.T) {
	values, err := answered(t, "*2\r\n$2\r\nab\r\n$-1\r\n").MGet([]uint64{1, 2})
	if err != nil || string(values[0]) != "ab" || values[1] != nil {
		t.Fatalf("%q, %v", values, err)
	}
	count, err := answered(t, ":1\r\n").Del(1)
	if err != nil || count != 1 {
		t.Fatalf("%d, %v", count, err)
	}
}

func TestBadRepliesAreUnknown(t *testing.T) {
	for _, text := range []string{"", "$5\r\nab", "$99999999999\r\n", "*3\r\n:1\r\n", "?\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", ":x\r\n", "\n", "*99999999\r\n"} {
		_, err := answered(t, text).Do([]byte("GET"), KeyBytes(1))
		var reply ErrorReply
		if err == nil || errors.As(err, &reply) || Classify(err) != Unknown {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestErrorRepliesKeepTheConnection(t *testing.T) {
	conn := answered(t, "-BUSY x\r\n+OK\r\n")
	if err := conn.Set(1, nil); Classify(err) != Refused {
		t.Fatal(err)
	}
	if err := conn.Set(1, nil); err != nil {
		t.Fatal(err)
	}
}
