package admin_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"engine_race/cluster/admin"
	"engine_race/cluster/service"
)

// makeBackupTree makes a backup directory with directories and links, and neighbours of it.
func makeBackupTree(t *testing.T) (base, root, outside string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, outside = base+"/backups", base+"/outside"
	for _, directory := range []string{root + "/old", outside, base + "/backups2"} {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		root + "/out": outside, root + "/up": "..", root + "/dangling": outside + "/new",
		root + "/in": "old", base + "/alias": root, root + "/loop": "loop",
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(root+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return base, root, outside
}

func TestBackupsStayBelowTheirDirectory(t *testing.T) {
	base, root, outside := makeBackupTree(t)
	cases := []struct{ path, want string }{ // want: empty if refused
		{root + "/new", root + "/new"},
		{root + "/new/deep/er", root + "/new/deep/er"},
		{root + "/old", root + "/old"},
		{root + "/in/side", root + "/old/side"},
		{root + "/a/../b", root + "/b"},
		{base + "/alias/x", root + "/x"},
		{root, ""},
		{root + "/", ""},
		{root + "/.", ""},
		{root + "/old/..", ""},
		{root + "/../outside", ""},
		{root + "/../../../../../../../../etc", ""},
		{base + "/backups2", ""},
		{base + "/backups2/x", ""},
		{outside, ""},
		{root + "/out", ""},
		{root + "/out/x", ""},
		{root + "/up/outside/x", ""},
		{root + "/up", ""},
		{root + "/dangling", ""},
		{root + "/dangling/x", ""},
		{root + "/loop/x", ""},
		{root + "/file/x", ""},
		{"backups/new", ""},
		{"", ""},
		{"/", ""},
		{root + "/x\x00/y", ""},
	}
	for _, configured := range []string{root, root + "/", base + "/alias"} {
		control := &fakeControl{}
		c := dial(t, start(t, admin.Options{Control: control, BackupDir: configured}), nil)
		for _, test := range cases {
			_, err := c.Restore(context.Background(), test.path)
			calls := control.takeCalls()
			if test.want == "" && (!errors.Is(err, service.ErrInvalid) || calls != "") {
				t.Errorf("%q: error %v, calls %q", test.path, err, calls)
			}
			if test.want != "" && (err != nil || calls != "restore "+test.want) {
				t.Errorf("%q: error %v, calls %q, want %s", test.path, err, calls, test.want)
			}
		}
		_, err := c.Backup(context.Background(), root+"/new", outside)
		if calls := control.takeCalls(); !errors.Is(err, service.ErrInvalid) || calls != "" {
			t.Errorf("since outside: error %v, calls %q", err, calls)
		}
		_, err = c.Backup(context.Background(), outside+"/x", root+"/old")
		if calls := control.takeCalls(); !errors.Is(err, service.ErrInvalid) || calls != "" {
			t.Errorf("backup outside: error %v, calls %q", err, calls)
		}
	}
}
