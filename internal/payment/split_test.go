package payment_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/fakebank"
	"ajo/internal/freeze"
	"ajo/internal/idempotency"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// splits is a bundle whose account passes on 10 percent and 500.00 of each payment.
type splits struct {
	*policies
	platform, partner uuid.UUID
}

func setupSplit(t *testing.T) *splits {
	t.Helper()
	b := &splits{policies: setupPolicy(t, account.Policy{})}
	b.platform, b.partner = b.Account(b.tenant, "platform"), b.Account(b.tenant, "partner")
	b.share(account.NewShare{AccountRef: "platform", Percent: "10"}, account.NewShare{AccountRef: "partner", Amount: "500.00"})
	return b
}

func (b *splits) share(shares ...account.NewShare) {
	b.T.Helper()
	_, err := b.accounts.Update(b.ctx, b.tenant, "customer-1", account.Changes{Split: &shares}, byHand)
	require.NoError(b.T, err)
}

// has is what may leave the account and its parties, and their balances where they differ; all
// invariants hold.
func (b *splits) has(want ...string) {
	b.T.Helper()
	testenv.FindsNothing(b.T, b.Pool, invariant.Verify)
	var got []string
	for _, id := range []uuid.UUID{b.account, b.platform, b.partner} {
		var balance, available money.Amount
		require.NoError(b.T, b.Pool.QueryRow(b.ctx, `SELECT balance, `+ledger.Available("false", "$2")+` FROM ledger_balances b WHERE account_id = $1`, id, b.Clock.Now()).Scan(&balance, &available))
		if text := available.String(); balance.Equal(available) {
			got = append(got, text)
		} else {
			got = append(got, text+" of "+balance.String())
		}
	}
	require.Equal(b.T, want, got)
}

func (b *splits) confirmedPayment(amount string) (uuid.UUID, fakebank.Transaction) {
	b.T.Helper()
	id, txn := b.pays(amount)
	b.toTheEnd(id, 5)
	return id, txn
}

// The confirmation passes the parts on, once, whoever confirms at the same moment, and its entries
// name the payment.
func TestSplitAtConfirmation(t *testing.T) {
	b := setupSplit(t)
	id, _ := b.pays("5000.00")
	b.has("0.00 of 4975.00", "0.00", "0.00")
	b.Clock.Set(*b.DueAt(work.Confirm, id))
	testenv.AtOnce(8, func(int) { _ = b.svc.Confirm(b.ctx, id) })
	require.NoError(t, b.svc.Confirm(b.ctx, id))
	b.has("3977.50", "497.50", "500.00")
	require.Equal(t, []string{"credit 497.50 split Split of payment " + id.String()},
		testenv.Value[[]string](b.Env, `SELECT array_agg(format('%s %s %s %s', direction, amount, kind, narration)) FROM ledger_entries WHERE account_id = $1`, b.platform))

	// What is smaller than the parts is shared out as far as it goes.
	b.confirmedPayment("525.00")
	b.has("3977.50", "497.50", "1000.00")
	b.confirmedPayment("540.00")
	b.has("3977.50", "512.50", "1500.00")
	b.share(account.NewShare{AccountRef: "partner", Percent: "33.3333"}, account.NewShare{AccountRef: "platform", Remainder: true})
	b.confirmedPayment("1025.00")
	b.has("3977.50", "1179.17", "1833.33")
}

// A payment is shared out as its account said when it was posted.
func TestSplitChangedMeanwhile(t *testing.T) {
	b := setupSplit(t)
	before, _ := b.pays("5000.00")
	b.share()
	after, _ := b.pays("5000.00")
	b.toTheEnd(before, 5)
	b.toTheEnd(after, 5)
	b.has("8952.50", "497.50", "500.00")
	require.Nil(t, testenv.Value[*string](b.Env, `SELECT split::text FROM accounts WHERE id = $1`, b.account))
}

// What the platform takes goes first, and the parts sum to the rest; a payment under review is
// shared out when a person confirms it, and a denied one not at all.
func TestSplitOfWhatThePaymentBrings(t *testing.T) {
	b := setupSplit(t)
	b.price("1", "0", b.Clock.Now().Add(-time.Minute))
	b.confirmedPayment("5000.00")
	b.has("3929.12", "492.13", "500.00")
	review, txn := b.pays("5000.00")
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("26.00") })
	b.toTheEnd(review, 3)
	b.has("3929.12", "492.13", "500.00")
	v, err := b.svc.Review(b.ctx, review)
	require.NoError(t, err)
	require.True(t, v.Split, "less is in the balance than it brings")
	_, err = b.svc.DecideReview(b.ctx, review, ledger.EventConfirm, audit.By{Actor: "ops@example.com", Reason: "the bank wrote"})
	require.NoError(t, err)
	b.has("7858.24", "984.26", "1000.00")
	denied, txn := b.pays("5000.00")
	b.taken(txn, "PAYMENT_FAILED")
	b.toTheEnd(denied, 3)
	b.has("7858.24", "984.26", "1000.00")
}

