// Package files writes small files that must be whole and durable.
package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteWhole makes or replaces a file. When it returns, the file is durable. After a crash it has
// its old content or the new one.
func WriteWhole(path string, data []byte) error {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := fill(file, data); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(path))
}

// WriteNew makes a file that is whole from the first moment on. If there is one already, it fails
// with fs.ErrExist, even when another process makes it at the same time.
func WriteNew(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = fill(file, data)
	if err == nil {
		err = os.Link(file.Name(), path)
	}
	return errors.Join(err, os.Remove(file.Name()), SyncDirectory(filepath.Dir(path)))
}

// fill writes the whole file, syncs it and closes it.
func fill(file *os.File, data []byte) error {
	_, err := file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

// Remove removes a file, durably. A missing one is fine.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return SyncDirectory(filepath.Dir(path))
}

// MakeDirectory makes a directory and those above it that are missing, durably.
func MakeDirectory(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if err := MakeDirectory(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDirectory(parent)
}

// SyncDirectory makes the names in a directory durable.
func SyncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
