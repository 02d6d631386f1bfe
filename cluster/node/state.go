package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"engine_race/cluster/files"
)

// Names in a node's directory.
const (
	stateName     = "node.json"
	directoryName = "directory.json"
	raftName      = "raft"
	replicasName  = "replicas"
	markerName    = "engine-raced"
	restoreName   = "restore" // the store of a backup that is being restored
)

// state is what a node keeps of itself.
type state struct {
	NodeID  uint64  `json:"node_id"`
	Epoch   uint64  `json:"epoch"`
	Genesis Genesis `json:"genesis"`
}

// Prepare makes the directory of a node that was not there before. A node of the genesis has epoch
// 1, another one the epoch with which it joined.
func Prepare(directory string, nodeID, epoch uint64, genesis Genesis) error {
	path := filepath.Join(directory, stateName)
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s is there already: this node was set up before", path)
	}
	for _, name := range []string{raftName, replicasName} {
		if err := files.MakeDirectory(filepath.Join(directory, name)); err != nil {
			return err
		}
	}
	s := state{NodeID: nodeID, Epoch: epoch, Genesis: genesis}
	id, err := genesis.ID()
	if err != nil {
		return err
	}
	marker := fmt.Sprintf("%s %d %d\n", id, nodeID, epoch)
	err = files.WriteWhole(filepath.Join(directory, raftName, markerName), []byte(marker))
	if err != nil {
		return err
	}
	return writeJSON(path, s)
}

// loadState reads what Prepare wrote. It refuses a directory whose parts do not belong together.
// Without its raft log a replica could vote against its own promises.
func loadState(directory string) (state, error) {
	var s state
	if err := readJSON(filepath.Join(directory, stateName), &s); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return s, fmt.Errorf("%s was not set up: run init or join first: %w", directory, err)
		}
		return s, err
	}
	id, err := s.Genesis.ID()
	if err != nil {
		return s, err
	}
	path := filepath.Join(directory, raftName, markerName)
	marker, err := os.ReadFile(path)
	want := fmt.Sprintf("%s %d %d\n", id, s.NodeID, s.Epoch)
	if err != nil || string(marker) != want {
		return s, fmt.Errorf("the raft log in %s is lost or is another node's: remove all of %s "+
			"and join again", filepath.Dir(path), directory)
	}
	return s, nil
}

func readJSON(path string, value any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func writeJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return files.WriteWhole(path, append(data, '\n'))
}
