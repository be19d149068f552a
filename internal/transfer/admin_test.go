package transfer_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// adminBundle is one tenant with a funded account, and transfers in the states that a test asks
// for.
type adminBundle struct {
	*testenv.Env
	ctx     context.Context
	svc     *transfer.Service
	tenant  uuid.UUID
	account uuid.UUID
}

func setupAdmin(t *testing.T) *adminBundle {
	t.Parallel()
	e := testenv.New(t)
	b := &adminBundle{Env: e, ctx: context.Background(), tenant: e.Tenant()}
	b.account = e.Account(b.tenant, "customer-1")
	b.svc = transfer.New(transfer.Options{Pool: e.Pool, Clock: e.Clock, Log: slog.New(slog.DiscardHandler), Delays: defaults.SettleDelays, Rechecks: defaults.SettleRechecks})
	t.Cleanup(b.svc.Close)
	b.fund()
	return b
}

func (b *adminBundle) fund() {
	b.T.Helper()
	b.Credit(b.account, "100000.00")
}

// another has an account with money as well.
func (b *adminBundle) another(tenant uuid.UUID, ref string) *adminBundle {
	b.T.Helper()
	other := *b
	other.tenant, other.account = tenant, b.Account(tenant, ref)
	other.fund()
	return &other
}

func (b *adminBundle) tx(fn func(pg.Tx) error) {
	b.T.Helper()
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, fn))
}

// in makes a transfer of 1,250.00 that is in the given state, with its entries as that state has
// them; its next step is due in an hour, where there is one.
func (b *adminBundle) in(s transfer.Status) (ref string) {
	b.T.Helper()
	id := uuid.Must(uuid.NewV7())
	ref = "AJO" + strings.ReplaceAll(id.String(), "-", "")
	now := b.Clock.Now()
	attempts, submitted, next := 1, &now, new(now.Add(time.Hour))
	switch s {
	case transfer.Pending:
		attempts, submitted = 0, nil
	case transfer.Refunded:
		next = nil
	}
	b.tx(func(tx pg.Tx) error {
		debit, err := ledger.PostDebits(b.ctx, tx, now, []ledger.Posting{{AccountID: b.account, Amount: money.Must("1250.00"), TransactionGroupID: id, TransferRef: &ref}})
		if err != nil {
			return err
		}
		if _, err := tx.Exec(b.ctx, `
			INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, account_name, narration, attempt_count,
				submitted_at, last_error, created_at, updated_at, debit_seq, debits_to)
			VALUES ($1, $2, $3, $4, $5, 1250, '058', '0123456789', 'BOLA ADE', 'rent', $6, $7, 'it says', $8, $8, $9, $10)`,
			id, b.tenant, b.account, ref, string(s), attempts, submitted, now, debit[0].Seq, debit[0].Debits); err != nil {
			return err
		}
		if next != nil {
			if err := work.Schedule(b.ctx, tx, work.Item{Kind: work.Settle, ID: id, DueAt: *next}); err != nil {
				return err
			}
		}
		event := map[transfer.Status]ledger.Event{transfer.Success: ledger.EventConfirm, transfer.Failed: ledger.EventReverse, transfer.Refunded: ledger.EventReverse}[s]
		if event == "" {
			return nil
		}
		_, err = ledger.MoveEntries(b.ctx, tx, now, []ledger.Move{{TransactionGroupID: id, Direction: ledger.Debit, Event: event}})
		return err
	})
	return ref
}

func (b *adminBundle) nextAttempt(ref string) *time.Time {
	b.T.Helper()
	return b.DueAt(work.Settle, b.id(ref))
}

func (b *adminBundle) id(ref string) uuid.UUID {
	b.T.Helper()
	return testenv.Value[uuid.UUID](b.Env, `SELECT id FROM transfers WHERE merchant_tx_ref = $1`, ref)
}

