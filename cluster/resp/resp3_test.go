package resp

import (
	"fmt"
	"strings"
	"testing"

	"engine_race/cluster/testkit"
)

// TestResp3 has the replies whose encoding RESP3 changes, and those after the way back.
func TestResp3(t *testing.T) {
	_, store, address := start(t, Options{})
	store.records[keyNumber(keyText(1))] = []byte(valueText(1, 1))
	p := dial(t, address)
	hello := "server redis version 7.0.0 proto :%d id :1 mode standalone role master modules []"
	for _, step := range [][2]string{
		{"HELLO 3 SETNAME me", "{" + fmt.Sprintf(hello, 3) + "}"},
		{"HELLO", "{" + fmt.Sprintf(hello, 3) + "}"},
		{"GET k0000009", "(null)"},
		{"MGET k0000009 k", "[(null) (null)]"},
		{"EXISTS k0000001", ":1"},
		{"CLIENT GETNAME", "me"},
		{"CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command"},
		{"CONFIG GET save", "{save }"},
		{"COMMAND INFO get nix", "[[get :2 <+readonly +fast> :1 :1 :1 <> [] [] []] (null)]"},
		{"COMMAND DOCS ping", "{ping {summary Replies PONG, or its argument. since 1.0.0 group" +
			" connection}}"},
		{"HGETALL k0000009", "{}"},
		{"SMEMBERS k0000009", "<>"},
		{"HGET k0000009 f", "(null)"},
		{"INFO persistence", "txt:# Persistence\r\nloading:0\r\n"},
		{"CLIENT LIST ID 5", "txt:"},
		{"HELLO 2", "[" + fmt.Sprintf(hello, 2) + "]"},
		{"GET k0000009", "(nil)"},
		{"CONFIG GET save", "[save ]"},
		{"INFO persistence", "# Persistence\r\nloading:0\r\n"},
		{"HELLO 3 AUTH a b", "-WRONGPASS invalid username-password pair or user is disabled."},
		{"GET k0000009", "(nil)"},
		{"HELLO 3 NIX", "-ERR Syntax error in HELLO option 'NIX'"},
		{"HELLO 3", "{" + fmt.Sprintf(hello, 3) + "}"},
		{"RESET", "+RESET"},
		{"GET k0000009", "(nil)"},
	} {
		if got := p.do(strings.Fields(step[0])...); got != step[1] {
			t.Errorf("%s: got %q, expected %q", step[0], got, step[1])
		}
	}
	p.do("HELLO", "3")
	if got := p.do("CLIENT", "INFO"); !strings.HasSuffix(got, " resp=3\n") {
		t.Errorf("CLIENT INFO: %q", got)
	}
}

// TestLongTexts has a text that is sent without a copy.
func TestLongTexts(t *testing.T) {
	_, _, address := start(t, Options{})
	p := dial(t, address)
	p.do("HELLO", "3")
	long := strings.Repeat("x", 128)
	for range 250 {
		other := dial(t, address)
		other.do("CLIENT", "SETNAME", long)
		other.do("CLIENT", "SETINFO", "lib-name", long)
	}
	got := p.do("CLIENT", "LIST")
	if len(got) < flushBytes || !strings.HasPrefix(got, "txt:id=") ||
		strings.Count(got, "\n") != 251 {
		t.Errorf("%d bytes: %.100q", len(got), got)
	}
	if got := p.do("PING"); got != "+PONG" {
		t.Errorf("then %q", got)
	}
}

func TestKeys(t *testing.T) {
	_, store, address := start(t, Options{})
	for i := range uint64(MaxScanKeys + 500) {
		store.records[keyNumber(keyText(i))] = []byte("v")
	}
	store.records[keyNumber("z0000001")] = []byte("v")
	p := dial(t, address)
	for _, step := range [][2]string{
		{"KEYS k000010?", "[k0000100 k0000101 k0000102 k0000103 k0000104 k0000105 k0000106" +
			" k0000107 k0000108 k0000109]"},
		{"KEYS z*", "[z0000001]"},
		{"KEYS nix", "[]"},
		{"KEYS *", "-ERR KEYS gives at most 10000 keys, and more match: SCAN gives all of them"},
		{"KEYS " + strings.Repeat("*", patternBytes+1),
			"-ERR a pattern has at most 1024 bytes, not 1025"},
	} {
		if got := p.do(strings.Fields(step[0])...); got != step[1] {
			t.Errorf("%.40s: got %.200q, expected %q", step[0], got, step[1])
		}
	}
	for i := range uint64(501) {
		delete(store.records, keyNumber(keyText(i)))
	}
	if got := strings.Count(p.do("KEYS", "*"), " ") + 1; got != MaxScanKeys {
		t.Errorf("%d keys, expected %d", got, MaxScanKeys)
	}
}

func TestClientKill(t *testing.T) {
	_, _, address := start(t, Options{})
	p := dial(t, address)
	p.do("PING")
	for i, test := range []struct {
		words    string // $A is the other's address, $L its server's
		expected string
		ends     bool
	}{
		{"CLIENT KILL 127.0.0.1:1", "-ERR No such client", false},
		{"CLIENT KILL $A", "+OK", true},
		{"CLIENT KILL ADDR $A", ":1", true},
		{"CLIENT KILL ID $I", ":1", true},
		{"CLIENT KILL LADDR $L USER default TYPE normal", ":1", true},
		{"CLIENT KILL ID $I ADDR 127.0.0.1:1", ":0", false},
		{"CLIENT KILL ID $I USER ann", ":0", false},
		{"CLIENT KILL TYPE pubsub", ":0", false},
		{"CLIENT KILL ID 0x", "-ERR client-id should be greater than 0", false},
		{"CLIENT KILL SKIPME maybe", "-ERR syntax error", false},
		{"CLIENT KILL NIX 1", "-ERR syntax error", false},
		{"CLIENT KILL ID", "-ERR No such client", false},
	} {
		other := dial(t, address)
		id := strings.TrimPrefix(other.do("CLIENT", "ID"), ":")
		words := strings.NewReplacer("$A", other.conn.LocalAddr().String(), "$L", address, "$I",
			id).Replace(test.words)
		if got := p.do(strings.Fields(words)...); got != test.expected {
			t.Errorf("%s: got %q, expected %q", test.words, got, test.expected)
		}
		if test.ends {
			if _, err := other.tryReply(); err == nil {
				t.Errorf("%d: %s: the connection goes on", i, test.words)
			}
			continue
		}
		if got := other.do("PING"); got != "+PONG" {
			t.Errorf("%s: %q", test.words, got)
		}
		other.conn.Close()
		testkit.Eventually(t, "the connection ends", func() bool {
			return !strings.Contains(p.do("CLIENT", "LIST"), "id="+id+" ")
		})
	}
	if got := p.do("CLIENT", "KILL", "LADDR", address, "SKIPME", "no"); got != ":1" {
		t.Errorf("a client that ends itself: %q", got)
	}
	if err := p.ended(); err != nil {
		t.Error(err)
	}
}
