package value

import (
	"errors"
	"testing"
)

func TestDecodeGivesTheIDBack(t *testing.T) {
	for _, size := range []Size{0, 32, 512, 1 << 20} {
		for _, id := range []uint64{1, 2, 1 << 40, ^uint64(0)} {
			got, err := size.Decode(77, size.Encode(77, id))
			if err != nil || got != id {
				t.Fatalf("%d bytes, id %d: got %d, %v", size.Bytes(), id, got, err)
			}
		}
	}
}

func TestASizeNeedsRoomForAllFields(t *testing.T) {
	for size, fits := range map[Size]bool{0: true, 16: false, 32: true, 33: false, 4096: true,
		1 << 20: true, 1 << 21: false, -8: false} {
		if err := size.Check(); (err == nil) != fits {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestDecodeRefusesValuesOfTwoWrites(t *testing.T) {
	const size = Size(4096)
	whole, other := size.Encode(5, 1), size.Encode(5, 2)
	smaller := Size(2048)
	tests := map[string][]byte{
		"absent":        nil,
		"short":         whole[:4095],
		"long":          append(append([]byte{}, whole...), 0),
		"another size":  smaller.Encode(5, 1),
		"another key":   size.Encode(6, 1),
		"second half":   append(append([]byte{}, whole[:2048]...), other[2048:]...),
		"header alone":  append(append([]byte{}, whole[:16]...), other[16:]...),
		"last 8 bytes":  append(append([]byte{}, whole[:4088]...), other[4088:]...),
		"last byte bad": append(append([]byte{}, whole[:4095]...), whole[4095]^1),
	}
	for name, bytes := range tests {
		if _, err := size.Decode(5, bytes); !errors.Is(err, ErrMixed) {
			t.Errorf("%s: %v, want ErrMixed", name, err)
		}
	}
}