// A payment that is held when it is confirmed is not shared out, nor when it is released; nor is
// one that a settlement waits for.
func TestSplitLeavesWhatIsNotAvailable(t *testing.T) {
	b := setupSplit(t)
	_, err := b.accounts.Update(b.ctx, b.tenant, "customer-1", account.Changes{Policy: &account.Policy{Under: account.Hold}}, byHand)
	require.NoError(t, err)
	held, _ := b.confirmedPayment("4000.00")
	b.has("0.00 of 3975.00", "0.00", "0.00")
	b.release(held)
	b.has("3975.00", "0.00", "0.00")
	waited, _ := b.pays("5000.00")
	_, err = b.transfers.Settle(b.ctx, b.tenant, "customer-1", transfer.Order{Amount: "8900.00", BankCode: "058", AccountNumber: "0123456789"}, idempotency.Request{})
	require.NoError(t, err)
	b.toTheEnd(waited, 5)
	b.has("50.00", "0.00", "0.00")
}

// A freeze of the account keeps the payment whole, and so does one of a party that stops all that
// moves; one that stops a party's payouts alone, or the tenant's, does not. Nor is a payment shared
// out when the freeze ends.
func TestSplitOfAFrozenAccount(t *testing.T) {
	b := setupSplit(t)
	begin := func(scope freeze.Scope, subject uuid.UUID, requests bool, until *time.Time) uuid.UUID {
		f := testenv.Value[uuid.UUID](b.Env, `
			INSERT INTO freezes (id, scope, subject, tenant_id, requests, reason, actor, created_at, until)
			VALUES (gen_random_uuid(), $1, $2, $3, $4, 'asked by the court', 'ops@example.com', $5, $6) RETURNING id`,
			string(scope), subject, b.tenant, requests, b.Clock.Now(), until)
		return f
	}
	lift := func(id uuid.UUID) {
		_, err := b.Pool.Exec(b.ctx, `UPDATE freezes SET lifted_at = $2 WHERE id = $1`, id, b.Clock.Now())
		require.NoError(t, err)
	}
	own := begin(freeze.Account, b.account, false, nil)
	b.confirmedPayment("5000.00")
	b.has("4975.00", "0.00", "0.00")
	lift(own)
	partys := begin(freeze.Account, b.partner, true, nil)
	b.confirmedPayment("5000.00")
	b.has("9950.00", "0.00", "0.00")
	lift(partys)
	begin(freeze.Account, b.partner, false, nil)
	begin(freeze.Tenant, b.tenant, false, nil)
	begin(freeze.Account, b.account, true, new(b.Clock.Now().Add(time.Second)))
	b.confirmedPayment("5000.00")
	b.has("13927.50", "497.50", "500.00")
}

// What was held or recalled, and is not any more when the payment is confirmed, is shared out.
func TestSplitOfWhatWasHeldOnce(t *testing.T) {
	t.Run("recall", func(t *testing.T) {
		b := setupSplit(t)
		id, txn := b.pays("5000.00")
		require.Equal(t, id, b.receive(b.reversal(txn)).Recalled)
		_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallKept, audit.By{Actor: "ops@example.com", Reason: "the bank wrote"})
		require.NoError(t, err)
		b.toTheEnd(id, 10)
		b.has("3977.50", "497.50", "500.00")
	})
	t.Run("hold", func(t *testing.T) {
		b := setupSplit(t)
		_, err := b.accounts.Update(b.ctx, b.tenant, "customer-1", account.Changes{Policy: &account.Policy{Under: account.Hold}}, byHand)
		require.NoError(t, err)
		id, _ := b.pays("4000.00")
		b.release(id)
		b.toTheEnd(id, 5)
		b.has("3077.50", "397.50", "500.00")
	})
}