// over takes away what is still to be done about a transfer.
func (b *adminBundle) over(ref string) {
	b.T.Helper()
	b.Exec(`DELETE FROM work WHERE id = $1`, b.id(ref))
}

var byHand = audit.By{Actor: "cli:ada", Reason: "the bank is up again"}

func TestRecordsOfAllTenants(t *testing.T) {
	b := setupAdmin(t)
	mine := []string{b.in(transfer.Pending), b.in(transfer.Success), b.in(transfer.Failed)}
	first := b.tenant
	theirs := b.another(b.Tenant(), "customer-1").in(transfer.Pending)
	refs := func(f transfer.RecordFilter, limit int) (out []string) {
		r := page.Request{Limit: limit}
		for {
			list, info, err := b.svc.Records(b.ctx, f, r)
			require.NoError(t, err)
			for _, x := range list {
				out = append(out, x.MerchantTxRef)
			}
			if info.NextCursor == nil {
				return out
			}
			r.After = *info.NextCursor
		}
	}
	all := []string{theirs, mine[2], mine[1], mine[0]}
	require.Equal(t, all, refs(transfer.RecordFilter{}, 10))
	require.Equal(t, all, refs(transfer.RecordFilter{}, 1))
	require.Equal(t, []string{theirs, mine[0]}, refs(transfer.RecordFilter{Status: transfer.Pending}, 10))
	require.Equal(t, []string{mine[0]}, refs(transfer.RecordFilter{Status: transfer.Pending, TenantID: first}, 10))
	_, _, err := b.svc.Records(b.ctx, transfer.RecordFilter{Status: "x"}, page.Request{Limit: 1})
	require.ErrorIs(t, err, transfer.ErrStatus)
	_, _, err = b.svc.Records(b.ctx, transfer.RecordFilter{}, page.Request{Limit: 1, After: "x"})
	require.ErrorIs(t, err, page.ErrCursor)
}

