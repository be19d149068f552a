package transfer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/freeze"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// A transfer that is being put off at the very moment at which what it waits for comes goes at
// once: the step has looked before, and records after.
func TestPutOffAtTheMomentOfRelease(t *testing.T) {
	for name, hold := range map[string]func(*bundle){
		"frozen": func(b *bundle) {
			b.freeze(freeze.New{Scope: freeze.Account, Subject: b.account})
		},
		"confirmed": func(b *bundle) {
			_, err := b.accounts().PlaceHold(b.ctx, b.tenant, "shop", account.NewHold{Amount: "60.00", Reason: "dispute"}, idempotency.Request{})
			require.NoError(b.T, err)
			b.credit("60.00") // the settlement is accepted against it, and waits
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			hold(b)
			p := b.settle("100.00")

			// The step's record waits for the item, which the test has locked. The release is
			// committed meanwhile, and makes nothing due: the item is due already.
			tx, err := b.Pool.Begin(b.ctx)
			require.NoError(t, err)
			_, err = tx.Exec(b.ctx, `SELECT FROM work WHERE id = $1 FOR NO KEY UPDATE`, p.ID)
			require.NoError(t, err)
			step := make(chan error, 1)
			go func() { step <- b.svc.Advance(b.ctx, p.ID) }()
			testenv.Eventually(t, time.Minute, "the step waits for the item", func() bool {
				return b.LockWaits() == 1
			})
			_, err = tx.Exec(b.ctx, `UPDATE freezes SET lifted_at = now()`)
			require.NoError(t, err)
			_, err = tx.Exec(b.ctx, `UPDATE holds SET status = 'released', ended_at = now()`)
			require.NoError(t, err)
			_, err = tx.Exec(b.ctx, `UPDATE ledger_balances SET held = 0`)
			require.NoError(t, err)
			require.NoError(t, tx.Commit(b.ctx))
			require.Error(t, <-step)
			require.Equal(t, transfer.Pending, b.get(p.MerchantTxRef).Status)
			require.False(t, b.DueAt(work.Settle, p.ID).After(b.Clock.Now()), "it is due at once")
			require.Contains(t, row[string](b, p, "last_error"), name)
			require.Equal(t, transfer.Success, b.run(p).Status)
		})
	}
}

// A question that had no turn was not asked: the transfer comes back as soon as after the first
// question, however often that happens, and is not put off for as long as a bank that is down.
func TestAQuestionWithoutATurnPutsNothingOff(t *testing.T) {
	b := setup(t)
	busy := true // the limit of calls leaves no turn for questions
	turn := func(string) error {
		if busy {
			return fmt.Errorf("not sent: %w", provider.ErrBusy)
		}
		return nil
	}
	b.svc = b.service(func(o *transfer.Options) {
		o.Bank = testenv.BankWith{Bank: b.client, BeforeLookup: turn, BeforePayout: turn}
	})
	b.fund("100.00")
	p := b.settle("100.00")
	waits := func() {
		t.Helper()
		for range 2 * len(defaults.SettleDelays) {
			require.Equal(t, defaults.SettleDelays[0], b.step(p).Sub(b.Clock.Now()))
			b.untilDue(p)
		}
		require.Zero(t, row[int](b, p, "ask_count"))
	}
	waits()
	require.Equal(t, transfer.Pending, b.get(p.MerchantTxRef).Status)
	busy = false
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.DropAfter, Next: 1})
	b.step(p)
	require.Equal(t, transfer.Processing, b.get(p.MerchantTxRef).Status)
	b.untilDue(p)
	busy = true
	waits()
	busy = false
	require.Equal(t, transfer.Success, b.run(p).Status)
}

// What waits for held money is due when the next hold of its own account ends, of those that stand.
func TestDueAtTheEndOfTheNextHold(t *testing.T) {
	b := setup(t)
	other := b.anotherAccount(t)
	other.fund("10.00")
	b.fund("100.00")
	start := b.Clock.Now()
	hold := func(b *bundle, amount string, after time.Duration) {
		t.Helper()
		_, err := b.accounts().PlaceHold(b.ctx, b.tenant, "shop", account.NewHold{Amount: amount, Reason: "dispute", Until: new(start.Add(after))}, idempotency.Request{})
		require.NoError(t, err)
	}
	hold(b, "1.00", 500*time.Millisecond)
	hold(b, "2.00", 700*time.Millisecond)
	hold(other, "3.00", 900*time.Millisecond)
	hold(b, "60.00", 1100*time.Millisecond)
	released := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM holds WHERE amount = 2`)
	_, err := account.ReleaseHoldByHand(b.ctx, b.Pool, b.Clock.Now(), released, stop)
	require.NoError(t, err)
	b.credit("60.00") // the settlement is accepted against it, and waits
	p := b.settle("99.00")
	b.Clock.Set(start.Add(500 * time.Millisecond))
	require.Equal(t, start.Add(1100*time.Millisecond), b.step(p).UTC())
	require.Equal(t, transfer.Success, b.run(p).Status)
}

// What a limit holds of a payment that the bank may have taken back, and what of such a payment is
// not confirmed yet, is left out of what is available once.
func TestRecallOfWhatALimitHolds(t *testing.T) {
	b := setup(t)
	b.Exec(`INSERT INTO tier_limits (tenant_id, tier, starts_at, max_deposit, created_at, actor, reason) VALUES ($1, 1, $2, 60, $2, 'cli:ada', 'the law')`, b.tenant, b.Clock.Now())
	post := func(amount string, tiered bool) uuid.UUID {
		group := uuid.Must(uuid.NewV7())
		b.Post(ledger.Posting{AccountID: b.account, Amount: money.Must(amount), TransactionGroupID: group, ProviderTxnRef: group.String(), Tiered: tiered})
		return group
	}
	shows := func(available, held string) {
		t.Helper()
		s := b.shown(false)
		require.Equal(t, []string{available, held}, []string{s.Available.String(), s.Held.String()})
	}
	b.MoveCredit(post("500.00", false), ledger.EventConfirm)
	limited := post("100.00", true)
	shows("500.00", "40.00")
	b.takenBack(limited)
	shows("500.00", "100.00") // provisional, held and recalled
	require.Equal(t, "500.00", b.shown(true).Available.String())
	b.MoveCredit(limited, ledger.EventConfirm)
	shows("500.00", "100.00")
	p := b.settle("500.00")
	require.Equal(t, transfer.Success, b.run(p).Status)
	shows("0.00", "100.00")
	waits := b.settle("60.00")
	_ = b.svc.Advance(b.ctx, waits.ID)
	require.Equal(t, transfer.Pending, b.get(waits.MerchantTxRef).Status)
	b.answer(limited, "100.00", false)
	shows("0.00", "40.00")
	require.Equal(t, transfer.Success, b.run(waits).Status)
	b.takenBack(limited)
	h := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM holds`)
	_, err := account.ReleaseHoldByHand(b.ctx, b.Pool, b.Clock.Now(), h, audit.By{Actor: "cli:ada", Reason: "the tier is higher by now"})
	require.NoError(t, err)
	shows("0.00", "100.00")
	b.answer(limited, "100.00", false)
	shows("40.00", "0.00")
	b.agree()
}
