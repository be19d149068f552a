package main

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/freeze"
	"ajo/internal/limit"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

func TestFreezeCommands(t *testing.T) {
	o := setup(t)
	ref, id := o.transfer("pending")
	o.Exec(`UPDATE transfers SET attempt_count = 0, submitted_at = NULL WHERE id = $1`, id)
	require.Equal(t, "none\n", o.good("freeze", "list"))
	out, said, err := o.run("freeze", "account", o.account.String(), "--all", "--yes", "--reason", "reported as stolen")
	require.NoError(t, err)
	require.Contains(t, said, `Stop the payouts of account "customer-1"`)
	require.Contains(t, said, "New settle requests are refused. They go on when the freeze is lifted.")
	require.Contains(t, out, "To end it: ajo freeze lift ")
	o.lastAudit("freeze.account", "account:"+o.account.String(), "reported as stolen")
	f := decode[freeze.Freeze](o, "freeze", "tenant", o.tenant.String(), "--until", "2h", "--yes", "--reason", "a leaked key")
	require.WithinDuration(t, time.Now().Add(2*time.Hour), *f.Until, time.Minute)
	o.lastAudit("freeze.tenant", "tenant:"+o.tenant.String(), "a leaked key")
	o.good("freeze", "payouts", "--yes", "--reason", "the bank pays twice")
	o.lastAudit("freeze.payouts", "payouts:all", "the bank pays twice")

	list := decode[list[freeze.Freeze]](o, "freeze", "list", "--status", "standing")
	require.Len(t, list.Items, 3)
	require.Equal(t, []freeze.Scope{freeze.Payouts, freeze.Tenant, freeze.Account}, []freeze.Scope{list.Items[0].Scope, list.Items[1].Scope, list.Items[2].Scope})
	table := o.good("freeze", "list")
	for _, want := range []string{"FREEZE", "STOPS", "account:" + o.account.String() + ", requests too", "tenant:" + o.tenant.String(), "payouts", "standing", "the bank pays twice"} {
		require.Contains(t, table, want)
	}
	for _, f := range list.Items {
		out, said, err := o.run("freeze", "lift", f.ID.String(), "--yes", "--reason", "all is well")
		require.NoError(t, err)
		require.Equal(t, "The freeze is lifted.\n", out)
		require.Contains(t, said, "Its payouts go on at once, unless another freeze or a suspension stops them too.")
	}
	o.lastAudit("freeze.lift", "account:"+o.account.String(), "all is well")
	require.Equal(t, "none\n", o.good("freeze", "list", "--status", "standing"))
	require.Contains(t, o.good("transfers", "show", ref), "due", "it goes on")

	const until = `--until must be a time, such as 2026-03-01T09:00:00Z, or how long from now, such as 2h, not `
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"lift", f.ID.String()}, freeze.ErrEnded.Error()},
		{[]string{"lift", uuid.NewString()}, freeze.ErrNotFound.Error()},
		{[]string{"account", uuid.NewString()}, account.ErrNotFound.Error()},
		{[]string{"tenant", "nobody@shop.example"}, tenant.ErrNotFound.Error()},
		{[]string{"payouts", "--until", "2020-01-31T18:00:00Z"}, freeze.ErrUntil.Error()},
		{[]string{"payouts", "--until", "-2h"}, until + `"-2h"`},
		{[]string{"payouts", "--until", "2999-01-31"}, until + `"2999-01-31"`}, // in which zone?
		{[]string{"payouts", "--until", "soon"}, until + `"soon"`},
	} {
		_, _, err := o.run(append(append([]string{"freeze"}, c.args...), "--yes", "--reason", "again")...)
		require.EqualError(t, err, c.want)
	}
	o.good("tenant", "suspend", o.tenant.String(), "--yes", "--reason", "a fraud report")
	table = o.good("freeze", "list", "--status", "standing")
	for _, want := range []string{"suspension:" + o.tenant.String(), "standing", "a fraud report"} {
		require.Contains(t, table, want)
	}
	require.NotContains(t, table, "more may be")
	require.NotContains(t, o.good("freeze", "list", "--status", "ended"), "suspension")
	o.good("tenant", "activate", o.tenant.String(), "--yes", "--reason", "it was none")
	require.Equal(t, "none\n", o.good("freeze", "list", "--status", "standing"))
	_, _, err = o.run("freeze", "list", "--status", "x")
	require.ErrorIs(t, err, freeze.ErrStatus)
	o.booksAgree()
}