// A party whose account has ended since the payment was posted gets its share all the same: it is
// its money, and settles from there. A recall takes it back as from any.
func TestSplitWithAPartyThatHasEnded(t *testing.T) {
	b := setupSplit(t)
	id, txn := b.pays("5000.00")
	b.Exec(`UPDATE accounts SET status = 'expired', expired_at = now(), closed_at = now() WHERE id = $1`, b.partner)
	b.toTheEnd(id, 5)
	b.has("3977.50", "497.50", "500.00")
	require.Equal(t, id, b.receive(b.reversal(txn)).Recalled)
	b.has("0.00 of 3977.50", "0.00 of 497.50", "0.00 of 500.00")
	b.taken(txn, "REFUND")
	b.toTheEnd(id, 5)
	b.has("0.00", "0.00", "0.00")
}

// A recall holds the parts where they are; when the bank has taken the payment back they go back,
// as far as they are there, and when it has not they are free again. If it is posted again, it is
// shared out as before, and what a party has kept of it is a part of its share.
func TestRecallOfASplit(t *testing.T) {
	for _, taken := range []bool{true, false} {
		for _, spent := range []string{"0.00", "400.00", "500.00"} {
			for _, byHand := range []bool{true, false} {
				t.Run(fmt.Sprint("taken ", taken, " spent ", spent, " by hand ", byHand), func(t *testing.T) {
					b := setupSplit(t)
					id, txn := b.confirmedPayment("5000.00")
					if spent != "0.00" {
						b.moves("partner", "customer-1", spent)
					}
					own, partner := money.Must("3977.50").Add(money.Must(spent)).String(), money.Must("500.00").Sub(money.Must(spent)).String()
					there := map[string]string{"0.00": "0.00"}[partner]
					if there == "" {
						there = "0.00 of " + partner
					}
					b.has(own, "497.50", partner)
					require.Equal(t, id, b.receive(b.reversal(txn)).Recalled)
					b.has(spent+" of "+own, "0.00 of 497.50", there)
					by := audit.By{Actor: "ops@example.com", Reason: "the bank wrote"}
					for _, hold := range testenv.Value[[]uuid.UUID](b.Env, `SELECT coalesce(array_agg(id), '{}') FROM holds WHERE status = 'open'`) {
						_, err := b.accounts.ReleaseHold(b.ctx, b.tenant, hold, by, idempotency.Request{})
						require.ErrorIs(t, err, ledger.ErrHoldOfRecall)
					}
					var err error
					switch {
					case byHand && taken:
						_, err = b.svc.DecideRecall(b.ctx, id, payment.RecallReversed, by)
					case byHand:
						_, err = b.svc.DecideRecall(b.ctx, id, payment.RecallKept, by)
					case taken:
						b.taken(txn, "REFUND")
					}
					require.NoError(t, err)
					b.toTheEnd(id, 10)
					if !taken {
						b.has(own, "497.50", partner)
						return
					}
					b.has("0.00", "0.00", "0.00")
					b.taken(txn, "SUCCESS")
					again, err := b.svc.RestoreReversed(b.ctx, id, by)
					require.NoError(t, err)
					b.toTheEnd(again.Replacement, 10)
					b.has(own, "497.50", partner)
					require.Equal(t, again.Replacement, b.receive(b.reversal(txn)).Recalled)
					b.taken(txn, "REFUND")
					b.toTheEnd(again.Replacement, 10)
					b.has("0.00", "0.00", "0.00")
				})
			}
		}
	}
}

// The bank takes back two payments of the same parties, one after the other: each gives back its
// own parts, and what the platform took of it.
func TestRecallsOfTwoSplits(t *testing.T) {
	b := setupSplit(t)
	b.price("1", "0", b.Clock.Now().Add(-time.Minute))
	var ids []uuid.UUID
	var txns []fakebank.Transaction
	for range 2 {
		id, txn := b.confirmedPayment("5000.00")
		ids, txns = append(ids, id), append(txns, txn)
	}
	b.has("7858.24", "984.26", "1000.00")
	for i, want := range [][]string{{"3929.12", "492.13", "500.00"}, {"0.00", "0.00", "0.00"}} {
		require.Equal(t, ids[i], b.receive(b.reversal(txns[i])).Recalled)
		b.taken(txns[i], "REFUND")
		b.toTheEnd(ids[i], 10)
		b.has(want...)
		require.Equal(t, []string{"492.13", "500.00"}, testenv.Value[[]string](b.Env, `
			SELECT array_agg(p.taken_back::text ORDER BY p.amount) FROM split_parts p JOIN ledger_entries e ON e.id = p.entry_id
			WHERE e.transaction_group_id = $1 AND p.group_id IS NOT NULL`, ids[i]))
	}
}

