package transfer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/spec"
	"ajo/internal/transfer"
	"ajo/internal/work"
)

// pays and answers are rules for submissions and for questions by reference; the zero Next strikes
// each time.
func pays(do fakebank.Action, next int) fakebank.Rule {
	return fakebank.Rule{On: fakebank.OnPayouts, Do: do, Next: next}
}

func answers(do fakebank.Action, next int) fakebank.Rule {
	return fakebank.Rule{On: fakebank.OnPayoutStatus, Do: do, Next: next}
}

func names(do fakebank.Action, next int) fakebank.Rule {
	return fakebank.Rule{On: fakebank.OnLookup, Do: do, Next: next}
}

func with(r fakebank.Rule, change func(*fakebank.Rule)) fakebank.Rule {
	change(&r)
	return r
}

// The answers that the bank can give, each with the exact end of the transfer, the submissions that
// were counted, and those that the bank has seen of its reference (0: none was accepted).
var bankAnswers = map[string]struct {
	rules    []fakebank.Rule
	delay    time.Duration // how long the bank takes over a payout
	end      transfer.Status
	attempts int
	seen     int
}{
	"paid at once":                     {end: transfer.Success, attempts: 1, seen: 1},
	"paid at once, whatever the delay": {rules: []fakebank.Rule{pays(fakebank.Paid, 1)}, delay: time.Hour, end: transfer.Success, attempts: 1, seen: 1},
	"under way for three minutes":      {rules: []fakebank.Rule{pays(fakebank.Pending, 1)}, delay: 3 * time.Minute, end: transfer.Success, attempts: 1, seen: 1},
	"under way for a day":              {rules: []fakebank.Rule{pays(fakebank.Pending, 1)}, delay: 6 * time.Hour, end: transfer.Success, attempts: 1, seen: 1},
	"201 PROCESSING":                   {rules: []fakebank.Rule{pays(fakebank.Processing, 1)}, delay: time.Minute, end: transfer.Success, attempts: 1, seen: 1},
	"201 PROCESSING, ended meanwhile":  {rules: []fakebank.Rule{pays(fakebank.Processing, 1)}, end: transfer.Success, attempts: 1, seen: 1},
	"failed later":                     {rules: []fakebank.Rule{pays(fakebank.FailLater, 1)}, delay: time.Minute, end: transfer.Failed, attempts: 1, seen: 1},
	"rejected":                         {rules: []fakebank.Rule{pays(fakebank.Reject, 1)}, end: transfer.Failed, attempts: 1},
	"acted, and called it a duplicate": {rules: []fakebank.Rule{pays(fakebank.Duplicate, 1)}, end: transfer.Success, attempts: 1, seen: 1},
	"cut after it acted":               {rules: []fakebank.Rule{pays(fakebank.DropAfter, 1)}, end: transfer.Success, attempts: 1, seen: 1},
	"500 after it acted":               {rules: []fakebank.Rule{pays(fakebank.FailAfter, 1)}, end: transfer.Success, attempts: 1, seen: 1},
	"somebody else's record":           {rules: []fakebank.Rule{pays(fakebank.WrongRecord, 1)}, end: transfer.Success, attempts: 1, seen: 1},
	"cut before it acted":              {rules: []fakebank.Rule{pays(fakebank.Drop, 1)}, end: transfer.Success, attempts: 2, seen: 1},
	"500 before it acted":              {rules: []fakebank.Rule{pays(fakebank.Fail, 1)}, end: transfer.Success, attempts: 2, seen: 1},
	"429":                              {rules: []fakebank.Rule{with(pays(fakebank.Fail, 1), func(r *fakebank.Rule) { r.Status = 429 })}, end: transfer.Success, attempts: 2, seen: 1},
	"code 01, may be retried":          {rules: []fakebank.Rule{pays(fakebank.Refuse, 1)}, end: transfer.Success, attempts: 2, seen: 1},
	"an unknown code":                  {rules: []fakebank.Rule{with(pays(fakebank.Refuse, 1), func(r *fakebank.Rule) { r.Code = "77" })}, end: transfer.Success, attempts: 2, seen: 1},
	"a page of HTML":                   {rules: []fakebank.Rule{pays(fakebank.Garbage, 1)}, end: transfer.Success, attempts: 2, seen: 1},
	"acted after the caller had gone":  {rules: []fakebank.Rule{with(pays(fakebank.SlowAfter, 1), func(r *fakebank.Rule) { r.Delay = time.Second })}, end: transfer.Success, attempts: 1, seen: 1},
	"too slow to act":                  {rules: []fakebank.Rule{with(pays(fakebank.Slow, 1), func(r *fakebank.Rule) { r.Delay = time.Second })}, end: transfer.Success, attempts: 2, seen: 1},

	"paid, and not found at first":       {rules: []fakebank.Rule{pays(fakebank.DropAfter, 1), answers(fakebank.NotFound, 2)}, end: transfer.Success, attempts: 1, seen: 1},
	"paid, and not found for long":       {rules: []fakebank.Rule{pays(fakebank.DropAfter, 1), answers(fakebank.NotFound, 3)}, end: transfer.Success, attempts: 2, seen: 2},
	"paid, and called unknown, code 01":  {rules: []fakebank.Rule{pays(fakebank.DropAfter, 1), answers(fakebank.NotFoundCode, 2)}, end: transfer.Success, attempts: 1, seen: 1},
	"paid, and an empty answer":          {rules: []fakebank.Rule{pays(fakebank.DropAfter, 1), answers(fakebank.Empty, 2)}, end: transfer.Success, attempts: 1, seen: 1},
	"paid, and a stranger's record":      {rules: []fakebank.Rule{pays(fakebank.DropAfter, 1), answers(fakebank.WrongRecord, 20)}, end: transfer.Success, attempts: 1, seen: 1},
	"paid, and a page for an answer":     {rules: []fakebank.Rule{pays(fakebank.DropAfter, 1), answers(fakebank.Garbage, 20)}, end: transfer.Success, attempts: 1, seen: 1},
	"paid, and the bank down for long":   {rules: []fakebank.Rule{pays(fakebank.DropAfter, 1), answers(fakebank.Fail, 20)}, end: transfer.Success, attempts: 1, seen: 1},
	"paid, and another sum for long":     {rules: []fakebank.Rule{pays(fakebank.DropAfter, 1), answers(fakebank.AlterAmount, 20)}, end: transfer.Success, attempts: 1, seen: 1},
	"paid, and a status unheard of":      {rules: []fakebank.Rule{pays(fakebank.DropAfter, 1), with(answers(fakebank.AlterStatus, 20), func(r *fakebank.Rule) { r.Value = "ON_ITS_WAY" })}, end: transfer.Success, attempts: 1, seen: 1},
	"rejected at the second attempt":     {rules: []fakebank.Rule{pays(fakebank.Drop, 1), pays(fakebank.Reject, 1)}, end: transfer.Success, attempts: 3, seen: 1},
	"cut four times":                     {rules: []fakebank.Rule{pays(fakebank.Drop, 4)}, end: transfer.Success, attempts: 5, seen: 1},
	"cut five times":                     {rules: []fakebank.Rule{pays(fakebank.Drop, 0)}, end: transfer.Failed, attempts: 5},
	"rejected for ever after a lost one": {rules: []fakebank.Rule{pays(fakebank.Drop, 1), pays(fakebank.Reject, 0)}, end: transfer.Failed, attempts: 5},
	"the fifth arrived, and shows late":  {rules: []fakebank.Rule{pays(fakebank.Drop, 4), pays(fakebank.DropAfter, 1), answers(fakebank.NotFound, 18)}, end: transfer.Success, attempts: 5, seen: 1},

	"no such bank account":            {rules: []fakebank.Rule{names(fakebank.NotFound, 1)}, end: transfer.Failed},
	"the name cannot be told yet":     {rules: []fakebank.Rule{names(fakebank.Fail, 5)}, end: transfer.Success, attempts: 1, seen: 1},
	"the name's answer is cut":        {rules: []fakebank.Rule{names(fakebank.Drop, 5)}, end: transfer.Success, attempts: 1, seen: 1},
	"the name's answer has no name":   {rules: []fakebank.Rule{names(fakebank.Empty, 5)}, end: transfer.Success, attempts: 1, seen: 1},
	"the whole bank down for a while": {rules: []fakebank.Rule{{On: fakebank.OnAll, Do: fakebank.Drop, Next: 9}}, end: transfer.Success, attempts: 1, seen: 1},
}

