package api

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"ajo/internal/errs"
)

// Whatever the bytes are, the body is refused as such, or its fields are what the standard decoder
// makes of them; and what is taken has no key twice, no NUL and valid UTF-8.
func FuzzReadBody(f *testing.F) {
	for _, seed := range []string{
		"", " ", "{", "{}", "[]", "null", "1", `"x"`, `{} {}`, `{}x`, "\ufeff{}", `{"name":"A"}`, `{"name":null}`, `{"name":1}`, `{"name":"A","name":"B"}`, `{"name":"A","NAME":"B"}`,
		`{"name":"A","n\u0061me":"B"}`, `{"name":"\u0000"}`, `{"name":"\ud800"}`, "{\"name\":\"\xff\"}", `{"amount":5}`, `{"amount":5.50}`, `{"amount":5.001}`, `{"amount":5e1}`, `{"amount":-0}`,
		`{"amount":"5"}`, `{"amount":[5]}`, `{"at":"2026-01-30T12:15:00Z"}`, `{"at":"2026-01-30T12:15:00+01:00"}`, `{"at":"9999-12-31T23:59:59-23:59"}`, `{"at":"x"}`, `{"":1}`, `{"ſ":1,"s":2}`,
		strings.Repeat("[", 12000), `{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, `{"name":"` + strings.Repeat("a", 70000) + `"}`,
	} {
		f.Add([]byte(seed))
	}
	app := fiber.New()
	f.Fuzz(func(t *testing.T, raw []byte) {
		ctx := &fasthttp.RequestCtx{}
		ctx.Request.SetBody(raw)
		ctx.Request.Header.SetContentType("application/json")
		c := app.AcquireCtx(ctx)
		defer app.ReleaseCtx(c)
		b := readBody(c)
		var standard map[string]json.RawMessage
		if err := b.err(); err != nil {
			require.Contains(t, []errs.Kind{errs.Invalid, errs.TooLarge}, errs.KindOf(err))
			return
		}
		require.True(t, utf8.Valid(raw))
		require.NoError(t, json.Unmarshal(raw, &standard))
		require.Len(t, b.fields, len(standard), "each key once")
		for name, value := range standard {
			require.JSONEq(t, string(value), string(b.fields[name]))
		}
		name, amount, at := b.text("name"), b.amount("amount"), b.time("at")
		if b.err() != nil {
			require.Equal(t, errs.Invalid, errs.KindOf(b.err()))
			return
		}
		require.True(t, storable(name))
		if amount != nil {
			require.GreaterOrEqual(t, amount.Sign(), 0)
		}
		if at != nil {
			_, err := json.Marshal(at)
			require.NoError(t, err, "a time that is taken can be shown")
		}
	})
}
