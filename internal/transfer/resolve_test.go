package transfer_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/provider"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// consistent checks all the books, between the capabilities too, and what the light check says of
// open differences.
func (b *bundle) consistent(differing int64) {
	b.T.Helper()
	found, err := invariant.Verify(b.ctx, b.Pool)
	require.NoError(b.T, err)
	for _, f := range found {
		// these tests post credits without an event
		require.Equal(b.T, invariant.CheckCreditEvent, f.Check, "%+v", f)
	}
	s, err := invariant.Light(b.ctx, b.Pool, b.Clock.Now())
	require.NoError(b.T, err)
	for _, f := range s.Findings {
		require.Equal(b.T, invariant.CheckCreditEvent, f.Check, "%+v", f)
	}
	require.Equal(b.T, differing, s.DifferingCount)
}

func status(value string) fakebank.Rule {
	return with(answers(fakebank.AlterStatus, 0), func(r *fakebank.Rule) { r.Value = value })
}

const (
	isPaid    = "credit 100.00 confirmed"
	wasBack   = "debit 100.00 reversed"
	givenBack = "credit 100.00 reversed"
)

// Every state of a transfer with a difference or without an end, what a person resolves it to, and
// what the books say then.
var resolutions = map[string]struct {
	until  func(b *bundle, p transfer.Transfer) // brings it there, from pending
	from   transfer.Status
	alert  string // raised before
	to     transfer.Resolution
	want   transfer.Status
	money  string
	lines  []string // behind the credit
	bank   func(b *bundle)
	differ string // what is still different afterwards, and known
}{
	"under way for ever, paid": {
		until: func(b *bundle, p transfer.Transfer) { b.asked(p, 12) }, from: transfer.Processing, alert: "acknowledged_not_found",
		to: transfer.Resolution{Paid: true}, want: transfer.Success, money: "0.00", lines: []string{"debit 100.00 confirmed"},
	},
	"under way for ever, not paid": {
		until: func(b *bundle, p transfer.Transfer) { b.asked(p, 12) }, from: transfer.Processing, alert: "acknowledged_not_found",
		to: transfer.Resolution{}, want: transfer.Failed, money: "100.00", lines: []string{wasBack, givenBack},
	},
	"another sum, paid as ordered": {
		bank: func(b *bundle) {
			b.bank.Faults.Set(pays(fakebank.DropAfter, 1), with(answers(fakebank.AlterAmount, 0), func(r *fakebank.Rule) { r.Value = "90.00" }))
		},
		until: func(b *bundle, p transfer.Transfer) { b.asked(p, 3) }, from: transfer.Processing, alert: "another_sum",
		to: transfer.Resolution{Paid: true}, want: transfer.Success, money: "0.00", lines: []string{"debit 100.00 confirmed"},
		differ: "the bank says success of 90.00, the books success of 100.00",
	},
	"another sum, paid as the bank says": {
		bank: func(b *bundle) {
			b.bank.Faults.Set(pays(fakebank.DropAfter, 1), with(answers(fakebank.AlterAmount, 0), func(r *fakebank.Rule) { r.Value = "90.00" }))
		},
		until: func(b *bundle, p transfer.Transfer) { b.asked(p, 3) }, from: transfer.Processing, alert: "another_sum",
		to: paidSum("90.00"), want: transfer.Success, money: "10.00", lines: []string{wasBack, givenBack, "debit 90.00 confirmed"},
	},
	"ten times the sum": {
		bank: func(b *bundle) {
			b.bank.Faults.Set(pays(fakebank.DropAfter, 1), with(answers(fakebank.AlterAmount, 0), func(r *fakebank.Rule) { r.Value = "1000.00" }))
		},
		until: func(b *bundle, p transfer.Transfer) { b.asked(p, 3) }, from: transfer.Processing, alert: "another_sum",
		to: paidSum("1000.00"), want: transfer.Success, money: "-900.00", lines: []string{wasBack, givenBack, "debit 1000.00 confirmed"},
	},
	"failed, then paid": {
		bank: func(b *bundle) {
			b.bank.Faults.Set(with(pays(fakebank.PaidLate, 1), func(r *fakebank.Rule) { r.Delay = time.Minute }))
		},
		until: func(b *bundle, p transfer.Transfer) { b.asked(p, 2) }, from: transfer.Failed, alert: "failed_then_paid",
		to: transfer.Resolution{Paid: true}, want: transfer.Success, money: "0.00", lines: []string{wasBack, givenBack, "debit 100.00 confirmed"},
	},
	"failed, and called under way, which it is not": {
		bank: func(b *bundle) {
			b.bank.Faults.Set(with(pays(fakebank.FailLater, 1), func(r *fakebank.Rule) { r.Delay = time.Second }))
		},
		until: func(b *bundle, p transfer.Transfer) {
			b.asked(p, 2)
			b.bank.Faults.Set(status("NEW"))
			b.asked(p, 1)
		}, from: transfer.Failed, alert: "failed_then_paid", to: transfer.Resolution{}, want: transfer.Failed, money: "100.00", lines: []string{wasBack, givenBack},
		differ: "the bank says pending of 100.00, the books failed of 100.00",
	},
	"paid, then failed": {
		bank: func(b *bundle) {
			b.bank.Faults.Set(with(pays(fakebank.FailedLate, 1), func(r *fakebank.Rule) { r.Delay = time.Minute }))
		},
		until: func(b *bundle, p transfer.Transfer) { b.asked(p, 2) }, from: transfer.Success, alert: "paid_then_failed",
		to: transfer.Resolution{}, want: transfer.Refunded, money: "100.00", lines: []string{wasBack, givenBack},
	},
	"paid, and called under way, which it is not": {
		bank: func(b *bundle) {},
		until: func(b *bundle, p transfer.Transfer) {
			b.asked(p, 1)
			b.bank.Faults.Set(status("NEW"))
			b.asked(p, 1)
		}, from: transfer.Success, alert: "paid_then_pending", to: transfer.Resolution{Paid: true}, want: transfer.Success, money: "0.00", lines: []string{"debit 100.00 confirmed"},
		differ: "the bank says pending of 100.00, the books success of 100.00",
	},
	"a part of it given back": {
		bank: func(b *bundle) {
			b.bank.Faults.Set(with(pays(fakebank.PartialRefund, 1), func(r *fakebank.Rule) { r.Delay, r.Value = time.Minute, "40.00" }))
		},
		until: func(b *bundle, p transfer.Transfer) { b.asked(p, 2) }, from: transfer.Success, alert: "partial_refund",
		to: paidSum("60.00"), want: transfer.Success, money: "40.00", lines: []string{wasBack, givenBack, "debit 60.00 confirmed"},
		differ: "the bank says refunded of 40.00, the books success of 60.00",
	},
	"half of it given back, and the other half is not": {
		bank: func(b *bundle) {
			b.bank.Faults.Set(with(pays(fakebank.PartialRefund, 1), func(r *fakebank.Rule) { r.Delay, r.Value = time.Minute, "50.00" }))
		},
		until: func(b *bundle, p transfer.Transfer) { b.asked(p, 2) }, from: transfer.Success, alert: "partial_refund",
		to: paidSum("50.00"), want: transfer.Success, money: "50.00", lines: []string{wasBack, givenBack, "debit 50.00 confirmed"},
		differ: "the bank says refunded of 50.00, the books success of 50.00",
	},
	"a part of it given back, which stays the bank's": {
		bank: func(b *bundle) {
			b.bank.Faults.Set(with(pays(fakebank.PartialRefund, 1), func(r *fakebank.Rule) { r.Delay, r.Value = time.Minute, "40.00" }))
		},
		until: func(b *bundle, p transfer.Transfer) { b.asked(p, 2) }, from: transfer.Success, alert: "partial_refund",
		to: transfer.Resolution{Paid: true}, want: transfer.Success, money: "0.00", lines: []string{"debit 100.00 confirmed"},
		differ: "the bank says refunded of 40.00, the books success of 100.00",
	},
	"given back, and paid again": {
		bank: func(b *bundle) {
			b.bank.Faults.Set(with(pays(fakebank.Refund, 1), func(r *fakebank.Rule) { r.Delay = time.Minute }))
		},
		until: func(b *bundle, p transfer.Transfer) {
			b.asked(p, 2)
			b.bank.Faults.Set(status(fakebank.StatusSuccess))
			b.asked(p, 1)
		}, from: transfer.Refunded, alert: "refunded_then_paid", to: transfer.Resolution{Paid: true}, want: transfer.Success, money: "0.00",
		lines: []string{wasBack, givenBack, "debit 100.00 confirmed"},
	},
}

