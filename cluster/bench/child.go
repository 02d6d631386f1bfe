package bench

import (
	"errors"
	"flag"
	"os"
	"strings"

	"engine_race/cluster/bench/load"
	"engine_race/cluster/bench/multiread"
	"engine_race/cluster/bench/raftnode"
	"engine_race/cluster/bench/respload"
)

// childCommand is the first argument of the program when it is its own child.
const childCommand = "child"

// respDriver is the kind of a child with clients that speak RESP. Other kinds are opponents.
const respDriver = "resp_driver"

// RunChild answers orders if the arguments are a child's. It serves until the runner closes the
// input, so the runner's death ends it too.
func RunChild(arguments []string) (isChild bool, err error) {
	if len(arguments) == 0 || arguments[0] != childCommand {
		return false, nil
	}
	flags := flag.NewFlagSet(childCommand, flag.ContinueOnError)
	kind := flags.String("kind", "", respDriver+", or the name of an opponent")
	node := flags.Uint64("node", 0, "the node's number, from 1")
	addresses := flags.String("addresses", "", "all nodes' addresses, commas between")
	directory := flags.String("dir", "", "the node's data")
	storeBytes := flags.Uint64("store-bytes", 0, "memory of the store of "+MultiRead)
	valueBytes := flags.Int("value-bytes", load.DefaultValueBytes, "size of values in it")
	if err := flags.Parse(arguments[1:]); err != nil {
		return true, err
	}
	switch *kind {
	case respDriver:
		return true, load.Serve(os.Stdin, os.Stdout, respload.Do)
	case MultiRead:
		store, err := multiread.Open(*directory, *storeBytes, *valueBytes)
		if err != nil {
			return true, err
		}
		return true, errors.Join(load.Serve(os.Stdin, os.Stdout, store.Do), store.Close())
	}
	member, err := raftnode.Start(raftnode.Options{Kind: *kind, ID: *node, Directory: *directory,
		Addresses: strings.Split(*addresses, ",")})
	if err != nil {
		return true, err
	}
	defer member.Close()
	return true, load.Serve(os.Stdin, os.Stdout, member.Do)
}
