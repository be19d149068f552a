package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/app"
	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

// compared stores a comparison with the bank's list that ended just now, with the wallet's balance.
func (o *ops) compared(until time.Time, unexplained string) uuid.UUID {
	o.T.Helper()
	id := uuid.Must(uuid.NewV7())
	o.Exec(`INSERT INTO reconciliations (id, kind, window_from, window_to, status, started_at, finished_at, report, stored_count, exception_count)
		VALUES ($1, 'periodic', $2::timestamptz - interval '15 minutes', $2, 'finished', $2, $2,
			jsonb_build_object('counts', '{}'::jsonb, 'float', jsonb_build_object('comparable', true, 'at', '2026-10-31T09:00:00Z', 'wallet', '5000.00', 'customers', '4950.00', 'unexplained', $3::text)), 0, 0)`,
		id, until, unexplained)
	return id
}

// needs are the things of `ajo status` that need somebody. It fails unless the exit code agrees.
func (o *ops) needs() (out []string) {
	o.T.Helper()
	text, _, err := o.run("status")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "! "); ok {
			out = append(out, strings.Join(strings.Fields(rest), " "))
		}
	}
	if len(out) == 0 {
		require.NoError(o.T, err)
		require.Contains(o.T, text, "\nNothing needs attention, as of ")
	} else {
		require.Equal(o.T, exitCode(1), err, text)
	}
	return out
}

func TestStatusCommand(t *testing.T) {
	o := setup(t)
	o.env["AJO_REDIS_URL"] = ""
	require.Regexp(t, `^bank's list compared until never ajo reconcile list$`, strings.Join(o.needs(), "\n"))
	o.compared(time.Now(), "25.00")
	require.Empty(t, o.needs(), "more than the books may be the platform's own money")
	s := decode[app.Status](o, "status")
	require.True(t, s.OK)
	for _, l := range s.Lines {
		require.False(t, l.Needs, l.What)
	}

	id := o.event(o.account.String())
	o.Exec(`UPDATE inbound_events SET processed_at = now() WHERE id = $1`, id) // the test's clock is another than the command's
	o.Exec(`UPDATE work SET due_at = now() + interval '1 minute' WHERE id = $1`, id)
	require.Empty(t, o.needs(), "a payment that is young needs nobody")
	o.Exec(`UPDATE inbound_events SET processed_at = now() - interval '3 hours' WHERE id = $1`, id)
	require.Regexp(t, `^payments to be confirmed by the bank 1, the oldest for 3h0m\d+s ajo work list$`, strings.Join(o.needs(), "\n"))
	o.Exec(`UPDATE inbound_events SET policy = 'refund' WHERE id = $1`, id)
	require.Len(t, o.needs(), 1)
	o.move(id, ledger.Credit, ledger.EventConfirm)
	require.Regexp(t, `^payments confirmed, to be refunded by policy 1, the oldest for 3h0m\d+s ajo work list --kind confirm$`, strings.Join(o.needs(), "\n"))
	o.Exec(`DELETE FROM work WHERE id = $1`, id)
	require.Empty(t, o.needs())

	o.Exec(`INSERT INTO reconcile_items (id, kind, ref, exception, found_at, due_at)
		SELECT gen_random_uuid(), 'payment', ref, exception::jsonb, now(), now() FROM (VALUES ('DOLLARS', '{"kind": "unposted", "detail": "processing_error: the currency is USD"}'),
			('POSTED', '{"kind": "unposted", "detail": "no run has asked since", "eventId": "' || $1 || '"}'), ('DIFFERS', '{"kind": "differs", "detail": "amount"}'), ('WAITS', NULL)) i (ref, exception)`, id.String())
	require.Equal(t, []string{"payments that cannot be posted 1 ajo reconcile open"}, o.needs())
	require.Contains(t, o.good("reconcile", "open"), "the currency is USD")
	o.good("reconcile", "dismiss", "DOLLARS", "--yes", "--reason", "the bank sent it back")
	require.Empty(t, o.needs())

	_, late := o.transfer("processing")
	o.Exec(`DELETE FROM work WHERE kind = 'confirm'`)
	o.Exec(`UPDATE transfers SET submitted_at = now() - interval '31 minutes' WHERE id = $1`, late)
	o.Exec(`UPDATE work SET due_at = now() - interval '3 minutes' WHERE id = $1`, late)
	require.Regexp(t, `^work to pay out \(settle\) overdue for 3m\d+s ajo work list --due\npayouts whose outcome is not known 1, the oldest for 31m\d+s ajo transfers list --status processing$`,
		strings.Join(o.needs(), "\n"))
	o.Exec(`DELETE FROM work WHERE id = $1`, late)

	o.held("amount 1 is not 2")
	o.event("nobody")
	o.Exec(`DELETE FROM work WHERE kind = 'confirm'`)
	o.customerIn("pending_review")
	o.good("freeze", "payouts", "--yes", "--reason", "a test")
	require.Equal(t, []string{
		"payments that need a review 1 ajo review list",
		"payments misdirected 1 ajo events list --category misdirected",
		"customers whose KYC waits for a review 1 ajo customers review",
	}, o.needs(), "the freeze is young")
	for _, line := range o.needs() { // each leads to a command that there is
		_, look, _ := strings.Cut(line, " ajo ")
		require.NotEqual(t, "none\n", o.good(strings.Fields(look)...))
	}

	o.compared(time.Now(), "-0.01")
	require.Regexp(t, `bank's list wallet 5000\.00, customers have 4950\.00; -0\.01 is not explained; as of 2026-10-31T09:00:00Z ajo reconcile show \S+$`, strings.Join(o.needs(), "\n"))
}

