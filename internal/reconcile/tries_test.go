package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// A try that failed is not the payout's end, in whichever order the bank lists the two.
func TestAFailedTryBeforeThePayout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("1000.00")
	b.payAtBank("AJO-second-try", "100.00")
	b.inBooks("AJO-second-try", "success", "100.00", "0")
	_, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(page *provider.Page) {
		for _, p := range page.Payouts {
			p.ID, p.Status = p.ID+"-before", provider.Failed
			page.Payouts = append([]provider.Payout{p}, page.Payouts...)
		}
	}})
	r := b.lastHour()
	require.Empty(t, r.Exceptions)
	require.Equal(t, 1, r.Bank.Payouts["success"].Count)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
}

// A list that moves while it is read shows a payment as paid, and on a later page as given back.
func TestRecordThatChangesWhileTheListIsRead(t *testing.T) {
	t.Parallel()
	for status, says := range map[string]string{"REFUND": "refunded", fakebank.StatusFailed: "failed"} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, txn := b.confirmed()
			b.recorded(txn, status)
			_, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(page *provider.Page) {
				for _, p := range page.Transactions {
					p.Status = provider.Success
					page.Transactions = append([]provider.Transaction{p}, page.Transactions...)
				}
			}})
			require.Empty(t, b.lastHour().Exceptions)
			b.Clock.Advance(2 * time.Hour)
			r := b.lastHour()
			require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.Contradicts: 1}, r.Counts)
			require.Contains(t, r.Exceptions[0].Detail, "the bank says "+says+", the entry is confirmed")
			require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM recalls WHERE event_id = $1 AND status = 'open'`, id))
		})
	}
}

// The same of a payout: it is asked about, and only then. One that the list shows twice as it is
// gives no reason to ask.
func TestPayoutThatChangesWhileTheListIsRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status string // the bank's in the end
		asked  bool
	}{"given back": {fakebank.StatusRefund, true}, "failed": {fakebank.StatusFailed, true}, "paid": {fakebank.StatusSuccess, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fund("1000.00")
			b.payAtBank("AJO-moves", "100.00")
			b.inBooks("AJO-moves", "success", "100.00", "0")
			b.bank.SetPayout("AJO-moves", func(p *fakebank.Payout) { p.Status = c.status })
			_, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(page *provider.Page) {
				for _, p := range page.Payouts {
					p.Status = provider.Success
					page.Payouts = append([]provider.Payout{p}, page.Payouts...)
				}
			}})
			require.Empty(t, b.lastHour().Exceptions)
			require.Equal(t, c.asked, len(b.dueNow(work.Settle)) == 1)
		})
	}
}

// What was given back, as the books have it, is nothing to be asked about because a list that moves
// shows it twice.
func TestWhatWasGivenBackIsListedTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.reversedByRecall()
	_, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(page *provider.Page) {
		page.Transactions = append(page.Transactions, page.Transactions...)
	}})
	require.Empty(t, b.lastHour().Exceptions)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
}

// A second payout under one reference comes back when the list of that day is not read any more:
// the wallet has it again, whether or not a person has dismissed it.
func TestSecondPayoutThatComesBackLater(t *testing.T) {
	t.Parallel()
	for name, dismissed := range map[string]bool{"dismissed": true, "open": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fund("1000.00")
			b.payAtBank("AJO-twice", "100.00")
			b.inBooks("AJO-twice", "success", "100.00", "0")
			status := provider.Success
			_, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(page *provider.Page) {
				for _, p := range page.Payouts {
					p.ID, p.Status = p.ID+"-again", status
					page.Payouts = append(page.Payouts, p)
				}
			}})
			r := b.lastHour()
			require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.PayoutDiffers: 1}, r.Counts)
			x := r.Exceptions[0]
			second := x.MerchantTxRef + " " + x.ProviderTxnRef
			if dismissed {
				_, err := dismiss(b.svc, second)
				require.NoError(t, err)
			}
			b.Clock.Advance(10 * 24 * time.Hour)
			for range 2 {
				require.Equal(t, "-100.00", effectOf(b.float(), second))
			}
			require.Equal(t, !dismissed, len(b.lastHour().Exceptions) == 1)
			status = provider.Refunded
			require.Empty(t, effectOf(b.float(), second))
			require.Empty(t, b.lastHour().Exceptions)
			require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
		})
	}
}
