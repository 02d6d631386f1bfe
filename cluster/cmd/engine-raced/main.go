// Program engine-raced serves one node of the replicated key-value store, and operates a cluster.
package main

import (
	"fmt"
	"os"

	"engine_race/cluster/engine"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(arguments []string) (exitCode int) {
	const usage = "usage: engine-raced COMMAND [flags]; commands: " + commands
	if len(arguments) == 0 {
		fmt.Fprintln(os.Stderr, usage)
		return exitUsage
	}
	switch command := arguments[0]; command {
	case "help", "-h", "-help", "--help":
		fmt.Println(usage)
		return exitDone
	case "--version":
		fmt.Println("engine-raced (engine_race)", engine.Version())
		return 0
	case "init", "join", "unsafe-recover", "serve":
		return runNode(command, arguments[1:], os.Stderr)
	default:
		return operate(command, arguments[1:], os.Stdout)
	}
}