// A part of the bank's list that is not read once more for a day needs somebody, while the periodic
// comparisons go on.
func TestStatusOfALookBackThatFails(t *testing.T) {
	o := setup(t)
	o.env["AJO_REDIS_URL"] = ""
	o.compared(time.Now(), "0.00")
	o.Exec(`INSERT INTO reconciliations (id, kind, window_from, window_to, status, due_at, started_at, finished_at, last_error)
		SELECT gen_random_uuid(), kind, now() - interval '4 days', now() - interval '3 days', 'failed', now() - interval '23 hours', now(), now(), 'HTTP 500'
		FROM unnest('{daily,again}'::text[]) kind`)
	require.Empty(t, o.needs())
	require.Regexp(t, `the day to be read once more +overdue for 23h0m\d+s +ajo reconcile list`, o.good("status"))
	o.Exec(`UPDATE reconciliations SET due_at = due_at - interval '2 hours'`)
	require.Regexp(t, `^bank's list the day to be read once more overdue for 25h0m\d+s ajo reconcile list\n`+
		`bank's list times to be read again, as it was behind overdue for 25h0m\d+s ajo reconcile list$`, strings.Join(o.needs(), "\n"))
	o.env["AJO_RECONCILE_BACK"] = "0s"
	require.Len(t, o.needs(), 1, "no day is read once more")
}

func TestStatusNamesEndpointsThatFail(t *testing.T) {
	o := setup(t)
	o.env["AJO_REDIS_URL"] = ""
	o.compared(time.Now(), "0.00")
	dead := o.deadLetter()
	require.Empty(t, o.needs(), "a dead letter is its tenant's")
	failedFor := func(minutes int) { // it was sent again, and has failed once since
		o.Exec(`UPDATE deliveries SET status = 'pending', replayed_after = attempt_count, attempt_count = attempt_count + 1 WHERE id = $1`, dead)
		o.Exec(`INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms, status_code, error, response_body)
			SELECT id, attempt_count, now() - make_interval(mins => $2), 1, 500, last_error, '' FROM deliveries WHERE id = $1`, dead, minutes)
	}
	failedFor(59)
	o.Schedule(work.Deliver, dead, time.Now().Add(time.Hour))
	require.Empty(t, o.needs())
	out := o.good("status")
	require.Regexp(t, `webhooks +endpoint of Test tenant +1 wait, attempts fail for 59m\d+s: HTTP 500 +ajo deliveries list --status pending --tenant `+o.tenant.String(), out)
	failedFor(61)
	require.Len(t, o.needs(), 1)
}

// The endpoints that are paused longest are named. They need nobody: what waits ends by itself.
func TestStatusNamesPausedEndpoints(t *testing.T) {
	o := setup(t)
	o.env["AJO_REDIS_URL"] = ""
	o.compared(time.Now(), "0.00")
	for i, days := range []string{"3", "40", "1", "2", "4", "5"} {
		o.Exec(`UPDATE webhook_endpoints SET paused_at = now() - $2::text::int * interval '1 day' WHERE id = $1`, o.Endpoint(o.tenant, "https://shop.example/"+string(rune('a'+i))+"?token=hidden", "{payment.received}"), days)
	}
	require.Empty(t, o.needs())
	out := o.good("status")
	var named []string
	for _, m := range regexp.MustCompile(`paused endpoint of Test tenant +for (\d+)h0m\d+s: https://shop\.example/(\w)\S+ +ajo deliveries list --status pending --tenant `+o.tenant.String()).FindAllStringSubmatch(out, -1) {
		named = append(named, m[1]+m[2])
	}
	require.Equal(t, []string{"960b", "120f", "96e", "72a", "48d"}, named, out)
	require.NotContains(t, out, "hidden")
}

