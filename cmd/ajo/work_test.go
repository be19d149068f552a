package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/app"
	"ajo/internal/page"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// pendingWork is a delivery that fails, due for a day, a transfer that a worker has leased, and a
// payment to be confirmed in a month.
func (o *ops) pendingWork() (delivery, transfer, event uuid.UUID) {
	o.T.Helper()
	_, transfer = o.transfer("processing")
	o.Exec(`DELETE FROM work WHERE kind = 'confirm'`)
	o.Exec(`UPDATE work SET due_at = now() - interval '1 hour', leased_until = now() + interval '1 hour', tenant_id = $1`, o.tenant)
	o.Exec(`UPDATE tenants SET webhook_url = 'https://shop.example/hook'`)
	event = o.event(o.account.String())
	o.Exec(`UPDATE work SET due_at = now() + interval '30 days' WHERE id = $1`, event)
	delivery = testenv.Value[uuid.UUID](o.Env, `SELECT id FROM deliveries`)
	o.Exec(`UPDATE work SET due_at = now() - interval '25 hours', attempts = 3, last_error = E'could not\nextend file' WHERE id = $1`, delivery)
	return delivery, transfer, event
}

func TestWorkList(t *testing.T) {
	o := setup(t)
	require.JSONEq(t, `{"items":[],"pagination":{"limit":20,"nextCursor":null,"hasMore":false}}`, o.good("work", "list", "--json"))
	delivery, transfer, event := o.pendingWork()
	golden(t, `
		KIND  ID  TENANT  DUE  OVERDUE  LEASED UNTIL  FAILURES  LAST ERROR
		deliver  <id>  Test tenant  <time>  <age>  -  3  could not extend file
		settle  <id>  Test tenant  <time>  1h0m  <time>  0  -
		confirm  <id>  Test tenant  <time>  -  -  0  -`, o.good("work", "list"))
	stray := o.received("nobody")
	o.Exec(`UPDATE work SET due_at = now() - interval '1 minute' WHERE id = $1`, stray)
	for _, c := range []struct {
		args []string
		want []uuid.UUID
	}{
		{nil, []uuid.UUID{delivery, transfer, stray, event}},
		{[]string{"--kind", "settle"}, []uuid.UUID{transfer}},
		{[]string{"--kind", "expire"}, []uuid.UUID{}},
		{[]string{"--due"}, []uuid.UUID{delivery, stray}},
		{[]string{"--failing"}, []uuid.UUID{delivery}},
		{[]string{"--leased"}, []uuid.UUID{transfer}},
		{[]string{"--tenant", o.tenant.String()}, []uuid.UUID{delivery, transfer, event}},
		{[]string{"--tenant", o.tenant.String() + "@tenant.example", "--due"}, []uuid.UUID{delivery}},
		{[]string{"--tenant", o.Tenant().String()}, []uuid.UUID{}},
	} {
		got := []uuid.UUID{}
		for _, m := range decode[list[work.Record]](o, append([]string{"work", "list"}, c.args...)...).Items {
			got = append(got, m.ID)
		}
		require.Equal(t, c.want, got, "%v", c.args)
	}
	require.Contains(t, o.good("work", "list", "--due", "--kind", "ingest"), "ingest  "+stray.String()+"  -  ")
	first := decode[list[work.Record]](o, "work", "list", "--limit", "2")
	require.Equal(t, transfer, first.Items[1].ID)
	require.Contains(t, o.good("work", "list", "--limit", "2"), "next page: --after "+*first.Pagination.NextCursor)
	rest := decode[list[work.Record]](o, "work", "list", "--after", *first.Pagination.NextCursor)
	require.Equal(t, []uuid.UUID{stray, event}, []uuid.UUID{rest.Items[0].ID, rest.Items[1].ID})
	for want, args := range map[string][]string{
		"unknown kind of work":                    {"--kind", "x"},
		"none of the others can be":               {"--due", "--leased"},
		"if any flags in the group [summary kind": {"--summary", "--kind", "settle"},
		page.ErrCursor.Error():                    {"--after", page.ID(page.Events, event)},
	} {
		_, _, err := o.run(append([]string{"work", "list"}, args...)...)
		require.ErrorContains(t, err, want)
	}
}

func TestWorkSummary(t *testing.T) {
	o := setup(t)
	o.pendingWork()
	o.Exec(`INSERT INTO work (kind, id, due_at) SELECT 'expire', gen_random_uuid(), now() + interval '1 day' FROM generate_series(1, $1)`, work.CountLimit+1)
	golden(t, `
		KIND  DUE  OLDEST  LEASED  LATER
		ingest  0  -  0  0
		confirm  0  -  0  1
		settle  0  -  1  0
		deliver  1  <age>  0  0
		expire  0  -  0  10000+`, o.good("work", "list", "--summary"))
	all := decode[[]work.Summary](o, "work", "list", "--summary")
	require.Len(t, all, len(work.Kinds))
	require.Equal(t, []any{work.Deliver, 1, 0}, []any{all[3].Kind, all[3].Due, all[3].Leased})
}