// Two accounts that pass shares on to each other, and many confirmations at once: the books agree.
func TestSplitsOfEachOther(t *testing.T) {
	b := setupSplit(t)
	b.OpenAtBank(b.bank, b.platform)
	shares := []account.NewShare{{AccountRef: "customer-1", Percent: "25"}, {AccountRef: "partner", Percent: "25"}}
	_, err := b.accounts.Update(b.ctx, b.tenant, "platform", account.Changes{Split: &shares}, byHand)
	require.NoError(t, err)
	var ids []uuid.UUID
	for i := range 40 {
		id, _ := b.pays("1025.00", func(p *fakebank.Payment) {
			if i%2 == 0 {
				p.AccountRef = b.platform.String()
			}
		})
		ids = append(ids, id)
	}
	b.Clock.Advance(time.Minute)
	var wg sync.WaitGroup
	for _, id := range ids {
		other := b.service(b.bank.URL())
		wg.Go(func() { _ = other.Confirm(b.ctx, id) })
	}
	wg.Wait()
	for _, id := range ids {
		b.toTheEnd(id, 3)
	}
	b.has("13000.00", "12000.00", "15000.00")
}

// confirmTogether confirms payments in one transaction.
func (b *splits) confirmTogether(ids ...uuid.UUID) (moved []ledger.Moved) {
	b.T.Helper()
	var moves []ledger.Move
	for _, id := range ids {
		moves = append(moves, ledger.Move{TransactionGroupID: id, Direction: ledger.Credit, Event: ledger.EventConfirm})
	}
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) (err error) {
		if err = ledger.LockSplits(b.ctx, tx, ids); err == nil {
			moved, err = ledger.MoveEntries(b.ctx, tx, b.Clock.Now(), moves)
		}
		return err
	}))
	return moved
}

// Payments that are confirmed in one transaction are shared out one after the other: what the first
// one passes on covers no part of the next.
func TestSplitsOfOneBatch(t *testing.T) {
	for settled, want := range map[string][]string{
		"13500.00": {"427.50", "497.50", "500.00"},
		"12500.00": {"430.00", "995.00", "1000.00"},
		"11000.00": {"932.50", "1492.50", "1500.00"},
		"14000.00": {"925.00", "0.00", "0.00"},
	} {
		t.Run(settled, func(t *testing.T) {
			b := setupSplit(t)
			var ids []uuid.UUID
			for range 3 {
				id, _ := b.pays("5000.00")
				ids = append(ids, id)
			}
			_, err := b.transfers.Settle(b.ctx, b.tenant, "customer-1", transfer.Order{Amount: settled, BankCode: "058", AccountNumber: "0123456789"}, idempotency.Request{})
			require.NoError(t, err)
			for _, refusal := range []error{nil, ledger.ErrMove} { // once: what is confirmed is not confirmed again
				for _, m := range b.confirmTogether(ids...) {
					require.ErrorIs(t, m.Err, refusal)
				}
				b.has(want...)
			}
		})
	}
}

// A payment that is confirmed already is shared out once, also if it is named beside another that
// is confirmed.
func TestSplitOfAPaymentThatIsConfirmedAlready(t *testing.T) {
	b := setupSplit(t)
	first, _ := b.confirmedPayment("5000.00")
	second, _ := b.pays("3000.00")
	moved := b.confirmTogether(first, second)
	require.ErrorIs(t, moved[0].Err, ledger.ErrMove)
	require.NoError(t, moved[1].Err)
	b.has("6155.00", "795.00", "1000.00")
}

// What is wrong with a split is refused, and names the share.
func TestSplitRefusals(t *testing.T) {
	b := setupSplit(t)
	b.Exec(`UPDATE accounts SET status = 'expired', expired_at = now() WHERE id = $1`, b.partner)
	foreign := b.Account(b.Tenant(), "theirs")
	for _, c := range []struct {
		share account.NewShare

		want string
	}{
		{account.NewShare{AccountRef: "platform", Percent: "100.01"}, "split.shares[0].percent must be a decimal string above 0 and up to 100, with at most four decimals"},
		{account.NewShare{AccountRef: "platform", Percent: "0"}, "split.shares[0].percent must be a decimal string above 0 and up to 100, with at most four decimals"},
		{account.NewShare{AccountRef: "platform", Amount: "0.00"}, "split.shares[0].amount must be a decimal string above zero"},
		{account.NewShare{AccountRef: "platform"}, "split.shares[0].percent amount or remainder: a share needs exactly one of them"},
		{account.NewShare{AccountRef: "platform", Percent: "1", Remainder: true}, "split.shares[0].percent amount or remainder: a share needs exactly one of them"},
		{account.NewShare{AccountRef: "customer-1", Percent: "1"}, "split.shares[0].accountRef must be another account, in one share"},
		{account.NewShare{AccountRef: "partner", Percent: "1"}, "split.shares[0].accountRef is not active"},
		{account.NewShare{AccountRef: foreign.String(), Percent: "1"}, "split.shares[0].accountRef is no account of yours"},
	} {
		_, err := b.accounts.Update(b.ctx, b.tenant, "customer-1", account.Changes{Split: &[]account.NewShare{c.share}}, byHand)
		require.EqualError(t, err, c.want)
		require.Equal(t, errs.Invalid, errs.KindOf(err))
	}
	_, err := b.accounts.Update(b.ctx, b.tenant, "customer-1", account.Changes{Split: &[]account.NewShare{{AccountRef: "platform", Percent: "1"}, {AccountRef: "platform", Percent: "1"}}}, byHand)
	require.EqualError(t, err, "split.shares[1].accountRef must be another account, in one share")
}

