package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"engine_race/cluster/keyspace"
	"engine_race/cluster/service"
)

// IndexAnswer is the answer of /snapshot.
type IndexAnswer struct {
	Index uint64 `json:"index"`
}

// ReplicaCall is the body of /add-replica, /remove-replica and /move-leader.
type ReplicaCall struct {
	Shard *uint64 `json:"shard"`
	Node  *uint64 `json:"node"`
}

// MoveCall is the body of /move-replica. From and To are nodes.
type MoveCall struct {
	Shard *uint64 `json:"shard"`
	From  *uint64 `json:"from"`
	To    *uint64 `json:"to"`
}

// NodeCall is the body of /decommission and /recommission.
type NodeCall struct {
	Node *uint64 `json:"node"`
}

// SplitCall is the body of /split. The key has 8 characters, or 0x and 16 hexadecimal digits.
type SplitCall struct {
	Shard *uint64 `json:"shard"`
	Key   string  `json:"key"`
}

// SplitAnswer is the answer of /split.
type SplitAnswer struct {
	Shard uint64 `json:"new_shard"`
}

// ShardCall is the body of /snapshot and /compare.
type ShardCall struct {
	Shard *uint64 `json:"shard"`
}

// BackupCall is the body of /backup. An empty Since asks for a full backup.
type BackupCall struct {
	Directory string `json:"directory"`
	Since     string `json:"since,omitempty"`
}

// RestoreCall is the body of /restore.
type RestoreCall struct {
	Directory string `json:"directory"`
}

func (s *Server) addEndpoints() {
	s.addHealth(s.mux)
	s.mux.Handle("/", s.bound(s.options.bodyTimeout, http.HandlerFunc(notFound)))
	s.mux.Handle("/status", s.guard("/status", http.MethodGet, s.options.Timeout,
		s.private(answer(func(ctx context.Context) (any, error) {
			return s.options.Control.Status(ctx)
		}))))
	s.addProfiles()
	control, short, long := s.options.Control, s.options.Timeout, s.options.BackupTimeout
	s.replicaCall("/add-replica", control.AddReplica)
	s.replicaCall("/remove-replica", control.RemoveReplica)
	s.replicaCall("/move-leader", control.MoveLeader)
	s.addMoves(long)
	s.shardCall("/snapshot", short, func(ctx context.Context, shardID uint64) (any, error) {
		index, err := control.Snapshot(ctx, shardID)
		return IndexAnswer{Index: index}, err
	})
	s.shardCall("/compare", long, func(ctx context.Context, shardID uint64) (any, error) {
		return control.Compare(ctx, shardID)
	})
	post(s, "/backup", long, func(ctx context.Context, call BackupCall) (any, error) {
		directory, err := s.backupPath("directory", call.Directory)
		if err != nil {
			return nil, err
		}
		since := ""
		if call.Since != "" {
			if since, err = s.backupPath("since", call.Since); err != nil {
				return nil, err
			}
		}
		if !s.copying.TryLock() {
			return nil, errCopying()
		}
		defer s.copying.Unlock()
		return control.Backup(ctx, directory, since)
	})
	post(s, "/restore", long, func(ctx context.Context, call RestoreCall) (any, error) {
		directory, err := s.backupPath("directory", call.Directory)
		if err != nil {
			return nil, err
		}
		if !s.copying.TryLock() {
			return nil, errCopying()
		}
		defer s.copying.Unlock()
		return control.Restore(ctx, directory)
	})
}

// addMoves adds the calls that copy records within the cluster: they may take long.
func (s *Server) addMoves(long time.Duration) {
	control := s.options.Control
	post(s, "/move-replica", long, func(ctx context.Context, call MoveCall) (any, error) {
		if call.Shard == nil {
			return nil, invalid("the body lacks shard")
		}
		if call.From == nil || call.To == nil || *call.From == 0 || *call.To == 0 {
			return nil, invalid("the body lacks from or to, or one of them is 0")
		}
		return struct{}{}, control.MoveReplica(ctx, *call.Shard, *call.From, *call.To)
	})
	post(s, "/split", long, func(ctx context.Context, call SplitCall) (any, error) {
		if call.Shard == nil {
			return nil, invalid("the body lacks shard")
		}
		keys, err := keyspace.ParseKeys(call.Key)
		if err != nil || len(keys) != 1 {
			return nil, invalid("key: must have 8 characters, or 0x and 16 hexadecimal digits")
		}
		created, err := control.SplitShard(ctx, *call.Shard, keys[0])
		return SplitAnswer{Shard: created}, err
	})
	for path, leaves := range map[string]bool{"/decommission": true, "/recommission": false} {
		post(s, path, s.options.Timeout, func(ctx context.Context, call NodeCall) (any, error) {
			if call.Node == nil || *call.Node == 0 {
				return nil, invalid("the body lacks node, or it is 0")
			}
			return struct{}{}, control.Decommission(ctx, *call.Node, leaves)
		})
	}
}

