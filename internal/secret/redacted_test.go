package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

const seeded = "hunter2-seeded"

type holder struct {
	Open   Redacted
	hidden Redacted
	key    APIKey
	ptr    *Redacted
}

func TestRedactedNeverPrints(t *testing.T) {
	t.Parallel()
	r := Redact(seeded)
	h := holder{Open: r, hidden: r, key: APIKey{r}, ptr: &r}
	values := []any{r, &r, APIKey{r}, h, &h, []Redacted{r}, map[string]Redacted{"k": r}, [1]any{r}, struct{ e error }{fmt.Errorf("x %w %v", errReveal, r)}}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10s", "%p"} {
			out := fmt.Sprintf(verb, v)
			require.NotContains(t, out, seeded, "%s of %T", verb, v)
			require.NotContains(t, out, fmt.Sprintf("%x", seeded), "%s of %T", verb, v)
			require.NotContains(t, out, fmt.Sprintf("%X", seeded), "%s of %T", verb, v)
		}
		out, err := json.Marshal(v)
		require.NoError(t, err)
		require.NotContains(t, string(out), seeded)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		require.Equal(t, hidden, fmt.Sprintf(verb, r))
	}
	require.Equal(t, hidden, fmt.Sprint(r))
	require.Equal(t, hidden, r.String())
	require.Equal(t, seeded, r.Reveal())

	for _, handler := range []func(*bytes.Buffer) slog.Handler{
		func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var buf bytes.Buffer
		log := slog.New(handler(&buf))
		log.Info("m", "r", r, "p", &r, "h", h, "k", APIKey{r}, slog.Group("g", "r", r))
		require.NotContains(t, buf.String(), seeded)
		require.Contains(t, buf.String(), hidden)
	}
	text, err := r.MarshalText()
	require.NoError(t, err)
	require.Equal(t, hidden, string(text))
	_, err = r.Value()
	require.ErrorIs(t, err, errReveal)
}

func TestRedactedReads(t *testing.T) {
	t.Parallel()
	var v struct{ Password Redacted }
	require.NoError(t, json.Unmarshal([]byte(`{"password":"hunter2-seeded"}`), &v))
	require.Equal(t, seeded, v.Password.Reveal())
	require.NoError(t, json.Unmarshal([]byte(`{"password":null}`), &v))
	require.True(t, v.Password.IsZero())
	err := json.Unmarshal([]byte(`{"password":123456}`), &v)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "123456")

	var r Redacted
	require.True(t, r.IsZero())
	require.Empty(t, r.Reveal())
	require.NoError(t, r.UnmarshalText([]byte(seeded)))
	require.True(t, r.Equal(Redact(seeded)))
	require.False(t, r.Equal(Redact("other")))
	require.False(t, r.Equal(Redacted{}))
	require.True(t, Redact("").Equal(Redacted{}))
}