// The verification finds a part that is missing, and one whose entries are not what it says.
func TestVerifyFindsDamagedParts(t *testing.T) {
	for name, sql := range map[string]string{
		"a part is missing":   `DELETE FROM split_parts WHERE account_id = $1`,
		"no part is there":    `DELETE FROM split_parts WHERE $1::uuid IS NOT NULL`,
		"the own one is gone": `DELETE FROM split_parts WHERE group_id IS NULL AND $1::uuid IS NOT NULL`,
		"two own ones":        `UPDATE split_parts SET group_id = NULL WHERE account_id = $1`,
		"another sum":         `WITH x AS (UPDATE split_parts SET amount = amount + 1 WHERE account_id = $1) UPDATE split_parts SET amount = amount - 1 WHERE group_id IS NULL`,
		"an entry is gone":    `DELETE FROM ledger_entries WHERE account_id = $1 AND kind = 'split'`,
		"another account":     `UPDATE ledger_entries SET account_id = (SELECT id FROM accounts WHERE account_ref = 'platform'), seq = seq + 100 WHERE account_id = $1 AND kind = 'split'`,
		"another tenant":      `UPDATE ledger_entries SET tenant_id = (SELECT id FROM tenants WHERE id <> ledger_entries.tenant_id LIMIT 1) WHERE account_id = $1 AND kind = 'split'`,
		"another kind":        `UPDATE ledger_entries SET kind = '' WHERE account_id = $1 AND kind = 'split'`,
		"not confirmed":       `UPDATE ledger_entries SET status = 'provisional' WHERE account_id = $1 AND kind = 'split'`,
	} {
		t.Run(name, func(t *testing.T) {
			b := setupSplit(t)
			b.price("1", "0", b.Clock.Now().Add(-time.Minute))
			b.confirmedPayment("5000.00")
			b.confirmedPayment("6000.00")
			b.has("8748.57", "1083.18", "1000.00")
			b.Exec(`ALTER TABLE split_parts DISABLE TRIGGER USER`)
			b.Exec(`ALTER TABLE ledger_entries DISABLE TRIGGER ALL`)
			b.Exec(sql, b.partner)
			findings, err := ledger.Verify(b.ctx, b.Pool)
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(findings, func(f ledger.Finding) bool { return f.Check == ledger.CheckSplits }), "%v", findings)
		})
	}
}

// A payment that was kept whole, since its account's policy held it, stays whole when it is posted
// again: what has gone back, or was released, is shared out of no other money.
func TestSplitOfARestoredPaymentThatWasWhole(t *testing.T) {
	for action, want := range map[account.Action]string{account.Refund: "3977.50", account.Hold: "7952.50"} {
		t.Run(string(action), func(t *testing.T) {
			b := setupSplit(t)
			_, err := b.accounts.Update(b.ctx, b.tenant, "customer-1", account.Changes{Policy: &account.Policy{Under: action}}, byHand)
			require.NoError(t, err)
			b.confirmedPayment("5000.00")
			id, txn := b.confirmedPayment("4000.00")
			if b.sent(); action == account.Hold {
				b.release(id)
			}
			b.has(want, "497.50", "500.00")
			b.receive(b.reversal(txn))
			if action == account.Hold {
				b.has("3977.50 of 7952.50", "497.50", "500.00")
			}
			b.taken(txn, "REFUND")
			b.toTheEnd(id, 10)
			b.taken(txn, "SUCCESS")
			r, err := b.svc.RestoreReversed(b.ctx, id, byHand)
			require.NoError(t, err)
			b.toTheEnd(r.Replacement, 10)
			b.has(want, "497.50", "500.00")
		})
	}
}
