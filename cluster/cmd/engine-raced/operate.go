package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"engine_race/cluster/admin/client"
	"engine_race/cluster/config"
	"engine_race/cluster/keyspace"
	"engine_race/cluster/service"
)

// Exit codes. A Go program that crashes exits with 2, too.
const (
	exitDone    = 0
	exitFailed  = 1 // the node refused the call, or failed in a known way
	exitUsage   = 2 // the command line or the configuration is wrong
	exitUnknown = 3 // the call may or may not have been done
	// exitConfig is for serve: the configuration is refused. The systemd units do not restart a
	// node that exits so. The number is EX_CONFIG of sysexits.h.
	exitConfig = 78
)

const (
	commands = "init join serve status add-replica remove-replica move-replica move-leader split" +
		" decommission recommission snapshot backup restore compare unsafe-recover"
	defaultAdminAddress = "127.0.0.1:7201"
	// The client waits longer than the node, so that the node can tell what happened.
	extraWait = 10 * time.Second
)

// operation is the command line of one operator's command.
type operation struct {
	command        string
	adminAddress   string
	configPath     string
	shard, node    uint64
	from, to       uint64 // nodes
	keyText        string
	key            uint64
	directory      string
	since          string
	asJSON         bool
	timeout        time.Duration
	given          map[string]bool // flags by name
	out, errorsOut io.Writer
}

// needs lists the flags that the command requires, and those that it permits besides the ones of
// all commands. known is false if there is no such command.
func (o *operation) needs() (required, permitted []string, known bool) {
	switch o.command {
	case "status":
		return nil, nil, true
	case "add-replica", "remove-replica", "move-leader":
		return []string{"shard", "node"}, nil, true
	case "move-replica":
		return []string{"shard", "from", "to"}, nil, true
	case "split":
		return []string{"shard", "key"}, nil, true
	case "decommission", "recommission":
		return []string{"node"}, nil, true
	case "snapshot", "compare":
		return []string{"shard"}, nil, true
	case "backup":
		return []string{"dir"}, []string{"since"}, true
	case "restore":
		return []string{"dir"}, nil, true
	default:
		return nil, nil, false
	}
}

// operate runs an operator's command against one node. Results go to out, errors to the standard
// error stream. The exit code is 0 when the node has done the call, and 1 when it has refused it.
// It is 2 for a wrong command line, and 3 when the outcome is unknown.
func operate(command string, arguments []string, out io.Writer) (exitCode int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return operateWith(ctx, command, arguments, out, os.Stderr)
}

func operateWith(ctx context.Context, command string, arguments []string,
	out, errorsOut io.Writer) (exitCode int) {
	o := &operation{command: command, out: out, errorsOut: errorsOut}
	if err := o.parse(arguments); errors.Is(err, flag.ErrHelp) {
		return exitDone
	} else if err != nil {
		return o.fail(exitUsage, err)
	}
	address, security, secret, err := o.target()
	if err != nil {
		return o.fail(exitUsage, err)
	}
	node, err := client.New(address, security, secret)
	if err != nil {
		return o.fail(exitUsage, err)
	}
	defer node.Close()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := o.run(ctx, node); err != nil {
		if errors.Is(err, service.ErrUnknown) {
			return o.fail(exitUnknown, err)
		}
		return o.fail(exitFailed, err)
	}
	return exitDone
}

func (o *operation) fail(exitCode int, err error) int {
	fmt.Fprintf(o.errorsOut, "engine-raced %s: %v\n", o.command, err)
	return exitCode
}

func (o *operation) parse(arguments []string) error {
	required, permitted, known := o.needs()
	if !known {
		return fmt.Errorf("there is no such command; there are %s", commands)
	}
	flags := flag.NewFlagSet("engine-raced "+o.command, flag.ContinueOnError)
	flags.SetOutput(o.errorsOut)
	flags.StringVar(&o.adminAddress, "admin", defaultAdminAddress,
		"admin address of any node, as `HOST:PORT`")
	flags.StringVar(&o.configPath, "config", "",
		"`FILE` with the node's settings, for its admin address, its TLS files and its secret")
	flags.Uint64Var(&o.shard, "shard", 0, "id of the shard")
	flags.Uint64Var(&o.node, "node", 0, "id of the node")
	flags.Uint64Var(&o.from, "from", 0, "id of the node that has the replica")
	flags.Uint64Var(&o.to, "to", 0, "id of the node that gets it")
	flags.StringVar(&o.keyText, "key", "",
		"first key of the new shard, as 8 characters, or 0x and 16 hexadecimal digits")
	flags.StringVar(&o.directory, "dir", "",
		"absolute path of the backup on the node, below its backup_dir")
	flags.StringVar(&o.since, "since", "", "directory of the backup before, to back up changes only")
	flags.BoolVar(&o.asJSON, "json", false, "print JSON")
	flags.DurationVar(&o.timeout, "timeout", 0, "time to wait; 0: a little longer than the node")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.given = make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { o.given[f.Name] = true })
	return o.checkGiven(required, permitted)
}

