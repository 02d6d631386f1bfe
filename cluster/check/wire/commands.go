package wire

import (
	"encoding/binary"
	"fmt"
)

// KeyBytes gives a key as the protocol has it: 8 bytes, big-endian.
func KeyBytes(key uint64) []byte { return binary.BigEndian.AppendUint64(nil, key) }

// Set stores a value.
func (c *Conn) Set(key uint64, value []byte) error {
	return c.expectOK(c.Do([]byte("SET"), KeyBytes(key), value))
}

// ReadOnly asks for local reads on this connection.
func (c *Conn) ReadOnly() error { return c.expectOK(c.Do([]byte("READONLY"))) }

// MSet stores one value for each key.
func (c *Conn) MSet(keys []uint64, values [][]byte) error {
	args := [][]byte{[]byte("MSET")}
	for i, key := range keys {
		args = append(args, KeyBytes(key), values[i])
	}
	return c.expectOK(c.Do(args...))
}

func (c *Conn) expectOK(reply any, err error) error {
	if err == nil && reply != "OK" {
		return fmt.Errorf("%w: %.40q is not OK", ErrProtocol, reply)
	}
	return err
}

// Get gives the value of a key, nil if the key is absent.
func (c *Conn) Get(key uint64) ([]byte, error) {
	reply, err := c.Do([]byte("GET"), KeyBytes(key))
	if err != nil || reply == nil {
		return nil, err
	}
	value, ok := reply.([]byte)
	if !ok {
		return nil, fmt.Errorf("%w: a reply of type %T to GET", ErrProtocol, reply)
	}
	return value, nil
}

// MGet gives the value of each key, nil for an absent one.
func (c *Conn) MGet(keys []uint64) ([][]byte, error) {
	args := [][]byte{[]byte("MGET")}
	for _, key := range keys {
		args = append(args, KeyBytes(key))
	}
	reply, err := c.Do(args...)
	if err != nil {
		return nil, err
	}
	entries, ok := reply.([]any)
	if !ok || len(entries) != len(keys) {
		return nil, fmt.Errorf("%w: a reply of type %T to MGET of %d keys", ErrProtocol, reply,
			len(keys))
	}
	values := make([][]byte, len(keys))
	for i, entry := range entries {
		switch entry := entry.(type) {
		case nil:
		case []byte:
			values[i] = entry
		case ErrorReply:
			return nil, entry
		default:
			return nil, fmt.Errorf("%w: an entry of type %T", ErrProtocol, entry)
		}
	}
	return values, nil
}

// Del deletes a key and gives how many keys were there: 0 or 1.
func (c *Conn) Del(key uint64) (int, error) {
	reply, err := c.Do([]byte("DEL"), KeyBytes(key))
	if err != nil {
		return 0, err
	}
	count, ok := reply.(int64)
	if !ok || count < 0 || count > 1 {
		return 0, fmt.Errorf("%w: %.40q answers DEL of one key", ErrProtocol, reply)
	}
	return int(count), nil
}
