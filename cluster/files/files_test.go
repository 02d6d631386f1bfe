package files

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMissingDirectoriesAreMade(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a", "b")
	for range 2 { // The second time it is there.
		if err := MakeDirectory(path); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := WriteWhole(filepath.Join(path, "file"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := MakeDirectory(filepath.Join(path, "file", "c")); err == nil {
		t.Error("a directory was made below a file")
	}
}