// Of when the wallet's sums are stands before what may be cut: why they could not be compared.
func TestStatusOfAWalletThatIsNotCompared(t *testing.T) {
	o := setup(t)
	o.env["AJO_REDIS_URL"] = ""
	id := o.compared(time.Now(), "0.00")
	o.Exec(`UPDATE reconciliations SET report = jsonb_set(jsonb_set(report, '{float,comparable}', 'false'), '{float,why}', to_jsonb($2::text)) WHERE id = $1`, id,
		"entries were reversed after the newest event, and when the wallet gave the money back is not known")
	require.Regexp(t, `wallet +5000\.00, customers have 4950\.00, as of 2026-10-31T09:00:00Z; not compared: entries were reversed`, o.good("status"))
}

// An account below zero is no fault of the books: ajo ledger verify finds none.
func TestStatusOfAnAccountBelowZero(t *testing.T) {
	o := setup(t)
	o.env["AJO_REDIS_URL"] = ""
	o.compared(time.Now(), "0.00")
	ref, _ := o.transfer("processing")
	o.good("transfers", "resolve", ref, "--paid", "--amount", "10000.00", "--yes", "--reason", "the bank's letter")
	require.Equal(t, "-5025.00", testenv.Value[money.Amount](o.Env, `SELECT balance FROM ledger_balances WHERE account_id = $1`, o.account).String())
	o.booksAgree()
	lines := strings.Join(o.needs(), "\n")
	require.NotContains(t, lines, "checks of the books")
	require.Contains(t, lines, "accounts below zero (AjoNegativeBalance in the runbook) 1 -")

	o.Exec(`UPDATE ledger_balances SET provisional_credits = total_credits + 1 WHERE account_id = $1`, o.account)
	lines = strings.Join(o.needs(), "\n")
	require.Contains(t, lines, "health checks of the books that fail 1 ajo ledger verify", "the one that fails, and no more")
	require.Contains(t, lines, "accounts below zero (AjoNegativeBalance in the runbook) 1 -")
}

// Without a worker nothing is paid, and without Redis all goes on slowly.
func TestStatusLooksAtRedis(t *testing.T) {
	o := setup(t)
	o.compared(time.Now(), "0.00")
	require.Equal(t, []string{"health workers 0 running -"}, o.needs())
	o.env["AJO_REDIS_URL"] = testenv.StartRedis(t, "min-replicas-to-write 1").URL
	require.Equal(t, []string{"health Redis takes no writes; no task runs -"}, o.needs())
	o.env["AJO_REDIS_URL"] = away
	require.Equal(t, []string{"health Redis does not answer; work goes on at the pace of the sweeper -"}, o.needs())
	o.env["AJO_DATABASE_URL"] = "postgres://127.0.0.1:1/none"
	_, _, err := o.run("status")
	require.ErrorContains(t, err, "127.0.0.1:1")
}

// Payouts that are stopped have a line of their own, and somebody is needed for the others alone.
func TestStatusOfStoppedPayouts(t *testing.T) {
	o := setup(t)
	o.env["AJO_REDIS_URL"] = ""
	o.compared(time.Now(), "0.00")
	_, id := o.transfer("pending")
	o.Exec(`DELETE FROM work WHERE kind = 'confirm'`)
	o.Exec(`UPDATE transfers SET attempt_count = 0, submitted_at = NULL, created_at = now() - interval '3 hours' WHERE id = $1`, id)
	require.Regexp(t, `^payouts not at the bank yet 1, the oldest for 3h0m\d+s ajo transfers list --status pending$`, strings.Join(o.needs(), "\n"))
	o.good("tenant", "suspend", o.tenant.String(), "--yes", "--reason", "a fraud report")
	require.Empty(t, o.needs())
	require.Regexp(t, `payouts +stopped by a freeze or a suspension +1, the oldest for 3h0m\d+s +ajo freeze list --status standing\n`, o.good("status"))
	o.good("tenant", "activate", o.tenant.String(), "--yes", "--reason", "it was none")
	require.Len(t, o.needs(), 1)
}

// What the database did not give is not shown as none, and the rest is shown.
func TestStatusWithoutAPart(t *testing.T) {
	o := setup(t)
	o.env["AJO_REDIS_URL"] = ""
	o.compared(time.Now(), "0.00")
	o.Exec(`ALTER TABLE event_keys RENAME TO away`)
	require.Equal(t, []string{
		`health what was not read: misdirected payments ERROR: relation "event_keys" does not exist (SQLSTATE 42P01) -`,
		"payments misdirected not known ajo events list --category misdirected",
	}, o.needs())
}
