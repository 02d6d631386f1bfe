package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestInitSplitsAsToldTo has files of keys, and kinds of keys.
func TestInitSplitsAsToldTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	for _, test := range []struct {
		text string // of the file
		like string
		want []uint64
		err  string
	}{
		{"", "", nil, ""},
		{"", "digits", []uint64{0x3530303030303030}, ""},
		{"", "nix", nil, `--like: "nix"`},
		{"0x0000000000000007\n", "", []uint64{7}, ""},
		{"0x0000000000000007\n0x0000000000000008\n0x0000000000000009\n", "", []uint64{8}, ""},
		{"0x0000000000000000\n", "", nil, "0 keys above 0"},
		{"nix\n", "", nil, "line 1 has 3 bytes"},
	} {
		flags := setUpFlags{command: "init", like: test.like}
		if test.text != "" {
			flags.splitAt = path
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := flags.lowers(2)
		if !slices.Equal(got, test.want) || (err == nil) != (test.err == "") ||
			err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%+v: %x, %v", test, got, err)
		}
	}
	flags := setUpFlags{command: "init", splitAt: path + ".nix"}
	if _, err := flags.lowers(2); err == nil {
		t.Error("a missing file")
	}
}