// A list of what is stopped that may lack suspended tenants says so.
func TestFreezesOfManySuspendedTenants(t *testing.T) {
	o := setup(t)
	for range freeze.MaxSuspended {
		o.Tenant()
	}
	o.Exec(`UPDATE tenants SET status = 'suspended'`)
	more := "100 suspended tenants are listed, and more may be: ajo tenant list --status suspended"
	require.Contains(t, o.good("freeze", "list", "--status", "standing"), more+"\n")
	require.Equal(t, more, decode[list[freeze.Freeze]](o, "freeze", "list").Note)
	require.NotContains(t, o.good("freeze", "list", "--status", "ended"), more)
}

// An operator's machine whose clock is an hour behind Postgres' neither ends a freeze early nor
// makes limits start late.
func TestCommandsGoByPostgresClock(t *testing.T) {
	o := setup(t)
	o.Exec(`CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE RETURN pg_catalog.clock_timestamp() + interval '1 hour'`)
	u, err := url.Parse(o.env["AJO_DATABASE_URL"])
	require.NoError(t, err)
	q := u.Query()
	q.Set("search_path", "public,pg_catalog")
	u.RawQuery = q.Encode()
	o.env["AJO_DATABASE_URL"] = u.String()
	theirs := time.Now().Add(time.Hour)
	f := decode[freeze.Freeze](o, "freeze", "payouts", "--until", "2h", "--yes", "--reason", "the bank pays twice")
	set := decode[limit.Set](o, "tenant", "limits", "set", o.tenant.String(), "--max-transfer", "500", "--yes", "--reason", "contract 12")
	for _, c := range []struct{ want, got time.Time }{{theirs, *f.CreatedAt}, {theirs.Add(2 * time.Hour), *f.Until}, {theirs, set.StartsAt}} {
		require.WithinDuration(t, c.want, c.got, 10*time.Minute)
	}
	id, until := uuid.Must(uuid.NewV7()), theirs.Add(-30*time.Minute) // half an hour to come by this machine's clock
	o.Schedule(work.Deliver, id, until)
	o.Exec(`UPDATE work SET leased_until = $2 WHERE id = $1`, id, until)
	for _, args := range [][]string{{"list", "--due", "--kind", "deliver"}, {"list", "--summary"}, {"show", id.String()}} {
		out := o.good(append([]string{"work"}, args...)...)
		require.Regexp(t, `\b3\dm\b`, out, "overdue")
		require.LessOrEqual(t, strings.Count(out, stamp(&until)), 1, "due, and not leased any more: %s", out)
	}
	o.agesGoByPostgresClock()
	out, _, _ := o.run("status") // it also complains of what this test has not, such as a worker
	require.Regexp(t, `to deliver +overdue for 3\dm`, out)
}

