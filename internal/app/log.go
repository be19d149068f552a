package app

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/redis/go-redis/v9"

	"ajo/api"
	"ajo/internal/config"
)

// Logger returns the log of the settings: JSON, or readable lines.
func Logger(cfg config.Config) *slog.Logger {
	return processLog(os.Stderr, cfg.LogFormat, slog.LevelInfo)
}

// CommandLog is the log of a command, which has no settings but its environment. It has the format
// that a role in that environment would use.
func CommandLog(w io.Writer, getenv func(string) string, least slog.Level) *slog.Logger {
	format := "pretty"
	if getenv("AJO_ENV") == "production" {
		format = "json"
	}
	return processLog(w, cmp.Or(getenv("LOG_FORMAT"), format), least)
}

// processLog is a log that go-redis writes to as well: it has one for the whole process.
func processLog(w io.Writer, format string, least slog.Level) *slog.Logger {
	log := logTo(w, format, least)
	redis.SetLogger(redisLog{log})
	return log
}

func logTo(w io.Writer, format string, least slog.Level) *slog.Logger {
	var h slog.Handler = newPretty(w, least)
	if format == "json" {
		h = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least})
	}
	return slog.New(api.LogHandler(h))
}

// redisLog logs the messages of go-redis, which would otherwise go to stderr.
type redisLog struct{ log *slog.Logger }

// Printf logs one line.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.WarnContext(ctx, "redis: "+fmt.Sprintf(format, args...))
}

// pretty writes readable lines: time of day, level, message, then the attributes as key=value. On a
// terminal the level is coloured and the rest dim, unless NO_COLOR is set.
type pretty struct {
	slog.Handler // writes the attributes to line.text
	line         *line
}

// line is shared by all handlers of one output.
type line struct {
	mu     sync.Mutex
	w      io.Writer
	colour bool
	text   bytes.Buffer
}

func newPretty(w io.Writer, least slog.Level) *pretty {
	l := &line{w: w, colour: isTerminal(w) && os.Getenv("NO_COLOR") == ""}
	return &pretty{line: l, Handler: slog.NewTextHandler(&l.text, &slog.HandlerOptions{
		Level: least,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
				return slog.Attr{}
			}
			return a
		},
	})}
}

// Handle writes one line.
func (p *pretty) Handle(ctx context.Context, r slog.Record) error {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
	dim, plain, level := "", "", ""
	if l.colour {
		dim, plain, level = "\x1b[2m", "\x1b[0m", map[slog.Level]string{slog.LevelInfo: "\x1b[32m", slog.LevelWarn: "\x1b[33m", slog.LevelError: "\x1b[31m"}[r.Level]
	}
	fmt.Fprintf(&l.text, "%s%s%s %s%-5s%s %s  %s", dim, r.Time.Format("15:04:05.000"), plain, level, r.Level, plain, escaped(r.Message), dim)
	err := p.Handler.Handle(ctx, r) // ends the line
	text := bytes.TrimRight(l.text.Bytes(), " \n")
	if _, werr := l.w.Write(append(text, plain+"\n"...)); werr != nil {
		return werr
	}
	return err
}

// WithAttrs is the handler with attributes on each line.
func (p *pretty) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &pretty{p.Handler.WithAttrs(attrs), p.line}
}

// WithGroup is the handler with a prefix to the keys that follow.
func (p *pretty) WithGroup(name string) slog.Handler {
	return &pretty{p.Handler.WithGroup(name), p.line}
}

// escaped keeps a message on one line and removes control sequences.
func escaped(s string) string {
	q := fmt.Sprintf("%q", s)
	if q[1:len(q)-1] == s {
		return s
	}
	return q
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