// addHealth adds the endpoints that everybody may read.
func (s *Server) addHealth(mux *http.ServeMux) {
	s.get(mux, "/healthz", func(context.Context) (any, error) {
		return struct{}{}, unavailable(s.options.Control.Live())
	})
	s.get(mux, "/readyz", func(context.Context) (any, error) {
		return struct{}{}, unavailable(s.options.Control.Ready())
	})
	mux.Handle("/metrics", s.guard("/metrics", http.MethodGet, s.options.Timeout, s.metricsHandler()))
}

// unavailable makes every reason of a health check an answer 503.
func unavailable(reason error) error {
	if reason == nil || kindOf(reason).status == http.StatusServiceUnavailable {
		return reason
	}
	return &callError{message: reason.Error(), cause: service.ErrUnavailable}
}

func (s *Server) shardCall(path string, timeout time.Duration,
	run func(context.Context, uint64) (any, error)) {
	post(s, path, timeout, func(ctx context.Context, call ShardCall) (any, error) {
		if call.Shard == nil {
			return nil, invalid("the body lacks shard")
		}
		return run(ctx, *call.Shard)
	})
}

func (s *Server) replicaCall(path string, run func(context.Context, uint64, uint64) error) {
	post(s, path, s.options.Timeout, func(ctx context.Context, call ReplicaCall) (any, error) {
		if call.Shard == nil {
			return nil, invalid("the body lacks shard")
		}
		if call.Node == nil || *call.Node == 0 {
			return nil, invalid("the body lacks node, or it is 0")
		}
		return struct{}{}, run(ctx, *call.Shard, *call.Node)
	})
}

func (s *Server) get(mux *http.ServeMux, path string, run func(context.Context) (any, error)) {
	mux.Handle(path, s.guard(path, http.MethodGet, s.options.Timeout, answer(run)))
}

func answer(run func(context.Context) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := run(r.Context())
		respond(w, answer, err)
	})
}

// post adds an endpoint whose body is a Call in JSON.
func post[Call any](s *Server, path string, timeout time.Duration,
	run func(context.Context, Call) (any, error)) {
	work := func(w http.ResponseWriter, r *http.Request) {
		extend(w, s.options.bodyTimeout)
		var call Call
		text, err := decode(w, r, &call)
		if err != nil {
			respond(w, nil, err)
			return
		}
		extend(w, timeout+s.options.bodyTimeout)
		s.logger.Info("operator's call", "path", path, "from", r.RemoteAddr, "call", text)
		begin := time.Now()
		answer, err := run(r.Context(), call)
		if err != nil {
			s.logger.Warn("operator's call failed", "path", path, "error", err.Error(),
				"duration_ms", time.Since(begin).Milliseconds())
		}
		respond(w, answer, err)
	}
	s.mux.Handle(path, s.guard(path, http.MethodPost, timeout, s.private(http.HandlerFunc(work))))
}

// guard refuses other methods, bounds the call's time, and counts the answer.
func (s *Server) guard(path, method string, timeout time.Duration,
	next http.Handler) http.Handler {
	return s.bound(timeout, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() { s.countRequest(path, counted.status) }()
		head := method == http.MethodGet && r.Method == http.MethodHead
		if r.Method != method && !head {
			counted.Header().Set("Allow", method)
			writeError(counted, http.StatusMethodNotAllowed, "invalid",
				"the method must be "+method)
			return
		}
		next.ServeHTTP(counted, r)
	}))
}

// decode reads the body into the call and returns its text. It wants the type application/json,
// which a web page of another origin cannot send without the server's consent.
func decode(w http.ResponseWriter, r *http.Request, call any) (string, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return "", &callError{message: "the Content-Type must be application/json",
			status: http.StatusUnsupportedMediaType, cause: service.ErrInvalid}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return "", &callError{message: "the body is too long",
			status: http.StatusRequestEntityTooLarge, cause: service.ErrInvalid}
	} else if err != nil {
		return "", invalid("the body cannot be read: " + err.Error())
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(call); err != nil {
		return "", invalid("the body is no valid JSON object: " + err.Error())
	}
	if _, err := decoder.Token(); err != io.EOF {
		return "", invalid("the body has more than one JSON object")
	}
	return string(body), nil
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	writeError(w, http.StatusNotFound, "invalid", "no such endpoint")
}

func respond(w http.ResponseWriter, answer any, err error) {
	if err != nil {
		k := kindOf(err)
		if k.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		writeError(w, k.status, k.name, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

func writeError(w http.ResponseWriter, status int, kind, message string) {
	writeJSON(w, status, Failure{Error: message, Kind: kind})
}

func writeJSON(w http.ResponseWriter, status int, answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"no JSON form"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The peer may have gone. Then nobody is left to be told.
	_, _ = w.Write(append(text, '\n'))
}

// statusWriter remembers the code of the answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
