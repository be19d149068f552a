package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

var ctx = context.Background()

func write(e *testenv.Env, entry audit.Entry) error {
	return pg.InTx(ctx, e.Pool, func(tx pg.Tx) error { return audit.Write(ctx, tx, e.Clock.Now(), entry) })
}

func TestWhoAndWhyAreRequired(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	for _, reason := range []string{"", " ", "\t\n", strings.Repeat("x", 501), "two\nlines", "\xff", "a\x00b", "\x1b[2Jcleared"} {
		require.ErrorIs(t, write(e, audit.By{Actor: "cli:ada", Reason: reason}.Entry("a", "t", nil)), audit.ErrReason, "%q", reason)
	}
	for _, actor := range []string{"", " ", "cli:\nada", "\xff"} {
		require.ErrorIs(t, write(e, audit.By{Actor: actor, Reason: "why"}.Entry("a", "t", nil)), audit.ErrActor, "%q", actor)
	}
	require.Zero(t, testenv.Value[int](e, `SELECT count(*) FROM audit_log`))
	require.NoError(t, write(e, audit.By{Actor: "cli:ada", Reason: " " + strings.Repeat("é", 498) + " "}.Entry("a", "t", nil)))
	require.Equal(t, 498, testenv.Value[int](e, `SELECT char_length(reason) FROM audit_log`))
}

func TestAnEntryStandsWithItsChange(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	by := audit.By{Actor: "cli:ada", Reason: "a test"}
	undone := errors.New("undone")
	require.ErrorIs(t, pg.InTx(ctx, e.Pool, func(tx pg.Tx) error {
		require.NoError(t, audit.Write(ctx, tx, e.Clock.Now(), by.Entry("tenant.suspend", "tenant:1", nil)))
		return undone
	}), undone)
	require.Zero(t, testenv.Value[int](e, `SELECT count(*) FROM audit_log`))
	require.ErrorContains(t, write(e, by.Entry("a", "t", func() {})), "audit detail of a")

	require.NoError(t, write(e, by.Entry("tenant.suspend", "tenant:1", nil)))
	for _, sql := range []string{`UPDATE audit_log SET reason = 'another'`, `DELETE FROM audit_log`, `TRUNCATE audit_log`} {
		_, err := e.Pool.Exec(ctx, sql)
		require.Equal(t, "23514", pg.Code(err), sql)
	}
}

func TestListIsPagedAndFiltered(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	for i := range 5 {
		by := audit.By{Actor: "cli:ada", Reason: fmt.Sprintf("reason %d", i)}
		require.NoError(t, write(e, by.Entry([]string{"even", "odd"}[i%2], fmt.Sprintf("t:%d", i/2), struct{ Number int }{i})))
	}
	reasons := func(f audit.Filter) (out []string) {
		r := page.Request{Limit: 2}
		for {
			list, info, err := audit.List(ctx, e.Pool, f, r)
			require.NoError(t, err)
			for _, a := range list {
				out = append(out, a.Reason)
			}
			if info.NextCursor == nil {
				return out
			}
			r.After = *info.NextCursor
		}
	}
	require.Equal(t, []string{"reason 4", "reason 3", "reason 2", "reason 1", "reason 0"}, reasons(audit.Filter{}))
	require.Equal(t, []string{"reason 3", "reason 1"}, reasons(audit.Filter{Action: "odd"}))
	require.Equal(t, []string{"reason 2"}, reasons(audit.Filter{Action: "even", Target: "t:1"}))
	list, _, err := audit.List(ctx, e.Pool, audit.Filter{Target: "t:2"}, page.Request{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "cli:ada", list[0].Actor)
	require.Equal(t, e.Clock.Now(), list[0].At)
	require.JSONEq(t, `{"Number":4}`, string(list[0].Detail))
	_, _, err = audit.List(ctx, e.Pool, audit.Filter{}, page.Request{Limit: 1, After: "x"})
	require.ErrorIs(t, err, page.ErrCursor)
}