func (o *operation) checkGiven(required, permitted []string) error {
	allowed := make(map[string]bool)
	for _, name := range required {
		allowed[name] = true
		if !o.given[name] {
			return fmt.Errorf("needs --%s", name)
		}
	}
	for _, name := range permitted {
		allowed[name] = true
	}
	for _, name := range []string{"shard", "node", "from", "to", "key", "dir", "since"} {
		if o.given[name] && !allowed[name] {
			return fmt.Errorf("--%s does not belong to this command", name)
		}
	}
	if o.timeout < 0 {
		return errors.New("--timeout: must not be negative")
	}
	if o.given["key"] {
		keys, err := keyspace.ParseKeys(o.keyText)
		if err != nil || len(keys) != 1 {
			return fmt.Errorf("--key %q: must have 8 characters, or 0x and 16 hexadecimal digits",
				o.keyText)
		}
		o.key = keys[0]
	}
	return nil
}

// target finds the node's address, the TLS configuration and the secret, and fills in the
// time-out.
func (o *operation) target() (address string, security *tls.Config, secret string, err error) {
	settings := config.Default()
	address = o.adminAddress
	if o.configPath != "" {
		if settings, err = config.LoadSettings(o.configPath, nil); err != nil {
			return "", nil, "", err
		}
		_, client, err := settings.PeerTLS()
		if err != nil {
			return "", nil, "", err
		}
		if client != nil {
			security = client()
		}
		if !o.given["admin"] {
			if address, err = reachable(settings); err != nil {
				return "", nil, "", err
			}
		}
	}
	// Without a file of settings or of a secret, the node says what it needs.
	secret, err = settings.Secret()
	if err != nil && (o.configPath != "" || !errors.Is(err, fs.ErrNotExist)) {
		return "", nil, "", err
	}
	if o.timeout == 0 {
		o.timeout = settings.Limits.AdminTimeout() + extraWait
		if slices.Contains([]string{"backup", "restore", "compare", "move-replica", "split"},
			o.command) {
			o.timeout = settings.Limits.BackupTimeout() + extraWait
		}
	}
	return address, security, secret, nil
}

// reachable returns the node's admin address, if it names a host to connect to.
func reachable(settings *config.Config) (string, error) {
	address := settings.Self().AdminAddress
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("admin_address: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		return "", fmt.Errorf("admin_address %q names no host to connect to: give --admin HOST:PORT",
			address)
	}
	return address, nil
}

func (o *operation) run(ctx context.Context, node service.Control) error {
	switch o.command {
	case "status":
		status, err := node.Status(ctx)
		if err != nil {
			return err
		}
		return o.print(status, func() error { return printStatus(o.out, status) })
	case "add-replica":
		return o.done(node.AddReplica(ctx, o.shard, o.node))
	case "remove-replica":
		return o.done(node.RemoveReplica(ctx, o.shard, o.node))
	case "move-replica":
		return o.done(o.watch(ctx, node, o.moveProgress, func() error {
			return node.MoveReplica(ctx, o.shard, o.from, o.to)
		}))
	case "split":
		var created uint64
		err := o.watch(ctx, node, o.splitProgress, func() (err error) {
			created, err = node.SplitShard(ctx, o.shard, o.key)
			return err
		})
		if err != nil {
			return err
		}
		return o.print(map[string]uint64{"new_shard": created}, func() error {
			_, err := fmt.Fprintf(o.out, "shard %d has the keys from %016x on\n", created, o.key)
			return err
		})
	case "decommission", "recommission":
		return o.done(node.Decommission(ctx, o.node, o.command == "decommission"))
	case "move-leader":
		return o.done(node.MoveLeader(ctx, o.shard, o.node))
	case "snapshot":
		index, err := node.Snapshot(ctx, o.shard)
		if err != nil {
			return err
		}
		return o.print(map[string]uint64{"index": index}, func() error {
			_, err := fmt.Fprintf(o.out, "snapshot at index %d\n", index)
			return err
		})
	case "compare":
		comparison, err := node.Compare(ctx, o.shard)
		if err != nil {
			return err
		}
		return errors.Join(o.print(comparison, func() error {
			return printComparison(o.out, comparison)
		}), differing(comparison))
	case "backup":
		return o.report(node.Backup(ctx, o.directory, o.since))
	default:
		return o.report(node.Restore(ctx, o.directory))
	}
}

func (o *operation) done(err error) error {
	if err != nil {
		return err
	}
	return o.print(struct{}{}, func() error {
		_, err := fmt.Fprintln(o.out, "done")
		return err
	})
}

func (o *operation) report(report service.BackupReport, err error) error {
	if err != nil {
		return err
	}
	return o.print(report, func() error {
		_, err := fmt.Fprintf(o.out, "%d records, %d bytes\n", report.Records, report.Bytes)
		return err
	})
}

// print writes the result as JSON if that was asked for, and otherwise as text.
func (o *operation) print(result any, text func() error) error {
	if !o.asJSON {
		return text()
	}
	encoder := json.NewEncoder(o.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(result)
}
