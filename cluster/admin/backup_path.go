package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// backupPath returns the path with all symbolic links resolved. It refuses paths that are not
// absolute, and those that do not lie below the backup directory after that. The last parts of the
// path need not exist. Users who may write into the backup directory must be trusted: they could
// replace a directory by a link after the check.
func (s *Server) backupPath(field, path string) (string, error) {
	if s.options.BackupDir == "" {
		return "", invalid("this node has no backup_dir, so it refuses backups and restores")
	}
	if path == "" {
		return "", invalid("the body lacks " + field)
	}
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return "", invalid(fmt.Sprintf("%s: %q is no absolute path", field, path))
	}
	root, err := filepath.EvalSymlinks(s.options.BackupDir)
	if err != nil {
		return "", fmt.Errorf("backup_dir: %w", err)
	}
	resolved, err := resolve(filepath.Clean(path))
	if err != nil {
		return "", invalid(fmt.Sprintf("%s: %v", field, err))
	}
	below := strings.TrimSuffix(root, "/") + "/"
	if !strings.HasPrefix(resolved, below) {
		return "", invalid(fmt.Sprintf("%s: %q does not lie below backup_dir, which is %q", field,
			path, s.options.BackupDir))
	}
	return resolved, nil
}

// resolve replaces the symbolic links of the part of the path that exists. A link whose target is
// missing is an error: a later mkdir could not tell where it leads.
func resolve(path string) (string, error) {
	existing, missing := path, ""
	for {
		_, err := os.Lstat(existing)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || existing == "/" {
			return "", err
		}
		missing = filepath.Join(filepath.Base(existing), missing)
		existing = filepath.Dir(existing)
	}
	resolved, err := filepath.EvalSymlinks(existing)
	if err != nil {
		return "", err
	}
	return filepath.Join(resolved, missing), nil
}