func TestEveryAnswerOfTheBank(t *testing.T) {
	spec.Shows(t, "limit.settle.attempts", "state.transfer.submitted.polls", "state.transfer.processing-success", "state.transfer.processing-failed",
		"endpoint.settle.worker")
	b := setup(t)
	b.client = b.newClient(300 * time.Millisecond)
	b.svc = b.service()
	for name, c := range bankAnswers {
		t.Run(name, func(t *testing.T) {
			b := b.anotherAccount(t)
			b.bank.SetPayoutDelay(c.delay)
			b.fund("100.00")
			b.bank.Faults.Set(c.rules...)
			p := b.run(b.settle("100.00"))
			require.Equal(t, c.end, p.Status)
			require.Equal(t, c.attempts, p.AttemptCount)
			if out, ok := b.bank.Payout(p.MerchantTxRef); ok || c.seen > 0 {
				require.Equal(t, c.seen, out.Submissions)
			}
			b.ended(p)
		})
	}
}

// ended checks that the money is where the status says, here and at the bank.
func (b *bundle) ended(p transfer.Transfer) {
	b.T.Helper()
	out, _ := b.bank.Payout(p.MerchantTxRef)
	if p.Status == transfer.Success {
		require.Equal(b.T, fakebank.StatusSuccess, out.Status)
		require.Equal(b.T, p.Amount.String(), out.Amount.String())
		b.money("0.00", "credit 100.00 confirmed", "debit 100.00 confirmed")
		return
	}
	require.NotEqual(b.T, fakebank.StatusSuccess, out.Status)
	b.money("100.00", "credit 100.00 confirmed", "debit 100.00 reversed", "credit 100.00 reversed")
}

