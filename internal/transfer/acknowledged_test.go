package transfer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/transfer"
	"ajo/internal/work"
)

// lags makes the bank take a payout, call it under way, refuse its resubmissions as duplicates, and
// find it by no question for so long.
func lags(d time.Duration) fakebank.Rule {
	return with(pays(fakebank.Lagging, 1), func(r *fakebank.Rule) { r.Delay = d })
}

// The bank has shown once that it has the reference; then, for four hours, it says that it does not
// know it. With the delays that ship, the transfer is neither submitted again nor given back,
// however the bank has shown it, and ends when the bank finds it.
func TestWhatTheBankHasAcknowledged(t *testing.T) {
	for name, c := range map[string]struct {
		rules []fakebank.Rule
		delay time.Duration // the bank's own, until it has paid
		seen  int           // submissions that reached the bank
	}{
		"201 PROCESSING":           {[]fakebank.Rule{lags(4 * time.Hour)}, 20 * time.Minute, 1},
		"201, and paid at once":    {[]fakebank.Rule{lags(4 * time.Hour)}, 0, 1},
		"called a duplicate":       {[]fakebank.Rule{pays(fakebank.Duplicate, 1), answers(fakebank.NotFound, 20)}, 0, 1},
		"under way":                {[]fakebank.Rule{pays(fakebank.Pending, 1), answers(fakebank.NotFound, 20)}, time.Hour, 1},
		"a record, and then none":  {[]fakebank.Rule{pays(fakebank.DropAfter, 1), answers(fakebank.Normal, 1), answers(fakebank.NotFoundCode, 20)}, time.Hour, 1},
		"the second's answer only": {[]fakebank.Rule{pays(fakebank.DropAfter, 1), pays(fakebank.Duplicate, 1), answers(fakebank.NotFound, 20)}, 0, 2},
		"another sum, then none":   {[]fakebank.Rule{pays(fakebank.DropAfter, 1), answers(fakebank.AlterAmount, 1), answers(fakebank.NotFound, 20)}, 0, 1},
		"no sum that can be read":  {[]fakebank.Rule{pays(fakebank.DropAfter, 1), with(answers(fakebank.AlterAmount, 1), value("1e9")), answers(fakebank.NotFound, 20)}, 0, 1},
		"an odd fee, under way":    {[]fakebank.Rule{pays(fakebank.DropAfter, 1), with(answers(fakebank.AlterFee, 1), value("1.6125")), answers(fakebank.NotFound, 20)}, time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.bank.SetPayoutDelay(c.delay)
			b.fund("100.00")
			b.bank.Faults.Set(c.rules...)
			p := b.settle("100.00")
			for accepted := b.Clock.Now(); b.Clock.Now().Before(accepted.Add(4 * time.Hour)); {
				b.step(p)
				got := b.get(p.MerchantTxRef)
				require.Equal(t, transfer.Processing, got.Status, "after %s", b.Clock.Now().Sub(accepted))
				b.untilDue(p)
			}
			require.NotNil(t, row[*time.Time](b, p, "acknowledged_at"))
			b.log.Has(t, "acknowledged_not_found")
			b.log.Has(t, "unknown_outcome")
			b.money("0.00", "credit 100.00 confirmed", "debit 100.00 provisional")
			b.bank.Faults.Clear()
			p = b.run(p)
			require.Equal(t, transfer.Success, p.Status)
			b.ended(p)
			out, _ := b.bank.Payout(p.MerchantTxRef)
			require.Equal(t, c.seen, out.Submissions)
		})
	}
}

func value(v string) func(*fakebank.Rule) { return func(r *fakebank.Rule) { r.Value = v } }

// odd is a bank whose answer to a submission has our reference and a sum that cannot be read.
type odd struct{ provider.Bank }

func (o odd) Pay(ctx context.Context, p provider.NewPayout) (provider.Payout, error) {
	_, _ = o.Bank.Pay(ctx, p)
	return provider.Payout{}, fmt.Errorf("the bank: %w", provider.ErrUnreadable)
}

// The answer to the submission shows that the bank has the reference, though its sum cannot be
// read.
func TestAnAnswerThatCannotBeReadIsAnAcknowledgement(t *testing.T) {
	b := setup(t)
	b.svc = b.service(func(o *transfer.Options) { o.Bank = odd{b.client} })
	b.fund("100.00")
	b.bank.Faults.Set(answers(fakebank.NotFound, 30))
	p := b.settle("100.00")
	for range 30 {
		b.step(p)
		b.untilDue(p)
	}
	require.NotNil(t, row[*time.Time](b, p, "acknowledged_at"))
	require.Equal(t, transfer.Success, b.run(p).Status)
	require.Equal(t, 1, b.bank.Calls(payCall))
}

// What cannot be read of the bank's charges is not known, like what its record does not name: it
// keeps no transfer from its end.
func TestChargesThatCannotBeRead(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(pays(fakebank.DropAfter, 1), with(answers(fakebank.AlterFee, 0), value("1.6125")))
	p := b.run(b.settle("100.00"))
	require.Equal(t, transfer.Success, p.Status)
	require.Nil(t, row[*string](b, p, "provider_fee::text"))
	b.bank.Faults.Clear()
	b.untilDue(p)
	b.step(p)
	require.Equal(t, "20.00", row[string](b, p, "provider_fee::text"))
	b.ended(p)
}