// What has been committed is reported as done, also if what follows the commit fails: an operator
// who reads an error alone freezes a second time, or believes that a freeze still stands.
func TestFailuresAfterTheCommit(t *testing.T) {
	o := setup(t)
	o.transfer("pending")
	hold := o.holdOfLimit()
	f := decode[freeze.Freeze](o, "freeze", "account", o.account.String(), "--yes", "--reason", "a theft")
	o.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, o.tenant)
	o.Exec(`CREATE FUNCTION not_now() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$`)
	o.Exec(`CREATE TRIGGER not_now BEFORE UPDATE ON work FOR EACH ROW EXECUTE FUNCTION not_now()`)
	for said, args := range map[string][]string{
		"The freeze is lifted.": {"freeze", "lift", f.ID.String()},
		"is active.":            {"tenant", "activate", o.tenant.String()},
		"released":              {"accounts", "release", hold.String()},
	} {
		out, note, err := o.run(append(args, "--yes", "--reason", "it is over")...)
		require.NoError(t, err, args)
		require.Contains(t, out, said)
		require.Contains(t, note, "It is done, but the payouts that may continue were not rescheduled: they continue by themselves within half an hour")
		require.Contains(t, note, "not now")
	}
	require.Equal(t, "none\n", o.good("freeze", "list", "--status", "standing"))
	require.Zero(t, testenv.Value[int](o.Env, `SELECT count(*) FROM holds WHERE status = 'open'`))

	writer, err := o.Pool.Begin(o.ctx)
	require.NoError(t, err)
	defer func() { _ = writer.Rollback(context.WithoutCancel(o.ctx)) }()
	_, err = writer.Exec(o.ctx, `UPDATE transfers SET updated_at = updated_at WHERE false`)
	require.NoError(t, err)
	const awaiting = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query_start > $1
		AND query LIKE '%virtualtransaction FROM pg_locks%' AND query NOT LIKE '%pg_stat_activity%'`
	id, leave, accepted := o.tenant.String(), "payouts that they are submitting may still leave", "payouts in it may still be accepted as before"
	for said, c := range map[string]struct {
		args      []string
		sql, note string
	}{
		"To end it: ajo freeze lift ": {[]string{"freeze", "payouts"}, `SELECT count(*) FROM freezes WHERE lifted_at IS NULL`, leave},
		"is suspended.":               {[]string{"tenant", "suspend", id}, `SELECT count(*) FROM tenants WHERE status = 'suspended'`, leave},
		"per settlement 500.00":       {[]string{"tenant", "limits", "set", id, "--max-transfer", "500"}, `SELECT count(*) FROM payout_limits`, accepted},
		"approvals needed: 2":         {[]string{"tenant", "policy", "set", id, "--approvals", "2", "--above", "500"}, `SELECT count(*) FROM tenants WHERE payout_approvals = 2`, accepted},
	} {
		begun := testenv.Value[time.Time](o.Env, `SELECT clock_timestamp()`)
		whole := o.ctx
		ctx, cancel := context.WithCancel(whole)
		o.ctx = ctx
		var out, note string
		done := make(chan error, 1)
		go func() {
			var err error
			out, note, err = o.run(append(c.args, "--yes", "--reason", "a theft")...)
			done <- err
		}()
		testenv.Eventually(t, time.Minute, "the commit, and that it waits", func() bool {
			return testenv.Value[int](o.Env, c.sql) == 1 && testenv.Value[int](o.Env, awaiting, begun) > 0
		})
		cancel()
		err := <-done
		o.ctx = whole
		require.NoError(t, err, c.args)
		require.Contains(t, out, said)
		require.Contains(t, note, c.note)
	}
}

// agesGoByPostgresClock checks the lists with an age: what has lasted for 30 minutes by Postgres'
// clock is half an hour ahead of this machine's.
func (o *ops) agesGoByPostgresClock() {
	o.T.Helper()
	since := time.Now().Add(30 * time.Minute)
	o.held("no clear answer in time")
	o.recalled()
	o.holdOfLimit()
	o.transfer("pending")
	o.customerIn("pending_review")
	o.operator("chidi")
	o.Exec(`INSERT INTO reconcile_items (id, kind, ref, exception, found_at, due_at)
		VALUES (gen_random_uuid(), 'payment', 'T-1', '{"kind": "differs", "detail": "amount"}', $1, $1)`, since)
	for _, sql := range []string{
		`UPDATE inbound_events SET processed_at = $1`, `UPDATE ledger_entries SET created_at = $1`, `UPDATE recalls SET opened_at = $1`, `UPDATE holds SET created_at = $1`,
		`UPDATE transfers SET created_at = $1`, `UPDATE customers SET updated_at = $1`, `UPDATE operators SET created_at = $1`, `UPDATE freezes SET created_at = $1`,
	} {
		o.ExecUnguarded(sql, since)
	}
	for _, args := range [][]string{
		{"review", "list"},
		{"recalls", "list"},
		{"accounts", "holds"},
		{"accounts", "holds", "--summary"},
		{"transfers", "list"},
		{"customers", "review"},
		{"operator", "list"},
		{"freeze", "list"},
		{"reconcile", "open"},
	} {
		require.Regexp(o.T, `\b3\dm\b`, o.good(args...), args)
	}
	o.Exec(`UPDATE tenants SET webhook_secret = '\x00', webhook_secret_previous = '\x00', webhook_secret_previous_until = $1`, time.Now().Add(30*time.Minute))
	_, said, err := o.run("tenant", "rotate-secret", o.tenant.String(), "--reason", "a leak")
	require.ErrorIs(o.T, err, errUnasked)
	require.NotContains(o.T, said, "stops now", "it has stopped already")
}

// How long a recall has been open is said of those that are.
func TestEndedRecallsHaveNoAge(t *testing.T) {
	o := setup(t)
	id := o.recalled()
	o.Exec(`UPDATE recalls SET opened_at = now() - interval '30 minutes'`)
	require.Regexp(t, `\b3\dm\b`, o.good("recalls", "list"))
	o.good("recalls", "keep", id.String(), "--yes", "--reason", "the money is there")
	require.NotRegexp(t, `\b3\dm\b`, o.good("recalls", "list"))
}