// A payout that the bank gives back after it had said success: the confirmed debit is reversed. Its
// event wakes the question; when the event never comes, one of the later questions finds it, and
// after the last there are no more.
func TestGivenBackAfterSuccess(t *testing.T) {
	spec.Shows(t, "state.transfer.success-refunded")
	for name, after := range map[string]time.Duration{"event": 0, "15 minutes": 14 * time.Minute, "2 hours": 2 * time.Hour, "a day": 20 * time.Hour, "too late": 100 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			p := b.run(b.settle("100.00"))
			require.Equal(t, transfer.Success, p.Status)
			end := b.Clock.Now()
			for b.Clock.Now().Before(end.Add(after)) && b.DueAt(work.Settle, p.ID) != nil {
				b.untilDue(p)
				if b.Clock.Now().Before(end.Add(after)) {
					_ = b.svc.Advance(b.ctx, p.ID)
				}
			}
			b.ended(b.get(p.MerchantTxRef))
			_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
			require.NoError(t, err)
			if name == "event" || name == "too late" {
				ok, err := b.svc.Expedite(b.ctx, p.MerchantTxRef)
				require.NoError(t, err)
				require.True(t, ok)
			}
			b.untilDue(p)
			b.step(p)
			p = b.get(p.MerchantTxRef)
			require.Equal(t, transfer.Refunded, p.Status)
			b.ended(p)
			b.paid()
			for range defaults.SettleRechecks {
				require.NotNil(t, b.DueAt(work.Settle, p.ID))
				b.untilDue(p)
				_ = b.svc.Advance(b.ctx, p.ID)
			}
			require.Nil(t, b.DueAt(work.Settle, p.ID), "asked about like any that has ended, and no longer")
			b.ended(b.get(p.MerchantTxRef))
		})
	}
}

// The bank paid, nobody heard of it, and when it is asked it has given the money back already.
func TestGivenBackBeforeTheFirstQuestion(t *testing.T) {
	spec.Shows(t, "state.transfer.processing-refunded")
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(pays(fakebank.DropAfter, 1))
	p := b.settle("100.00")
	b.step(p)
	_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
	require.NoError(t, err)
	p = b.run(p)
	require.Equal(t, transfer.Refunded, p.Status)
	b.ended(p)
}

// A bank that calls a paid transfer failed is not believed, and a person is notified.
func TestFailedAfterSuccess(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	p := b.run(b.settle("100.00"))
	b.bank.Faults.Set(with(answers(fakebank.AlterStatus, 0), func(r *fakebank.Rule) { r.Value = fakebank.StatusFailed }))
	b.untilDue(p)
	b.step(p)
	b.log.Has(t, "paid_then_failed")
	b.ended(b.get(p.MerchantTxRef))
}