func paidSum(sum string) transfer.Resolution {
	return transfer.Resolution{Paid: true, Amount: new(money.Must(sum))}
}

// asked does so many steps of the transfer, each at its time.
func (b *bundle) asked(p transfer.Transfer, n int) {
	b.T.Helper()
	for range n {
		b.untilDue(p)
		_ = b.svc.Advance(b.ctx, p.ID)
	}
}

func TestResolve(t *testing.T) {
	spec.Shows(t, "state.transfer.rebooked")
	for name, c := range resolutions {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			if c.bank != nil {
				b.bank.Faults.Set()
				c.bank(b)
			} else {
				b.bank.Faults.Set(lags(365 * 24 * time.Hour))
			}
			p := b.settle("100.00")
			c.until(b, p)
			require.Equal(t, c.from, b.get(p.MerchantTxRef).Status)
			b.log.Has(t, "alert="+c.alert)
			open := row[*time.Time](b, p, "differs_since") != nil
			b.consistent(map[bool]int64{true: 1}[open])

			r, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, c.to, byHand)
			require.NoError(t, err)
			require.Equal(t, c.want, r.Status)
			require.Equal(t, c.want == transfer.Success, r.Paid != nil)
			require.Equal(t, c.money, r.Balance.String())
			got := b.get(p.MerchantTxRef)
			require.Equal(t, c.want, got.Status)
			require.False(t, row[bool](b, p, "adopted"), "these books have submitted it")
			b.money(c.money, append([]string{isPaid}, c.lines...)...)
			b.consistent(0)
			require.Equal(t, c.differ, row[string](b, p, "difference"))
			list, _, err := audit.List(b.ctx, b.Pool, audit.Filter{Action: "transfers.resolve"}, page.Request{Limit: 10})
			require.NoError(t, err)
			require.Len(t, list, 1)
			var detail struct{ From, To, Ordered, BankSays string }
			require.NoError(t, json.Unmarshal(list[0].Detail, &detail))
			require.Equal(t, []string{string(c.from), string(c.want), "100.00"}, []string{detail.From, detail.To, detail.Ordered})
			require.NotEmpty(t, detail.BankSays)

			// The same is no second time, and the bank's saying the same again is no news.
			_, err = b.svc.Resolve(b.ctx, p.MerchantTxRef, c.to, byHand)
			require.ErrorIs(t, err, transfer.ErrAgrees)
			for range defaults.SettleRechecks {
				if b.DueAt(work.Settle, p.ID) != nil {
					b.asked(p, 1)
				}
			}
			b.consistent(0)
			b.money(c.money, append([]string{isPaid}, c.lines...)...)
		})
	}
}