func TestWorkShow(t *testing.T) {
	o := setup(t)
	delivery, transfer, event := o.pendingWork()
	golden(t, `
		work  deliver
		delivery  <id>
		status  pending
		shown by  ajo deliveries show <id>
		tenant  Test tenant (<id>)
		due  <time>, <age> ago
		failures in a row  3
		last error  could not extend file
		tasks  none`, o.good("work", "show", delivery.String()))
	golden(t, `
		work  settle
		transfer  <id>
		status  processing
		shown by  ajo transfers show <ref>
		tenant  Test tenant (<id>)
		due  <time>, 1h0m ago
		leased until  <time>
		failures in a row  0
		tasks  none`, o.good("work", "show", transfer.String()))
	o.Schedule(work.Expire, event, time.Now()) // of a row that is not there
	two := decode[[]app.WorkDetail](o, "work", "show", event.String())
	require.Len(t, two, 2, "every item of the id")
	require.Equal(t, []any{work.Expire, "", work.Confirm}, []any{two[0].Kind, two[0].Status, two[1].Kind})
	require.Equal(t, []string{"event", "processed", "ajo events show " + event.String()}, []string{two[1].About, two[1].Status, two[1].ShownBy})
	require.Contains(t, masked(o.good("work", "show", event.String())), "\n\nwork  confirm\n")
	o.Schedule(work.Expire, o.account, time.Now())
	require.Contains(t, masked(o.good("work", "show", o.account.String())), "account  <id>\nstatus  active\nshown by  ajo accounts find <number>\n")
	gone := uuid.New()
	o.Schedule(work.Settle, gone, time.Now())
	require.NotContains(t, o.good("work", "show", gone.String()), "status", "its row is not there")

	for id, want := range map[string]string{uuid.NewString(): work.ErrNoItems.Error(), "x": `the item must be a UUID, not "x"`} {
		_, _, err := o.run("work", "show", id)
		require.EqualError(t, err, want)
	}
	o.env["AJO_REDIS_URL"] = away
	require.Contains(t, masked(o.good("work", "show", delivery.String())), "tasks  the queue was not read: ")
	o.env["AJO_REDIS_URL"] = ""
	require.Contains(t, masked(o.good("work", "show", delivery.String())), "tasks  AJO_REDIS_URL is not set")
}

func TestWorkRetry(t *testing.T) {
	o := setup(t)
	id := o.failing()
	retry := []string{"work", "retry", id.String(), "--yes", "--reason", "the disk is not full"}
	out, said, err := o.run(retry...)
	require.NoError(t, err)
	golden(t, `Make the work ingest on <id> due now (due at <time>, failed 3 times in a row: could not extend file): the event is posted to the ledger.`, said)
	golden(t, `The work ingest on <id> is due now; a worker will do it.`, out)
	o.lastAudit("work.retry", "work:"+id.String(), "the disk is not full")
	shown := decode[[]app.WorkDetail](o, "work", "show", id.String())[0]
	require.Equal(t, []any{0, "", true}, []any{shown.Attempts, shown.LastError, shown.DueAt.Before(time.Now())})
	require.Len(t, shown.Tasks, 1)
	require.Equal(t, "pending", shown.Tasks[0].State)
	text := o.good("work", "show", id.String())
	golden(t, `
		TASK  STATE  NEXT  RETRIED  ITEMS  LAST ERROR
		`+masked(shown.Tasks[0].ID)+`  pending  -  0  1  -`, text[strings.Index(text, "TASK"):])

	require.Equal(t, id, decode[[]work.Record](o, append(retry, "--kind", "ingest")...)[0].ID)
	_, _, err = o.run(append(retry, "--kind", "deliver")...)
	require.ErrorIs(t, err, work.ErrNoItems)
	_, _, err = o.run(append(retry, "--kind", "x")...)
	require.ErrorIs(t, err, work.ErrKind)
	_, _, err = o.run("work", "retry", "x", "--yes", "--reason", "again")
	require.EqualError(t, err, `the item must be a UUID, not "x"`)
	audited := len(o.audited())
	o.Exec(`UPDATE work SET leased_until = '2999-01-01T00:00:00Z'`)
	_, said, err = o.run(retry...)
	require.EqualError(t, err, "a worker has the ingest item leased until 2999-01-01T00:00:00Z; retry it after that, if it is still there")
	require.Empty(t, said, "it is refused before it asks")
	o.Exec(`DELETE FROM work`)
	_, _, err = o.run(retry...)
	require.ErrorIs(t, err, work.ErrNoItems)
	require.Len(t, o.audited(), audited)
}

// The item of a payment that its account's policy refunds makes that refund once it is confirmed.
func TestWorkRetryOfAConfirmation(t *testing.T) {
	o := setup(t)
	id := uuid.New()
	o.Schedule(work.Confirm, id, time.Now())
	_, said, err := o.run("work", "retry", id.String(), "--yes", "--reason", "the freeze has ended")
	require.NoError(t, err)
	golden(t, `Make the work confirm on <id> due now (due at <time>): the bank is asked about the payment, and its answer counts as any other; if only the refund by its account's policy is left to do, that is made.`, said)
}

// An account that is open does not end by a retry; one that waits for its close at the bank is
// closed sooner.
func TestWorkRetryOfAnAccount(t *testing.T) {
	o := setup(t)
	deadline := time.Now().Add(time.Hour)
	o.Exec(`UPDATE accounts SET type = 'onetime', expires_at = $1`, deadline)
	o.Schedule(work.Expire, o.account, deadline)
	retry := []string{"work", "retry", o.account.String(), "--yes", "--reason", "x"}
	_, _, err := o.run(retry...)
	require.ErrorIs(t, err, app.ErrOpenAccount)
	require.WithinDuration(t, deadline, *o.DueAt(work.Expire, o.account), time.Millisecond)
	o.Exec(`UPDATE accounts SET status = $1, expired_at = now()`, account.Expired)
	o.good(retry...)
	require.False(t, o.DueAt(work.Expire, o.account).After(time.Now()))
}