// A question about a paid transfer that gets no answer is asked again, however many there are: the
// bank has changed its word, and nobody would hear of it. An answer ends that.
func TestRecheckWithoutAnswer(t *testing.T) {
	for name, rule := range map[string]fakebank.Rule{
		"error": answers(fakebank.Fail, 0), "cut": answers(fakebank.Drop, 0), "garbage": answers(fakebank.Garbage, 0),
		"gateway":   with(answers(fakebank.Gateway, 0), func(r *fakebank.Rule) { r.Value = fakebank.GatewayBodies()[0] }),
		"not found": answers(fakebank.NotFound, 0), "another's": answers(fakebank.WrongRecord, 0),
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			p := b.run(b.settle("100.00"))
			b.bank.Faults.Set(rule)
			for range 2 * len(defaults.SettleRechecks) {
				b.untilDue(p)
				b.step(p)
			}
			ok, err := b.svc.Expedite(b.ctx, p.MerchantTxRef)
			require.NoError(t, err)
			require.True(t, ok)
			b.step(p)
			b.bank.Faults.Set(with(answers(fakebank.AlterStatus, 0), func(r *fakebank.Rule) { r.Value = fakebank.StatusFailed }))
			for range defaults.SettleRechecks {
				b.untilDue(p)
				_ = b.svc.Advance(b.ctx, p.ID)
			}
			b.log.Has(t, "paid_then_failed")
			b.bank.Faults.Clear()
			b.untilDue(p)
			require.NoError(t, b.svc.Advance(b.ctx, p.ID))
			require.Nil(t, b.DueAt(work.Settle, p.ID), "answered questions come to an end")
			b.ended(b.get(p.MerchantTxRef))
		})
	}
}

// A difference that the last question finds is asked about once a day, until the bank's record says
// how it ended: that it gave the money back, or what the books say. Or until a person has dealt
// with it.
func TestADifferenceOfTheLastQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		then   func(b *bundle, p transfer.Transfer)
		status transfer.Status
		known  string // the difference that a person has dealt with
	}{
		"given back": {func(b *bundle, p transfer.Transfer) {
			b.bank.Faults.Clear()
			_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
			require.NoError(b.T, err)
		}, transfer.Refunded, ""},
		"paid after all": {func(b *bundle, _ transfer.Transfer) { b.bank.Faults.Clear() }, transfer.Success, ""},
		"known to a person": {func(b *bundle, p transfer.Transfer) {
			_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{Paid: true}, byHand)
			require.NoError(b.T, err)
		}, transfer.Success, "the bank says pending of 100.00, the books success of 100.00"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			p := b.run(b.settle("100.00"))
			for range len(defaults.SettleRechecks) - 1 {
				b.untilDue(p)
				b.step(p)
			}
			b.bank.Faults.Set(status("REVERSAL_IN_PROGRESS"))
			for range 3 {
				b.untilDue(p)
				require.Equal(t, b.Clock.Now().Add(24*time.Hour), b.step(p))
				require.NotNil(t, row[*time.Time](b, p, "differs_since"))
			}
			c.then(b, p)
			b.untilDue(p)
			_ = b.svc.Advance(b.ctx, p.ID)
			require.Equal(t, c.status, b.get(p.MerchantTxRef).Status)
			require.Nil(t, row[*time.Time](b, p, "differs_since"))
			require.Equal(t, c.known, row[string](b, p, "difference"))
			require.Equal(t, c.status == transfer.Success, b.DueAt(work.Settle, p.ID) == nil)
			b.ended(b.get(p.MerchantTxRef))
		})
	}
}

// The same of a transfer that failed, of which the bank's not knowing it is an answer.
func TestRecheckOfAFailedOneWithoutAnswer(t *testing.T) {
	notKnownIsAnAnswer(t, transfer.Failed, func(b *bundle) transfer.Transfer {
		b.bank.Faults.Set(pays(fakebank.Reject, 1))
		return b.run(b.settle("100.00"))
	})
}

// And of one that a person has found unpaid, though it had succeeded.
func TestRecheckOfWhatAPersonFoundUnpaid(t *testing.T) {
	notKnownIsAnAnswer(t, transfer.Refunded, func(b *bundle) transfer.Transfer {
		p := b.run(b.settle("100.00"))
		require.Equal(t, transfer.Success, p.Status)
		b.bank.Faults.Set(answers(fakebank.NotFound, 0))
		_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{}, byHand)
		require.NoError(t, err)
		return b.get(p.MerchantTxRef)
	})
}

