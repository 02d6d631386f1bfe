package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/logger"
)

// An election of many shards, or a peer that is away, repeats a warning for each shard and attempt.
// One of a kind is logged in so long, and the others are counted.
const warningInterval = time.Second

var setLogger sync.Once

// LogTo sends the messages of dragonboat to a logger. Only the first call of the process counts:
// dragonboat has one destination.
func LogTo(to *slog.Logger) {
	setLogger.Do(func() {
		logger.SetLoggerFactory(func(name string) logger.ILogger {
			return newRaftLogger(to.With("part", name))
		})
	})
}

// transportWarning is about dragonboat's own transport, which the node does not use.
const transportWarning = "mutual TLS disabled, communication is insecure"

// raftLogger passes messages on. Raft's own progress is of interest for debugging alone.
type raftLogger struct {
	to *slog.Logger

	mu       sync.Mutex
	warnings map[string]*repeated // by format
}

// repeated is a kind of warnings.
type repeated struct {
	logged time.Time
	unsaid int // since then
}

func newRaftLogger(to *slog.Logger) *raftLogger {
	return &raftLogger{to: to, warnings: map[string]*repeated{}}
}

// SetLevel does nothing: the destination has its own level.
func (l *raftLogger) SetLevel(logger.LogLevel) {}

func (l *raftLogger) log(level slog.Level, format string, arguments []any) {
	if l.to.Enabled(context.Background(), level) {
		l.to.Log(context.Background(), level, fmt.Sprintf(format, arguments...))
	}
}

// Debugf and the others log with fmt's formats.
func (l *raftLogger) Debugf(format string, a ...any) { l.log(slog.LevelDebug-4, format, a) }
func (l *raftLogger) Infof(format string, a ...any)  { l.log(slog.LevelDebug, format, a) }
func (l *raftLogger) Errorf(format string, a ...any) { l.log(slog.LevelError, format, a) }

// Warningf logs the first warning of a kind, and those that come a while later.
func (l *raftLogger) Warningf(format string, a ...any) {
	if format == transportWarning {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kind, known := l.warnings[format]
	if !known {
		kind = &repeated{}
		l.warnings[format] = kind
	}
	if now := time.Now(); !known || now.Sub(kind.logged) >= warningInterval {
		l.to.Warn(fmt.Sprintf(format, a...), "unlogged", kind.unsaid)
		kind.logged, kind.unsaid = now, 0
		return
	}
	kind.unsaid++
	l.log(slog.LevelDebug, format, a)
}

// Panicf ends the process: dragonboat calls it where going on could lose what was acknowledged.
func (l *raftLogger) Panicf(format string, a ...any) {
	l.log(slog.LevelError, format, a)
	panic(fmt.Sprintf(format, a...))
}
