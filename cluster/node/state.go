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

// stateFormat is that of a node's directory. The first one had no map of ranges, and named no
// format.
const stateFormat = 2

// state is what a node keeps of itself.
type state struct {
	Format  int     `json:"format"`
	NodeID  uint64  `json:"node_id"`
	Epoch   uint64  `json:"epoch"`
	Genesis Genesis `json:"genesis"`
	// Of an initial node: its number of this data directory, whether it has not yet heard of all
	// others, and their numbers.
	Incarnation   uint64            `json:"incarnation,omitempty"`
	Bootstrapping bool              `json:"bootstrapping,omitempty"`
	Peers         map[uint64]uint64 `json:"peers,omitempty"`
}

// initialState is that of a node of the genesis.
func initialState(nodeID uint64, genesis Genesis) (state, error) {
	others := genesis.others(nodeID)
	if len(others) == len(genesis.Nodes) {
		return state{}, fmt.Errorf("node %d is no initial node", nodeID)
	}
	return state{Format: stateFormat, NodeID: nodeID, Epoch: 1, Genesis: genesis,
		Incarnation: newIncarnation(), Bootstrapping: len(others) > 0}, nil
}

// isFresh fails if a node has been set up in the directory.
func isFresh(directory string) error {
	path := filepath.Join(directory, stateName)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already: this node was set up before", path)
	}
	return nil
}

// prepare makes the directory of a node that was not there before.
func (s *state) prepare(directory string) error {
	if err := isFresh(directory); err != nil {
		return err
	}
	for _, name := range []string{raftName, replicasName} {
		if err := files.MakeDirectory(filepath.Join(directory, name)); err != nil {
			return err
		}
	}
	marker, err := s.marker()
	if err != nil {
		return err
	}
	err = files.WriteWhole(filepath.Join(directory, raftName, markerName), []byte(marker))
	if err != nil {
		return err
	}
	return writeJSON(filepath.Join(directory, stateName), s)
}

// marker is the text that ties a raft log to its node.
func (s *state) marker() (string, error) {
	id, err := s.Genesis.ID()
	return fmt.Sprintf("%s %d %d\n", id, s.NodeID, s.Epoch), err
}

// loadState reads what prepare wrote. It refuses a directory whose parts do not belong together.
// Without its raft log a replica could vote against its own promises.
func loadState(directory string) (state, error) {
	var s state
	if err := readJSON(filepath.Join(directory, stateName), &s); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return s, fmt.Errorf("%s was not set up: run init or join first: %w", directory, err)
		}
		return s, err
	}
	if s.Format != stateFormat {
		return s, fmt.Errorf("%s has format %d, and this program knows format %d alone: back the "+
			"records up with the program that made it, and restore them into a new cluster",
			directory, max(1, s.Format), stateFormat)
	}
	want, err := s.marker()
	if err != nil {
		return s, err
	}
	path := filepath.Join(directory, raftName, markerName)
	marker, err := os.ReadFile(path)
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
