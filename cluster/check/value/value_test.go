package value

import (
	"errors"
	"testing"
)

func TestDecodeGivesTheIDBack(t *testing.T) {
	for _, id := range []uint64{1, 2, 1 << 40, ^uint64(0)} {
		got, err := Decode(77, Encode(77, id))
		if err != nil || got != id {
			t.Fatalf("id %d: got %d, %v", id, got, err)
		}
	}
}

func TestDecodeRefusesValuesOfTwoWrites(t *testing.T) {
	whole, other := Encode(5, 1), Encode(5, 2)
	tests := map[string][]byte{
		"absent":        nil,
		"short":         whole[:4095],
		"long":          append(append([]byte{}, whole...), 0),
		"another key":   Encode(6, 1),
		"second half":   append(append([]byte{}, whole[:2048]...), other[2048:]...),
		"header alone":  append(append([]byte{}, whole[:16]...), other[16:]...),
		"last 8 bytes":  append(append([]byte{}, whole[:4088]...), other[4088:]...),
		"last byte bad": append(append([]byte{}, whole[:4095]...), whole[4095]^1),
	}
	for name, bytes := range tests {
		if _, err := Decode(5, bytes); !errors.Is(err, ErrMixed) {
			t.Errorf("%s: %v, want ErrMixed", name, err)
		}
	}
}
