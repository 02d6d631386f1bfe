// Package model judges histories. It looks for an order of the operations that one machine could
// have executed, one after the other. Each operation must lie between its call and its answer.
// Porcupine searches the order. The model of a group of keys is an array of registers, one for each
// key. All functions may be called from any goroutine.
package model

import (
	"fmt"
	"math"

	"github.com/anishathalye/porcupine"

	"engine_race/cluster/check/history"
	"engine_race/cluster/check/wire"
)

// registers has the id of each key's last write, 0 for an absent key.
type registers [history.MaxGroupKeys]uint64

func registerModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return registers{} },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := step(state.(registers), input.(*history.Operation))
			return ok, next
		},
		DescribeOperation: func(input, _ any) string { return describe(input.(*history.Operation)) },
		DescribeState:     func(state any) string { return fmt.Sprint(state) },
	}
}

// step executes the operation. It gives false if the answer does not fit the state.
func step(state registers, operation *history.Operation) (bool, registers) {
	switch operation.Kind {
	case history.Set, history.MSet:
		for i, key := range operation.Keys {
			state[key] = operation.Written[i]
		}
	case history.Del:
		key := operation.Keys[0]
		if operation.Outcome == wire.Done && (operation.Deleted == 1) != (state[key] != 0) {
			return false, state
		}
		state[key] = 0
	default:
		for i, key := range operation.Keys {
			if state[key] != operation.Read[i] {
				return false, state
			}
		}
	}
	return true, state
}

func describe(operation *history.Operation) string {
	text := operation.Kind.String()
	for i, key := range operation.Keys {
		text += fmt.Sprintf(" k%d", key)
		if operation.Written != nil {
			text += fmt.Sprintf("=%d", operation.Written[i])
		}
	}
	switch {
	case operation.Outcome == wire.Unknown:
		return text + " -> unknown"
	case operation.Kind == history.Del:
		return fmt.Sprintf("%s -> %d", text, operation.Deleted)
	case operation.Read != nil:
		return fmt.Sprintf("%s -> %d", text, operation.Read)
	}
	return text + " -> OK"
}

// prepare gives the operations of one group in Porcupine's form. Refused operations did nothing and
// unknown reads told nothing, so they are left out. A refused write that was done is found all the
// same: a read then sees an id that nobody wrote.
//
// Unknown writes stay open to the end of time, with two exceptions. They change no verdict and
// shorten the search. A write that a read has seen must have been done before that read returned.
// A write that nothing has seen can be left out of any order that is valid with it.
func prepare(operations []*history.Operation) []porcupine.Operation {
	seen := seenBefore(operations)
	var prepared []porcupine.Operation
	for _, operation := range operations {
		done := operation.DoneNS
		switch {
		case operation.Outcome == wire.Done:
		case operation.Outcome == wire.Refused || operation.IsRead():
			continue
		default:
			var useful bool
			if done, useful = unknownEnd(operation, operations, seen); !useful {
				continue
			}
		}
		prepared = append(prepared, porcupine.Operation{
			ClientId: operation.Process, Input: operation, Call: operation.CallNS, Return: done,
		})
	}
	return prepared
}

// seenBefore gives, for each id that reads have seen, when the first of them returned.
func seenBefore(operations []*history.Operation) map[uint64]int64 {
	seen := map[uint64]int64{}
	for _, operation := range operations {
		for _, id := range operation.Read {
			if first, ok := seen[id]; !ok || operation.DoneNS < first {
				seen[id] = operation.DoneNS
			}
		}
	}
	return seen
}

// unknownEnd says when an unknown write must have been done, and whether it can matter at all.
func unknownEnd(write *history.Operation, operations []*history.Operation,
	seen map[uint64]int64) (int64, bool) {
	end, observed := int64(math.MaxInt64), false
	for _, id := range write.Written {
		if first, ok := seen[id]; ok {
			end, observed = min(end, first), true
		}
	}
	if observed {
		return max(end, write.CallNS), true
	}
	return end, write.Kind == history.Del || countedByDel(write, operations)
}

// countedByDel says whether a DEL may have found the keys of a write that no read has seen.
func countedByDel(write *history.Operation, operations []*history.Operation) bool {
	for _, operation := range operations {
		if operation.Kind != history.Del || operation.Outcome != wire.Done ||
			operation.Deleted == 0 || operation.DoneNS < write.CallNS {
			continue
		}
		for _, key := range write.Keys {
			if key == operation.Keys[0] {
				return true
			}
		}
	}
	return false
}
