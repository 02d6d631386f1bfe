package main

import (
	"context"
	"testing"
	"time"
)

// late has a deadline that has passed, as a dialer may see it before the context ends.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now(), true }

func TestTheEndOfTheRunIsNoFailure(t *testing.T) {
	_, address := serve(t, 4096)
	o, err := parse([]string{"--addresses", address, "--clients", "1", "--pipeline", "3"})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{options: o, tally: newTally(), chooser: newChooser(o, 0, nil)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	c.run(late{ctx}, time.Now())
	if c.tally.errors["connection"] != 0 {
		t.Errorf("%v", c.tally.errors)
	}
}

func TestTheExitCodes(t *testing.T) {
	for _, test := range []struct {
		arguments []string
		want      int
	}{
		{[]string{"--help"}, 0},
		{[]string{"--clients", "many"}, 2},
		{[]string{"--clients", "0"}, 2},
		{[]string{"--unheard-of"}, 2},
		{[]string{"word"}, 2},
		{[]string{"--addresses", "127.0.0.1:1", "--seconds", "0.1"}, 1},
	} {
		if code := runProgram(test.arguments); code != test.want {
			t.Errorf("%q: %d, not %d", test.arguments, code, test.want)
		}
	}
}