// What is rare is found on the first page and to its end, by operators and by its tenant, however
// many newer transfers have gone well; and so are the few of another account or tenant.
func TestRareTransfersAreFoundBehindManyOthers(t *testing.T) {
	b := setupAdmin(t)
	rare := map[transfer.Status]string{}
	for _, s := range []transfer.Status{transfer.Pending, transfer.Processing, transfer.Failed, transfer.Refunded} {
		rare[s] = b.in(s)
	}
	b.Exec(`UPDATE transfers SET difference = 'the bank says otherwise', differs_since = now() WHERE status = 'refunded'`)
	b.ExecUnguarded(`UPDATE transfers SET approvals_needed = 1 WHERE status = 'pending'`)
	second, other := b.another(b.tenant, "second"), b.another(b.Tenant(), "customer-1")
	few, theirs := second.in(transfer.Success), other.in(transfer.Success)
	b.tx(func(tx pg.Tx) error {
		for _, sql := range []string{`SET LOCAL session_replication_role = replica`, `
			INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, attempt_count, created_at, updated_at)
			SELECT ('f' || substr(gen_random_uuid()::text, 2))::uuid, tenant_id, account_id, 'AJO' || md5(n::text), 'success', 1, '058', '0123456789', 1, created_at, updated_at
			FROM transfers t, generate_series(0, 10000) n WHERE t.status = 'failed'`} {
			if _, err := tx.Exec(b.ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	operators := func(f transfer.RecordFilter) (refs []string) {
		list, info, err := b.svc.Records(b.ctx, f, page.Request{Limit: 10})
		require.NoError(t, err)
		require.False(t, info.HasMore, "%+v: there is no more", f)
		for _, x := range list {
			refs = append(refs, x.MerchantTxRef)
		}
		return refs
	}
	for s, ref := range rare {
		require.Equal(t, []string{ref}, operators(transfer.RecordFilter{Status: s, TenantID: b.tenant}), s)
		if s == transfer.Pending || s == transfer.Processing {
			require.Equal(t, []string{ref}, operators(transfer.RecordFilter{Status: s}), s)
		}
		list, info, err := b.svc.List(b.ctx, b.tenant, transfer.Filter{Status: s, AccountRef: "customer-1"}, page.Request{Limit: 10, Total: true})
		require.NoError(t, err)
		require.Len(t, list, 1, s)
		require.Equal(t, ref, list[0].MerchantTxRef, s)
		require.Equal(t, page.Info{Limit: 10, Total: &page.Total{Count: 1, Exact: true}}, info, s)
	}
	for _, c := range []struct {
		tenant uuid.UUID
		filter transfer.Filter
		want   string
	}{
		{b.tenant, transfer.Filter{Awaiting: transfer.AwaitingApproval}, rare[transfer.Pending]},
		{b.tenant, transfer.Filter{AccountRef: "second", Status: transfer.Success}, few},
		{other.tenant, transfer.Filter{Status: transfer.Success}, theirs},
	} {
		list, info, err := b.svc.List(b.ctx, c.tenant, c.filter, page.Request{Limit: 10})
		require.NoError(t, err)
		require.Len(t, list, 1, "%+v", c.filter)
		require.Equal(t, c.want, list[0].MerchantTxRef)
		require.False(t, info.HasMore, "%+v: there is no more", c.filter)
	}
	require.Equal(t, []string{theirs}, operators(transfer.RecordFilter{Status: transfer.Success, TenantID: other.tenant}))
	require.Equal(t, []string{rare[transfer.Refunded]}, operators(transfer.RecordFilter{Differing: true}))
	require.Equal(t, []string{rare[transfer.Refunded]}, operators(transfer.RecordFilter{Differing: true, TenantID: b.tenant, Status: transfer.Refunded}))
	require.Empty(t, operators(transfer.RecordFilter{Differing: true, Status: transfer.Failed}))
	require.Empty(t, operators(transfer.RecordFilter{Status: transfer.Pending, TenantID: b.Tenant()}))
}

func TestShowSaysWhatComesNext(t *testing.T) {
	b := setupAdmin(t)
	for status, want := range map[transfer.Status]struct {
		next    string
		entries []string
	}{
		transfer.Pending:    {"wait for confirmed cover, name the holder, and submit: due at 2026-03-02T10:00:00Z", []string{"debit provisional"}},
		transfer.Processing: {"ask the bank by reference: due at 2026-03-02T10:00:00Z", []string{"debit provisional"}},
		transfer.Success:    {"ask the bank once more, in case it gave the money back: due at 2026-03-02T10:00:00Z", []string{"debit confirmed"}},
		transfer.Failed:     {"ask the bank once more, in case it paid after all: due at 2026-03-02T10:00:00Z", []string{"debit reversed", "credit reversed"}},
		transfer.Refunded:   {"none: it has ended", []string{"debit reversed", "credit reversed"}},
	} {
		ref := b.in(status)
		d, err := b.svc.Show(b.ctx, ref)
		require.NoError(t, err)
		require.Equal(t, want.next, d.NextStep)
		var entries []string
		for _, e := range d.Entries {
			entries = append(entries, string(e.Direction)+" "+string(e.Status))
			require.Equal(t, "1250.00", e.Amount.String())
			require.Equal(t, ref, *e.TransferRef)
		}
		require.Equal(t, want.entries, entries)
		require.Equal(t, []any{"Test tenant", "customer-1", "058", "0123456789", "BOLA ADE", "rent", "it says", status},
			[]any{d.TenantName, d.AccountRef, d.BankCode, d.AccountNumber, d.AccountName, d.Narration, d.LastError, d.Status})
	}
	ref := b.in(transfer.Processing)
	b.Lease(work.Settle, b.id(ref), b.Clock.Now().Add(time.Minute))
	d, err := b.svc.Show(b.ctx, ref)
	require.NoError(t, err)
	require.Equal(t, "ask the bank by reference: leased by a worker until 2026-03-02T09:01:00Z, longer while it works", d.NextStep)
	b.Clock.Advance(2 * time.Hour)
	d, err = b.svc.Show(b.ctx, ref)
	require.NoError(t, err)
	require.Equal(t, "ask the bank by reference: due", d.NextStep)
	b.Exec(`UPDATE work SET last_error = 'an error of ours' WHERE id = $1`, d.ID)
	d, err = b.svc.Show(b.ctx, ref)
	require.NoError(t, err)
	require.Equal(t, "an error of ours", d.LastError)
	paid := b.in(transfer.Success)
	b.over(paid)
	d, err = b.svc.Show(b.ctx, paid)
	require.NoError(t, err)
	require.Equal(t, "none: it has ended", d.NextStep)
	_, err = b.svc.Show(b.ctx, "AJO-nothing")
	require.ErrorIs(t, err, transfer.ErrNotFound)
}

func TestPollMakesTheNextStepDue(t *testing.T) {
	b := setupAdmin(t)
	for _, status := range transfer.Transitions.States() {
		ref := b.in(status)
		require.NoError(t, b.svc.Poll(b.ctx, ref, byHand), status)
		require.Equal(t, b.Clock.Now(), *b.nextAttempt(ref))
		require.Equal(t, ref, testenv.Value[string](b.Env, `SELECT merchant_tx_ref FROM transfers WHERE id = $1 AND status = $2 AND last_error = 'it says'`, b.id(ref), string(status)))
		require.Contains(t, b.Overdue(work.Settle, b.Clock.Now(), b.Clock.Now().Add(time.Second), 10), b.id(ref))
	}
	list, _, err := audit.List(b.ctx, b.Pool, audit.Filter{Action: "transfers.poll"}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 5)
	success := slices.IndexFunc(list, func(e audit.Record) bool { return strings.Contains(string(e.Detail), "success") })
	require.JSONEq(t, `{"Status":"success","AttemptCount":1,"NextAttemptAt":"2026-03-02T10:00:00Z","LastError":"it says"}`, string(list[success].Detail))
	require.Equal(t, "cli:ada the bank is up again", list[0].Actor+" "+list[0].Reason)
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
}

func TestPollIsRefused(t *testing.T) {
	b := setupAdmin(t)
	require.ErrorIs(t, b.svc.Poll(b.ctx, "AJO-nothing", byHand), transfer.ErrNotFound)
	ref := b.in(transfer.Processing)
	before := b.nextAttempt(ref)
	require.ErrorIs(t, b.svc.Poll(b.ctx, ref, audit.By{Actor: "cli:ada"}), audit.ErrReason)
	require.Equal(t, before, b.nextAttempt(ref))

	never := b.in(transfer.Failed) // before it was ever submitted: the bank knows nothing of it
	b.Exec(`UPDATE transfers SET attempt_count = 0 WHERE merchant_tx_ref = $1`, never)
	b.over(never)
	require.ErrorIs(t, b.svc.Poll(b.ctx, never, byHand), transfer.ErrOver)
	require.Nil(t, b.nextAttempt(never))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log`))
}

// A step that is due already keeps its time, and a claim under way is left alone.
func TestPollOfADueTransfer(t *testing.T) {
	b := setupAdmin(t)
	ref := b.in(transfer.Processing)
	b.Clock.Advance(2 * time.Hour)
	lease := b.Clock.Now().Add(time.Minute)
	b.Lease(work.Settle, b.id(ref), lease)
	before := b.nextAttempt(ref)
	require.NoError(t, b.svc.Poll(b.ctx, ref, byHand))
	require.Equal(t, before, b.nextAttempt(ref))
	require.Equal(t, lease, testenv.Value[time.Time](b.Env, `SELECT leased_until FROM work WHERE id = $1`, b.id(ref)))
	paid := b.in(transfer.Success)
	b.over(paid)
	require.NoError(t, b.svc.Poll(b.ctx, paid, byHand))
	require.Equal(t, b.Clock.Now(), *b.nextAttempt(paid))
}