// Two people resolve the same transfer at once. No step is due any more, so the transfer's own row
// is all that keeps them apart.
func TestResolvedTwiceAtOnce(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(with(pays(fakebank.PaidLate, 1), func(r *fakebank.Rule) { r.Delay = time.Minute }))
	p := b.settle("100.00")
	b.asked(p, 2)
	b.Exec(`DELETE FROM work WHERE id = $1`, p.ID)
	require.Equal(t, transfer.Failed, b.get(p.MerchantTxRef).Status)

	tx, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(b.ctx, `SELECT FROM transfers WHERE id = $1 FOR NO KEY UPDATE`, p.ID)
	require.NoError(t, err)
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{Paid: true}, byHand)
			ended <- err
		}()
	}
	testenv.Eventually(t, time.Minute, "both wait", func() bool {
		return b.LockWaits() == 2
	})
	require.NoError(t, tx.Commit(b.ctx))
	first, second := <-ended, <-ended
	if first != nil {
		first, second = second, first
	}
	require.NoError(t, first)
	require.ErrorIs(t, second, transfer.ErrAgrees)
	b.money("0.00", isPaid, wasBack, givenBack, "debit 100.00 confirmed")
	b.consistent(0)
}

// meanwhile is a bank that does not know a reference, and takes so long to say so that something
// happens.
func (b *bundle) meanwhile(happens func()) provider.Bank {
	return testenv.BankWith{Bank: b.client, BeforePayout: func(string) error {
		happens()
		return provider.ErrUnknown
	}}
}

