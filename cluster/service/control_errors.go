package service

import "errors"

// Further errors of a Control, beside those of a Service.
var (
	// ErrInvalid: nothing was done. The call names a shard, a node or a directory that does not
	// exist.
	ErrInvalid = errors.New("nothing was done: invalid call")
	// ErrConflict: nothing was done. The state of the cluster forbids the call. The node has the
	// replica already, the last replica would go, or a restore would hit a cluster with records.
	ErrConflict = errors.New("nothing was done: the state of the cluster forbids it")
)