// The third time that the bank does not find what it has acknowledged, and not before, somebody is
// alerted.
func TestAlertOfWhatTheBankDoesNotFind(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(lags(365 * 24 * time.Hour))
	p := b.settle("100.00")
	b.step(p) // submits it
	for question := 1; question <= 4; question++ {
		b.asked(p, 1)
		if question >= 3 {
			b.log.Has(t, "acknowledged_not_found", "after ", question, " questions")
		} else {
			b.log.HasNot(t, "acknowledged_not_found", "after ", question, " questions")
		}
	}
}

// The third time that the bank does not know a reference that it has not acknowledged, and not
// before, it is submitted again.
func TestSubmittedAgainAfterThreeQuestions(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(pays(fakebank.DropAfter, 1), answers(fakebank.NotFound, 20))
	p := b.settle("100.00")
	_ = b.svc.Advance(b.ctx, p.ID) // submits it, and loses the answer
	for question := 1; question <= 3; question++ {
		b.asked(p, 1)
		out, _ := b.bank.Payout(p.MerchantTxRef)
		require.Equal(t, map[bool]int{false: 1, true: 2}[question == 3], out.Submissions, "after %d questions", question)
	}
}

// A worker that comes back long after its lease with the bank's acknowledgement records nothing
// else, but that: whoever has taken over meanwhile, and is about to submit again or to give the
// money back, does neither.
func TestAnAcknowledgementThatComesLate(t *testing.T) {
	for name, attempts := range map[string]int{"before another submission": 1, "before the money is given back": transfer.MaxAttempts, "while it is given back": transfer.MaxAttempts} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			p := b.settle("100.00")
			late := b.claims(p, 1)
			require.Equal(t, []bool{true}, b.svc.SubmitTogether(b.ctx, late))
			b.Exec(`UPDATE transfers SET attempt_count = $2 WHERE id = $1`, p.ID, attempts)
			b.Clock.Advance(work.Term)
			other := b.claims(p, 1) // knows nothing of an acknowledgement
			giveUp := func() error { return b.svc.GiveUp(b.ctx, other[0]) }
			if name == "while it is given back" {
				require.NoError(t, b.Meanwhile(func(tx pg.Tx) error {
					_, err := tx.Exec(b.ctx, `UPDATE transfers SET acknowledged_at = $2 WHERE id = $1`, p.ID, b.Clock.Now())
					return err
				}, giveUp))
			} else {
				require.NoError(t, b.svc.AcknowledgeLate(b.ctx, late[0]))
				require.NotNil(t, row[*time.Time](b, p, "acknowledged_at"))
				if attempts == 1 {
					require.Equal(t, []bool{false}, b.svc.SubmitTogether(b.ctx, other))
				} else {
					require.NoError(t, giveUp())
				}
			}
			got := b.get(p.MerchantTxRef)
			require.Equal(t, transfer.Processing, got.Status)
			require.Equal(t, attempts, got.AttemptCount)
			require.Equal(t, []uuid.UUID{p.ID}, b.Overdue(work.Settle, b.Clock.Now(), b.Clock.Now().Add(time.Second), 10), "asked about again at once")
			b.money("0.00", "credit 100.00 confirmed", "debit 100.00 provisional")
		})
	}
}

// The same where the transfer is pending again: another database has taken over, and lacks the
// submission. It is under way from then on, and not submitted again.
func TestAnAcknowledgementOfWhatIsPendingAgain(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	p := b.settle("100.00")
	late := b.claims(p, 1)
	b.paysOutside(p.MerchantTxRef, "100.00")
	b.Schedule(work.Settle, p.ID, b.Clock.Now())
	require.NoError(t, b.svc.AcknowledgeLate(b.ctx, late[0]))
	require.Equal(t, transfer.Processing, b.get(p.MerchantTxRef).Status)
	require.Equal(t, transfer.Success, b.run(p).Status)
	require.Equal(t, 1, b.bank.Calls(payCall))
}

// What the schema refuses whatever a program does.
func TestTheSchemaKeepsAnAcknowledgement(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(lags(time.Hour))
	p := b.settle("100.00")
	b.step(p)
	for _, change := range []string{
		"acknowledged_at = NULL", "acknowledged_at = acknowledged_at + interval '1 second'", "attempt_count = attempt_count + 1",
		"status = 'failed'", "status = 'failed', ended_by = 'silence'", "status = 'failed', ended_by = 'books'",
	} {
		_, err := b.Pool.Exec(b.ctx, `UPDATE transfers SET `+change+` WHERE id = $1`, p.ID)
		require.ErrorContains(t, err, "23514", change)
	}
	for _, by := range []string{"bank", "operator"} {
		tx, err := b.Pool.Begin(b.ctx)
		require.NoError(t, err)
		_, err = tx.Exec(b.ctx, `UPDATE transfers SET status = 'failed', ended_by = $2 WHERE id = $1`, p.ID, by)
		require.NoError(t, err)
		require.NoError(t, tx.Rollback(b.ctx))
	}
}

// The bank's event about a transfer is not its word: it has the reference shown to nobody.
func TestAnEventIsNoAcknowledgement(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(pays(fakebank.Drop, 1), answers(fakebank.NotFound, 1))
	p := b.settle("100.00")
	b.step(p)
	ok, err := b.svc.Expedite(b.ctx, p.MerchantTxRef)
	require.NoError(t, err)
	require.True(t, ok)
	b.step(p)
	require.Nil(t, row[*time.Time](b, p, "acknowledged_at"))
	p = b.run(p)
	require.Equal(t, transfer.Success, p.Status)
	require.NotNil(t, row[*time.Time](b, p, "acknowledged_at"))
	require.Equal(t, "bank", row[string](b, p, "ended_by"))
}