// A worker hears that a transfer was paid while a person's own question is under way: what the
// person knew before does not bring the money back.
func TestResolveOfWhatEndsMeanwhile(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(pays(fakebank.DropAfter, 1))
	p := b.settle("100.00")
	b.step(p)
	require.Equal(t, transfer.Processing, b.get(p.MerchantTxRef).Status)
	slow := b.service(func(o *transfer.Options) {
		o.Bank = b.meanwhile(func() { b.asked(p, 1) })
	})
	_, err := slow.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{}, byHand)
	require.ErrorIs(t, err, transfer.ErrMovedOn)
	require.Equal(t, transfer.Success, b.get(p.MerchantTxRef).Status)
	b.money("0.00", isPaid, "debit 100.00 confirmed")
	b.consistent(0)
}

// What a worker has booked meanwhile is what the person says too, or is not.
func TestResolveToWhatEndsMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		to   transfer.Resolution
		want error
	}{
		"paid":              {transfer.Resolution{Paid: true}, transfer.ErrAgrees},
		"paid, and so much": {paidSum("100.00"), transfer.ErrAgrees},
		"paid, but less":    {paidSum("90.00"), transfer.ErrMovedOn},
		"not paid":          {transfer.Resolution{}, transfer.ErrMovedOn},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			b.bank.Faults.Set(pays(fakebank.DropAfter, 1))
			p := b.settle("100.00")
			b.step(p)
			slow := b.service(func(o *transfer.Options) {
				o.Bank = b.meanwhile(func() { b.asked(p, 1) })
			})
			_, err := slow.Resolve(b.ctx, p.MerchantTxRef, c.to, byHand)
			require.ErrorIs(t, err, c.want)
			b.money("0.00", isPaid, "debit 100.00 confirmed")
		})
	}
}

