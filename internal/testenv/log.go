package testenv

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Log keeps what many write at once: the log of a test's services. The zero value is empty.
type Log struct {
	mu   sync.Mutex
	b    bytes.Buffer
	file string // all that was written, after a failure
}

// NewLog is a log of which the last lines are shown when t fails.
func NewLog(t testing.TB) *Log {
	l := &Log{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(l.last(t))
		}
	})
	return l
}

// Write appends.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Logger writes to the log, as text.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Has fails t unless text was logged.
func (l *Log) Has(t testing.TB, text string, about ...any) {
	t.Helper()
	if !strings.Contains(l.String(), text) {
		t.Fatalf("not logged: %s %s\n%s", text, fmt.Sprint(about...), l.last(t))
	}
}

// HasNot fails t if text was logged, and shows the first line that has it.
func (l *Log) HasNot(t testing.TB, text string, about ...any) {
	t.Helper()
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			t.Fatalf("logged: %s %s\n%s%s", text, fmt.Sprint(about...), shortened(line), l.last(t))
		}
	}
}

// logLines is how many lines of a log a test that failed shows.
const logLines = 20

// last is the end of the log, and the file that has all of it.
func (l *Log) last(t testing.TB) string {
	text := l.String()
	lines := slices.Collect(strings.Lines(text))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == "" {
		l.file = KeepFile(t, "services-*.log")
	}
	if err := os.WriteFile(l.file, []byte(text), 0o600); err != nil {
		l.file = err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the last of %d lines that the services logged; all are in %s\n", len(lines), l.file)
	for _, line := range lines[max(0, len(lines)-logLines):] {
		b.WriteString(shortened(line))
	}
	return b.String()
}

// shortened is as much of a line as a test that failed shows.
func shortened(line string) string {
	const most = 400
	if line = strings.TrimSuffix(line, "\n"); len(line) > most {
		line = line[:most] + " …"
	}
	return "  " + line + "\n"
}

// KeepFile makes a file that outlives the test, in .ajo/failed, and returns its name, or why there
// is none.
func KeepFile(t testing.TB, pattern string) string {
	root, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil || root == filepath.Dir(root) {
			break
		}
		root = filepath.Dir(root)
	}
	dir := filepath.Join(root, ".ajo", "failed", strings.Map(fileRune, t.Name()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err.Error()
	}
	f, err := os.CreateTemp(dir, strings.Map(fileRune, pattern))
	if err != nil {
		return err.Error()
	}
	_ = f.Close()
	return f.Name()
}

func fileRune(r rune) rune {
	if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-*.", r) {
		return r
	}
	return '_'
}
