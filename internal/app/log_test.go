package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/trace"
)

// A line for people has its parts in order, stays one line whatever is in it, and has no colours
// outside a terminal.
func TestPrettyLines(t *testing.T) {
	var out bytes.Buffer
	log := logTo(&out, "pretty", slog.LevelInfo)
	log.With(slog.String("role", "worker")).Warn("a task was lost", slog.Any("err", errors.New("two words")), slog.Group("task", slog.Int("rows", 2)))
	log.WithGroup("g").Info("said", slog.String("msg", "a\nb"))
	log.Error("two\nlines \x1b[2J")
	log.Info("alone")
	require.Regexp(t, regexp.MustCompile(`^[0-9:.]{12} WARN  a task was lost  role=worker err="two words" task.rows=2
[0-9:.]{12} INFO  said  g.msg="a\\nb"
[0-9:.]{12} ERROR "two\\nlines \\x1b\[2J"
[0-9:.]{12} INFO  alone
$`), out.String())
}

// Lines about a row that is traced name its trace, in both forms; others do not.
func TestLinesNameTheirTrace(t *testing.T) {
	stop, err := trace.Setup(t.Context(), trace.Options{Endpoint: "http://127.0.0.1:1", Every: 1, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { _ = stop(t.Context()) }() // there is nobody to take spans, and there are none
	row := trace.Within(t.Context(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	for format, want := range map[string]string{"json": `"trace_id":"0af7651916cd43dd8448eb211c80319c"`, "pretty": "trace_id=0af7651916cd43dd8448eb211c80319c"} {
		var out bytes.Buffer
		log := logTo(&out, format, slog.LevelInfo)
		log.WarnContext(row, "a task failed")
		require.Contains(t, out.String(), want)
		out.Reset()
		log.WarnContext(context.Background(), "a task failed")
		log.WarnContext(trace.Within(t.Context(), "not one"), "a task failed")
		require.NotContains(t, out.String(), "trace_id")
	}
}