// A person can vouch for an outcome that the bank has said, and that its index does not have any
// more.
func TestResolveOfAnOutcomeWithoutARecord(t *testing.T) {
	for name, c := range map[string]struct {
		back bool
		to   transfer.Resolution
		want transfer.Status
	}{"paid": {false, transfer.Resolution{Paid: true}, transfer.Success}, "given back": {true, transfer.Resolution{}, transfer.Refunded}} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			p := b.run(b.settle("100.00"))
			if c.back {
				_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
				require.NoError(t, err)
				b.asked(p, 1)
			}
			_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, c.to, byHand)
			require.ErrorIs(t, err, transfer.ErrAgrees, "the bank's record says so")
			require.Equal(t, "bank", row[string](b, p, "ended_by"))
			due := b.DueAt(work.Settle, p.ID)
			b.bank.Faults.Set(answers(fakebank.NotFound, 0))
			r, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, c.to, byHand)
			require.NoError(t, err)
			require.Equal(t, c.want, r.Status)
			require.Equal(t, "operator", row[string](b, p, "ended_by"))
			require.Equal(t, due, b.DueAt(work.Settle, p.ID))
			require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'transfers.resolve'`))
			_, err = b.svc.Resolve(b.ctx, p.MerchantTxRef, c.to, byHand)
			require.ErrorIs(t, err, transfer.ErrAgrees)
		})
	}
}

// Without a word of the bank's, a resolution that changes the status ends the difference that the
// bank's last record had, and one that does not leaves it known.
func TestResolvedWithoutTheBank(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(with(pays(fakebank.FailedLate, 1), func(r *fakebank.Rule) { r.Delay = time.Minute }))
	p := b.settle("100.00")
	b.asked(p, 2)
	const differs = "the bank says failed of 100.00, the books success of 100.00"
	require.Equal(t, differs, row[string](b, p, "difference"))
	b.svc = b.service(func(o *transfer.Options) { o.Bank = nil })
	for _, c := range []struct {
		to   transfer.Resolution
		want string
	}{{transfer.Resolution{Paid: true}, differs}, {transfer.Resolution{}, ""}} {
		_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, c.to, byHand)
		require.NoError(t, err)
		require.Equal(t, c.want, row[string](b, p, "difference"))
		require.Nil(t, row[*time.Time](b, p, "differs_since"))
	}
	require.Equal(t, transfer.Refunded, b.get(p.MerchantTxRef).Status)
}

// A worker submits a transfer again while a person's own question is under way, and the bank takes
// it: what the bank did not know a moment ago it pays later, and the money is not given back too.
func TestResolveOfWhatIsSubmittedMeanwhile(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(pays(fakebank.Drop, 1), lags(4*time.Hour))
	p := b.settle("100.00")
	b.step(p)
	b.asked(p, 2)
	slow := b.service(func(o *transfer.Options) {
		o.Bank = b.meanwhile(func() { b.asked(p, 1) })
	})
	_, err := slow.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{}, byHand)
	require.ErrorIs(t, err, transfer.ErrMovedOn)
	got := b.get(p.MerchantTxRef)
	require.Equal(t, []any{transfer.Processing, 2}, []any{got.Status, got.AttemptCount})
	require.Equal(t, transfer.Success, b.run(p).Status)
	b.money("0.00", isPaid, "debit 100.00 confirmed")
	b.consistent(0)
}

func TestResolveIsRefused(t *testing.T) {
	b := setup(t)
	b.fund("500.00")
	_, err := b.svc.Resolve(b.ctx, "AJO-nothing", transfer.Resolution{Paid: true}, byHand)
	require.ErrorIs(t, err, transfer.ErrNotFound)
	waiting := b.settle("100.00")
	_, err = b.svc.Resolve(b.ctx, waiting.MerchantTxRef, transfer.Resolution{Paid: true}, byHand)
	require.ErrorIs(t, err, transfer.ErrNotSubmitted)

	b.bank.Faults.Set(pays(fakebank.DropAfter, 1))
	p := b.settle("100.00")
	b.step(p)
	for _, c := range []struct {
		to   transfer.Resolution
		want error
	}{
		{transfer.Resolution{}, transfer.ErrBankSays}, // its record says success
		{paidSum("90.00"), transfer.ErrBankSays},
		{paidSum("0.00"), transfer.ErrPaidSum},
		{transfer.Resolution{Amount: new(money.Must("100.00"))}, transfer.ErrPaidSum},
	} {
		_, err = b.svc.Resolve(b.ctx, p.MerchantTxRef, c.to, byHand)
		require.ErrorIs(t, err, c.want)
	}
	_, err = b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{Paid: true}, audit.By{Actor: "cli:ada"})
	require.ErrorIs(t, err, audit.ErrReason)
	require.Equal(t, transfer.Processing, b.get(p.MerchantTxRef).Status)
	b.untilDue(p)
	b.claims(p, 1)
	_, err = b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{Paid: true}, byHand)
	require.ErrorIs(t, err, transfer.ErrLeased)
	b.Clock.Advance(work.Term)
	other := b.settle("1.00")
	b.Exec(`UPDATE transfers SET difference = 'a difference', differs_since = now() WHERE id = $1`, other.ID)
	_, err = b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{Paid: true}, byHand)
	require.NoError(t, err, "the bank's record says the same")
	require.True(t, testenv.Value[bool](b.Env, `SELECT differs_since IS NOT NULL FROM transfers WHERE id = $1`, other.ID), "another transfer waits for a person as before")
	_, err = b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{Paid: true}, byHand)
	require.ErrorIs(t, err, transfer.ErrAgrees)
	b.bank.Faults.Set(pays(fakebank.Reject, 1))
	refused := b.run(b.settle("100.00"))
	_, err = b.svc.Resolve(b.ctx, refused.MerchantTxRef, transfer.Resolution{}, byHand)
	require.ErrorIs(t, err, transfer.ErrAgrees)
}

// recordedOf is a transfer of 100.00 that is under way, and that the bank's record says was paid
// with another sum.
func (b *bundle) recordedOf(sum string) transfer.Transfer {
	b.T.Helper()
	b.fund("100.00")
	b.bank.Faults.Set(pays(fakebank.DropAfter, 1), with(answers(fakebank.AlterAmount, 0), func(r *fakebank.Rule) { r.Value = sum }))
	p := b.settle("100.00")
	b.asked(p, 3)
	return p
}

// What a person has booked of another sum, and the bank's record says too, is certain like the
// ordered sum.
func TestResolveOfAnotherSumThatTheBankConfirms(t *testing.T) {
	b := setup(t)
	p := b.recordedOf("90.00")
	resolve := func(to transfer.Resolution) error {
		_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, to, byHand)
		return err
	}
	require.NoError(t, resolve(paidSum("90.00")))
	require.ErrorIs(t, resolve(transfer.Resolution{}), transfer.ErrBankSays)
	require.ErrorIs(t, resolve(paidSum("80.00")), transfer.ErrBankSays)
	require.ErrorIs(t, resolve(transfer.Resolution{Paid: true}), transfer.ErrAgrees, "with what was booked, not what was ordered")
	b.money("10.00", isPaid, wasBack, givenBack, "debit 90.00 confirmed")
	b.consistent(0)
}

// Two people book other sums of one transfer at once: the second gets an error.
func TestTwoResolveAtOnce(t *testing.T) {
	b := setup(t)
	p := b.recordedOf("95.00")
	_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, paidSum("90.00"), byHand)
	require.NoError(t, err)
	second := b.service(func(o *transfer.Options) {
		o.Bank = b.meanwhile(func() {
			_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, paidSum("80.00"), byHand)
			require.NoError(t, err)
		})
	})
	_, err = second.Resolve(b.ctx, p.MerchantTxRef, paidSum("70.00"), byHand)
	require.ErrorIs(t, err, transfer.ErrMovedOn)
	balance, err := ledger.ReadBalance(b.ctx, b.Pool, b.account)
	require.NoError(t, err)
	require.Equal(t, "20.00", balance.Balance.String())
	b.consistent(0)
}

// A look-up that never answers, and money that is never confirmed, hold a transfer for ever: it can
// be cancelled, as long as it was never submitted, and whatever a worker has begun meanwhile is not
// submitted either.
func TestCancel(t *testing.T) {
	spec.Shows(t, "state.transfer.pending-failed")
	b := setup(t)
	b.fund("300.00")
	b.Subscribe(b.tenant, allSettlements)
	b.bank.Faults.Set(names(fakebank.Fail, 0))
	p := b.settle("100.00")
	b.asked(p, 20)
	require.Equal(t, transfer.Pending, b.get(p.MerchantTxRef).Status)
	b.untilDue(p)
	begun := b.claims(p, 1)
	r, err := b.svc.Cancel(b.ctx, p.MerchantTxRef, byHand)
	require.NoError(t, err)
	require.Equal(t, transfer.Failed, r.Status)
	require.Equal(t, "300.00", r.Balance.String())
	require.Equal(t, "it does not know the reference", r.BankSays)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM work WHERE kind = 'deliver'`), "it is published")
	require.Equal(t, []bool{false}, b.svc.SubmitTogether(b.ctx, begun))
	b.money("300.00", "credit 300.00 confirmed", wasBack, givenBack)
	require.Nil(t, b.DueAt(work.Settle, p.ID), "there is nothing to ask")
	_, err = b.svc.Cancel(b.ctx, p.MerchantTxRef, byHand)
	require.ErrorIs(t, err, transfer.ErrOver)

	leased := b.settle("100.00") // leased by a worker that waits for the look-up
	b.Lease(work.Settle, leased.ID, b.Clock.Now().Add(time.Minute))
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.Fail})
	r, err = b.svc.Cancel(b.ctx, leased.MerchantTxRef, byHand)
	require.NoError(t, err)
	require.Equal(t, "it gave no answer", r.BankSays)
	require.Equal(t, r.BankSays, testenv.Value[string](b.Env, `SELECT detail ->> 'BankSays' FROM audit_log WHERE target = $1`, "transfer:"+leased.MerchantTxRef))
	_, err = b.svc.Cancel(b.ctx, "AJO-nothing", byHand)
	require.ErrorIs(t, err, transfer.ErrNotFound)
	_, err = b.svc.Cancel(b.ctx, b.settle("100.00").MerchantTxRef, audit.By{Actor: "cli:ada"})
	require.ErrorIs(t, err, audit.ErrReason)

	b.bank.Faults.Clear()
	paid := b.run(b.settle("100.00"))
	_, err = b.svc.Cancel(b.ctx, paid.MerchantTxRef, byHand)
	require.ErrorIs(t, err, transfer.ErrSubmitted)
	b.consistent(0)
	require.Equal(t, 1, b.bank.Calls(payCall))
}