// notKnownIsAnAnswer checks that the questions about an ended transfer come to an end if the bank
// does not know it, and go on if the bank does not answer.
func notKnownIsAnAnswer(t *testing.T, status transfer.Status, ended func(*bundle) transfer.Transfer) {
	t.Helper()
	for name, c := range map[string]struct {
		rule     fakebank.Rule
		answered bool
	}{"error": {answers(fakebank.Fail, 0), false}, "not found": {answers(fakebank.NotFound, 0), true}} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			p := ended(b)
			require.Equal(t, status, p.Status)
			b.bank.Faults.Set(c.rule)
			for range len(defaults.SettleRechecks) {
				require.NotNil(t, b.DueAt(work.Settle, p.ID))
				b.untilDue(p)
				_ = b.svc.Advance(b.ctx, p.ID)
			}
			require.Equal(t, c.answered, b.DueAt(work.Settle, p.ID) == nil)
			require.Equal(t, status, b.get(p.MerchantTxRef).Status)
		})
	}
}

// Of one that was paid, by the bank's word or a person's, "not known" is no answer, also where the
// bank has given it back: it is asked about until the bank answers, but only daily where a person
// has said so.
func TestRecheckOfWhatTheBankFindsNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		status transfer.Status
		again  time.Duration
		ended  func(*bundle) transfer.Transfer
	}{
		"given back by the bank": {transfer.Refunded, 15 * time.Minute, func(b *bundle) transfer.Transfer {
			p := b.run(b.settle("100.00"))
			_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
			require.NoError(b.T, err)
			b.untilDue(p)
			b.step(p)
			return p
		}},
		"paid by a person's word": {transfer.Success, 24 * time.Hour, func(b *bundle) transfer.Transfer {
			b.bank.Faults.Set(lags(365 * 24 * time.Hour))
			p := b.settle("100.00")
			b.asked(p, 1)
			_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{Paid: true}, byHand)
			require.NoError(b.T, err)
			return p
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			p := c.ended(b)
			require.Equal(t, c.status, b.get(p.MerchantTxRef).Status)
			b.bank.Faults.Set(answers(fakebank.NotFound, 0))
			var again time.Duration
			for range 2 * len(defaults.SettleRechecks) {
				b.untilDue(p)
				again = b.step(p).Sub(b.Clock.Now())
			}
			require.Equal(t, c.again, again)
			require.Equal(t, c.status, b.get(p.MerchantTxRef).Status)
		})
	}
}

// The schedule of an outcome that stays unknown grows to its last gap and never ends; from ten
// minutes on each question is reported.
func TestUnknownForAWeek(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(pays(fakebank.DropAfter, 1), answers(fakebank.Fail, 0))
	p := b.settle("100.00")
	b.step(p)
	start := b.Clock.Now()
	var gaps []time.Duration
	for b.Clock.Now().Before(start.Add(7 * 24 * time.Hour)) {
		before := b.Clock.Now()
		b.untilDue(p)
		gaps = append(gaps, b.Clock.Now().Sub(before))
		b.step(p)
	}
	require.Equal(t, defaults.SettleDelays, gaps[:len(defaults.SettleDelays)])
	require.Equal(t, 30*time.Minute, gaps[len(gaps)-1])
	b.log.Has(t, "unknown_outcome")
	require.Equal(t, transfer.Processing, b.get(p.MerchantTxRef).Status)
	b.bank.Faults.Clear()
	b.ended(b.run(p))
}

// The bank names another sum, or another reference, for as long as it likes: nothing is paid again
// and nothing given back.
func TestARecordThatIsNotOurs(t *testing.T) {
	for name, rule := range map[string]fakebank.Rule{"sum": answers(fakebank.AlterAmount, 0), "reference": answers(fakebank.WrongRecord, 0)} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			b.bank.Faults.Set(pays(fakebank.DropAfter, 1), rule)
			p := b.settle("100.00")
			for range 40 {
				b.untilDue(p)
				b.step(p)
			}
			got := b.get(p.MerchantTxRef)
			require.Equal(t, transfer.Processing, got.Status)
			require.Equal(t, 1, got.AttemptCount)
			b.money("0.00", "credit 100.00 confirmed", "debit 100.00 provisional")
			require.Equal(t, 1, b.bank.Calls(payCall))
		})
	}
}
