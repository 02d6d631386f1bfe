package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/lni/dragonboat/v4/logger"
)

var setLogger sync.Once

// LogTo sends the messages of dragonboat to a logger. Only the first call of the process counts:
// dragonboat has one destination.
func LogTo(to *slog.Logger) {
	setLogger.Do(func() {
		logger.SetLoggerFactory(func(name string) logger.ILogger {
			return &raftLogger{to: to.With("part", name)}
		})
	})
}

// raftLogger passes messages on. Raft's own progress is of interest for debugging alone.
type raftLogger struct{ to *slog.Logger }

// SetLevel does nothing: the destination has its own level.
func (l *raftLogger) SetLevel(logger.LogLevel) {}

func (l *raftLogger) log(level slog.Level, format string, arguments []any) {
	if l.to.Enabled(context.Background(), level) {
		l.to.Log(context.Background(), level, fmt.Sprintf(format, arguments...))
	}
}

// Debugf and the others log with fmt's formats.
func (l *raftLogger) Debugf(format string, a ...any)   { l.log(slog.LevelDebug-4, format, a) }
func (l *raftLogger) Infof(format string, a ...any)    { l.log(slog.LevelDebug, format, a) }
func (l *raftLogger) Warningf(format string, a ...any) { l.log(slog.LevelDebug, format, a) }
func (l *raftLogger) Errorf(format string, a ...any)   { l.log(slog.LevelError, format, a) }

// Panicf ends the process: dragonboat calls it where going on could lose what was acknowledged.
func (l *raftLogger) Panicf(format string, a ...any) {
	l.log(slog.LevelError, format, a)
	panic(fmt.Sprintf(format, a...))
}
