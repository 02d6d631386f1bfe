package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"

	"engine_race/cluster/check/history"
	"engine_race/cluster/check/wire"
)

// Verdict is the judgement of a history.
type Verdict struct {
	Violations []string
	Unchecked  []int // groups whose search ran out of time
}

// Options bounds a check.
type Options struct {
	GroupTime time.Duration // of the search in one group; 0: no limit
	// Directory gets history.json and a page for each violated group. "": nothing is written.
	Directory string
}

// Check judges a history. The error is one of writing the files; the verdict is valid with it.
// Replies outside the contract and mixed values are violations too.
func Check(h *history.History, options Options) (Verdict, error) {
	var verdict Verdict
	for _, mixed := range h.Mixed {
		verdict.Violations = append(verdict.Violations, "mixed value: "+mixed)
	}
	groups := make([][]*history.Operation, len(h.Groups))
	for _, operation := range h.Operations {
		groups[operation.Group] = append(groups[operation.Group], operation)
		if operation.Outcome == wire.Unexpected {
			verdict.Violations = append(verdict.Violations,
				fmt.Sprintf("node %d answered %s with %q", operation.Node, operation.Kind,
					operation.Error))
		}
	}
	var failures []error
	for group, operations := range groups {
		prepared := prepare(operations)
		result := porcupine.CheckOperationsTimeout(registerModel(), prepared, options.GroupTime)
		switch result {
		case porcupine.Unknown:
			verdict.Unchecked = append(verdict.Unchecked, group)
		case porcupine.Illegal:
			verdict.Violations = append(verdict.Violations,
				fmt.Sprintf("group %d is not linearizable", group))
			if options.Directory != "" {
				failures = append(failures, draw(prepared, group, options))
			}
		}
	}
	if len(verdict.Violations)+len(verdict.Unchecked) > 0 && options.Directory != "" {
		failures = append(failures, save(h, options.Directory))
	}
	return verdict, errors.Join(failures...)
}

// draw writes a page that shows where the search of the group failed.
func draw(prepared []porcupine.Operation, group int, options Options) error {
	if err := os.MkdirAll(options.Directory, 0o755); err != nil {
		return err
	}
	model := registerModel()
	_, info := porcupine.CheckOperationsVerbose(model, prepared, options.GroupTime)
	path := filepath.Join(options.Directory, fmt.Sprintf("group-%d.html", group))
	return porcupine.VisualizePath(model, info, path)
}

func save(h *history.History, directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, "history.json"), text, 0o644)
}
