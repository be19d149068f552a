package transfer_test

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/freeze"
	"ajo/internal/idempotency"
	"ajo/internal/limit"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// policy sets the tenant's policy; "" is no threshold.
func (b *bundle) policy(approvals int, above, dayAbove string) {
	b.T.Helper()
	b.Exec(`UPDATE tenants SET payout_approvals = $2, approve_above = nullif($3, '')::numeric, approve_day_above = nullif($4, '')::numeric WHERE id = $1`,
		b.tenant, approvals, above, dayAbove)
}

var checker = audit.Session("ada@shop.example", netip.MustParseAddr("198.51.100.7"))

func (b *bundle) decide(t transfer.Transfer, member uuid.UUID, d transfer.Decision) (transfer.Approval, error) {
	return b.svc.Decide(b.ctx, b.tenant, t.MerchantTxRef, transfer.Maker{Member: member, By: checker}, d)
}

// waiting has a settlement accepted that awaits so many approvals.
func (b *bundle) waiting(approvals int) transfer.Transfer {
	b.T.Helper()
	b.fund("100.00")
	b.policy(approvals, "50.00", "")
	t := b.settle("60.00")
	require.Equal(b.T, new(transfer.AwaitingApproval), t.Awaiting)
	return t
}

func (b *bundle) approve(t transfer.Transfer) {
	b.T.Helper()
	_, err := b.decide(t, uuid.New(), transfer.Approve)
	require.NoError(b.T, err)
}

// Above the threshold a payout awaits approval, at it it does not; the debit stands, and nothing is
// asked of the bank until it has the approvals, whoever tries.
func TestAPayoutAwaitsApproval(t *testing.T) {
	b := setup(t)
	b.fund("200.00")
	b.policy(2, "50.00", "")
	require.Equal(t, transfer.Success, b.run(b.settle("50.00")).Status)
	o := order("60.00")
	s, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key("k", o))
	require.NoError(t, err)
	a := accepted(t, s)
	require.Equal(t, []string{"pending", "approval"}, []string{string(a.Status), a.Awaiting})
	p := b.get(a.MerchantTxRef)
	asked := b.bank.Calls(lookupCall) + b.bank.Calls(payCall)
	b.money("90.00", "credit 200.00 confirmed", "debit 50.00 confirmed", "debit 60.00 provisional")
	b.policy(0, "", "") // it changes nothing for what waits
	again, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key("k", o))
	require.NoError(t, err)
	require.Equal(t, s.Answer, again.Answer)
	end := p.CreatedAt.Add(24 * time.Hour)
	require.Equal(t, end, b.DueAt(work.Settle, p.ID).UTC())
	require.NoError(t, b.svc.Poll(b.ctx, p.MerchantTxRef, stop))
	require.Equal(t, end, b.step(p).UTC())
	require.NoError(t, freeze.Resume(b.ctx, b.Pool, b.Clock.Now(), freeze.Payouts, uuid.Nil))
	require.Equal(t, end, b.step(p).UTC())

	first, second := uuid.New(), uuid.New()
	for range 2 { // the same member twice is one approval
		got, err := b.decide(p, first, transfer.Approve)
		require.NoError(t, err)
		require.Equal(t, []transfer.MemberDecision{{MemberID: first, Decision: transfer.Approve, DecidedAt: b.Clock.Now()}}, got.Decisions)
		require.Equal(t, new(transfer.AwaitingApproval), got.Awaiting)
		require.Equal(t, end, got.ExpiresAt.UTC())
	}
	_, err = b.decide(p, first, transfer.Reject)
	require.ErrorIs(t, err, transfer.ErrDecided)
	b.Clock.Advance(20 * time.Hour)
	got, err := b.decide(p, second, transfer.Approve)
	require.NoError(t, err)
	require.Nil(t, got.Awaiting)
	require.Equal(t, b.Clock.Now(), got.ApprovedAt.UTC())
	require.False(t, b.DueAt(work.Settle, p.ID).After(b.Clock.Now()), "it is due at once")
	require.Equal(t, asked, b.bank.Calls(lookupCall)+b.bank.Calls(payCall))
	require.Equal(t, transfer.Success, b.run(p).Status)
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'transfer.approve' AND tenant_id = $1`, b.tenant))
	b.log.HasNot(t, "not_submitted")
}

// The answer says what is awaited for one approval too.
func TestTheAnswerAwaitsOneApproval(t *testing.T) {
	b := setup(t)
	b.fund("200.00")
	b.policy(1, "50.00", "")
	for amount, awaiting := range map[string]string{"50.00": "", "60.00": "approval"} {
		o := order(amount)
		s, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key(amount, o))
		require.NoError(t, err)
		require.Equal(t, awaiting, accepted(t, s).Awaiting, amount)
	}
}

// A rejection, and 24 hours without enough approvals, give the money back.
func TestAPayoutThatIsNotApproved(t *testing.T) {
	ends := map[string]struct {
		reason string
		end    func(b *bundle, p transfer.Transfer)
	}{
		"rejected": {"rejected by a member", func(b *bundle, p transfer.Transfer) {
			b.approve(p)
			for range 2 {
				a, err := b.decide(p, uuid.Max, transfer.Reject)
				require.NoError(b.T, err)
				require.Equal(b.T, transfer.Failed, a.Status)
			}
		}},
		"expired": {"not approved in 24 hours", func(b *bundle, p transfer.Transfer) {
			b.approve(p)
			b.Clock.Advance(24 * time.Hour)
			_, err := b.decide(p, uuid.New(), transfer.Approve)
			require.ErrorIs(b.T, err, transfer.ErrNotAwaiting, "its time has passed, though nobody has ended it yet")
			require.NoError(b.T, b.svc.Advance(b.ctx, p.ID))
		}},
		"cancelled": {"cancelled", func(b *bundle, p transfer.Transfer) {
			_, err := b.svc.Cancel(b.ctx, p.MerchantTxRef, stop)
			require.NoError(b.T, err)
		}},
		"expired while frozen": {"not approved in 24 hours", func(b *bundle, p transfer.Transfer) {
			b.freeze(freeze.New{Scope: freeze.Payouts})
			b.untilDue(p)
			require.NoError(b.T, b.svc.Advance(b.ctx, p.ID))
		}},
	}
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			limits := &limit.Service{Pool: b.Pool, Clock: b.Clock}
			_, err := limits.SetPayouts(b.ctx, b.tenant, time.Time{}, limit.Payouts{MaxTenantDay: new(money.Must("1000.00"))}, stop)
			require.NoError(t, err)
			b.Subscribe(b.tenant, "{settlement.failed}")
			p := b.waiting(2)
			c.end(b, p)
			got := b.get(p.MerchantTxRef)
			require.Equal(t, transfer.Failed, got.Status)
			require.Contains(t, *got.FailureReason, c.reason)
			require.Nil(t, got.Awaiting)
			b.money("100.00", "credit 100.00 confirmed", "debit 60.00 reversed", "credit 60.00 reversed")
			require.Equal(t, "0.00", testenv.Value[money.Amount](b.Env, `SELECT paid FROM payout_days WHERE subject = $1`, b.tenant).String())
			require.Equal(t, []string{"settlement.failed failed"}, b.Published(p.ID))
			require.Nil(t, b.DueAt(work.Settle, p.ID))
			require.Zero(t, b.bank.Calls(lookupCall)+b.bank.Calls(payCall))
			require.Equal(t, map[string]int{"cancelled": 1}[name], b.bank.Calls(askCall), "only who cancels asks whether the bank has it")
			_, err = b.decide(p, uuid.New(), transfer.Approve)
			require.ErrorIs(t, err, transfer.ErrNotAwaiting)
		})
	}
}

// Each state of a transfer × each decision: only what awaits approval is decided.
func TestDecisionsInEveryState(t *testing.T) {
	states := map[string]func(b *bundle) transfer.Transfer{
		"needs none": func(b *bundle) transfer.Transfer {
			b.fund("100.00")
			return b.settle("60.00")
		},
		"approved": func(b *bundle) transfer.Transfer {
			p := b.waiting(1)
			b.approve(p)
			return p
		},
		"processing": func(b *bundle) transfer.Transfer {
			p := b.waiting(1)
			b.approve(p)
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.DropAfter, Next: 1})
			b.step(p)
			return p
		},
		"success": func(b *bundle) transfer.Transfer {
			p := b.waiting(1)
			b.approve(p)
			return b.run(p)
		},
		"failed": func(b *bundle) transfer.Transfer {
			p := b.waiting(1)
			_, err := b.decide(p, uuid.New(), transfer.Reject)
			require.NoError(b.T, err)
			return p
		},
		"its own": func(b *bundle) transfer.Transfer {
			b.fund("100.00")
			b.policy(1, "50.00", "")
			o := order("60.00")
			o.Maker = transfer.Maker{Member: maker, By: checker}
			s, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, idempotency.Request{})
			require.NoError(b.T, err)
			return b.get(accepted(b.T, s).MerchantTxRef)
		},
	}
	for name, state := range states {
		for _, d := range []transfer.Decision{transfer.Approve, transfer.Reject} {
			t.Run(name+" "+string(d), func(t *testing.T) {
				b := setup(t)
				p := state(b)
				before := row[string](b, p, "transfers::text")
				_, err := b.decide(p, maker, d)
				if name == "its own" {
					require.ErrorIs(t, err, transfer.ErrOwnTransfer)
				} else {
					require.ErrorIs(t, err, transfer.ErrNotAwaiting)
				}
				require.Equal(t, before, row[string](b, p, "transfers::text"))
				_, err = b.svc.Decide(b.ctx, b.Tenant(), p.MerchantTxRef, transfer.Maker{Member: maker, By: checker}, d)
				require.ErrorIs(t, err, transfer.ErrNotFound, "another tenant's")
				if name == "its own" {
					b.approve(p)
					require.Equal(t, transfer.Success, b.run(p).Status)
				}
			})
		}
	}
}

var maker = uuid.MustParse("0198c0de-0000-7000-8000-000000000001")

// Of decisions at once each counts once, and one end stands.
func TestDecisionsAtOnce(t *testing.T) {
	b := setup(t)
	b.fund("100000.00")
	b.policy(2, "50.00", "")
	same := uuid.New()
	for round := range 12 {
		p := b.settle("60.00")
		b.Clock.Set(p.CreatedAt.Add(24*time.Hour - time.Microsecond))
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i, m := range []uuid.UUID{same, same, uuid.New(), uuid.New()} {
			d := transfer.Approve
			if i == 3 && round%2 == 0 {
				d = transfer.Reject
			}
			wg.Go(func() { _, errs[i] = b.decide(p, m, d) })
		}
		if round%3 == 0 { // the time for it ends meanwhile
			wg.Go(func() { b.Clock.Advance(time.Microsecond); _ = b.svc.Advance(b.ctx, p.ID) })
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				require.ErrorIs(t, err, transfer.ErrNotAwaiting)
			}
		}
		a, err := b.svc.Approval(b.ctx, b.tenant, p.MerchantTxRef)
		require.NoError(t, err)
		approvals := len(slices.DeleteFunc(slices.Clone(a.Decisions), func(d transfer.MemberDecision) bool { return d.Decision != transfer.Approve }))
		b.Clock.Set(p.CreatedAt.Add(25 * time.Hour))
		end := b.run(p)
		require.Equal(t, approvals >= 2, end.Status == transfer.Success, "%+v", a)
		require.LessOrEqual(t, approvals, 2)
	}
	b.approvedOnly()
}

// approvedOnly checks that each payout of the bank that needed approvals has their rows, and that
// the books are right.
func (b *bundle) approvedOnly() {
	b.T.Helper()
	for _, p := range b.bank.Payouts() {
		require.True(b.T, testenv.Value[bool](b.Env, `
			SELECT approvals_needed <= (SELECT count(*) FROM transfer_approvals WHERE transfer_id = t.id AND decision = 'approve') FROM transfers t WHERE merchant_tx_ref = $1`, p.Ref))
	}
	testenv.FindsNothing(b.T, b.Pool, ledger.Verify)
}

// Many payouts, of which a part is approved, a part rejected, and a part forgotten, while workers
// try them all over and over: the bank gets those that were approved, and no others.
func TestNoPayoutWithoutItsApproval(t *testing.T) {
	n := 100
	if v := os.Getenv("AJO_APPROVALS"); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	b := setup(t)
	b.fund("100000000.00")
	b.policy(2, "50.00", "")
	payouts := make([]transfer.Transfer, n)
	for i := range payouts {
		payouts[i] = b.settle(fmt.Sprintf("%d.00", 40+i%20))
	}
	testenv.AtOnce(4, func(w int) {
		for i, p := range payouts {
			if w < 2 {
				_ = b.svc.Poll(b.ctx, p.MerchantTxRef, stop)
				_ = b.svc.Advance(b.ctx, p.ID)
				continue
			}
			d := transfer.Approve
			if i%5 == 0 && w == 3 {
				d = transfer.Reject
			}
			if i%3 != 0 || w == 2 {
				_, _ = b.decide(p, uuid.New(), d)
			}
		}
	})
	b.Clock.Advance(24 * time.Hour)
	for _, p := range payouts {
		end := b.run(p)
		needs := p.Amount.Cmp(money.Must("50.00")) > 0
		yes := testenv.Value[int](b.Env, `SELECT count(*) FROM transfer_approvals WHERE transfer_id = $1 AND decision = 'approve'`, p.ID)
		require.Equal(t, !needs || yes == 2, end.Status == transfer.Success, "%s: %d", p.Amount, yes)
	}
	b.approvedOnly()
	paid := testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE status = 'success'`)
	require.Len(t, b.bank.Paid(), paid)
}

// The sum of a day counts with the one that is asked for, and each further one needs approval too.
// It is of all accounts, and of settlements at once; what fails leaves it.
func TestTheSumOfADay(t *testing.T) {
	b := setup(t)
	b.fund("10000.00")
	b.policy(1, "", "100.00")
	require.Nil(t, b.settle("60.00").Awaiting)
	require.Nil(t, b.settle("40.00").Awaiting)
	p := b.settle("0.01")
	require.NotNil(t, p.Awaiting)
	_, err := b.decide(p, uuid.New(), transfer.Reject)
	require.NoError(t, err)
	b.Clock.Advance(24 * time.Hour)
	testenv.AtOnce(20, func(int) {
		_, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("30.00"), idempotency.Request{})
		require.NoError(t, err)
	})
	require.Equal(t, 17, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE approvals_needed = 1 AND amount = 30`))
}

// The schema refuses a submission without approvals by itself, an approval by who made it, and
// any change of what was decided.
func TestApprovalsInTheSchema(t *testing.T) {
	b := setup(t)
	p := b.waiting(2)
	refused := func(sql string, args ...any) {
		t.Helper()
		_, err := b.Pool.Exec(b.ctx, sql, args...)
		require.ErrorContains(t, err, "23514")
	}
	const say = `INSERT INTO transfer_approvals (transfer_id, member_id, tenant_id, decision, decided_at) VALUES ($1, $2, $3, $4, now())`
	submit := `UPDATE transfers SET status = 'processing', attempt_count = 1 WHERE id = $1`
	for range 2 {
		refused(submit, p.ID)
		refused(`UPDATE transfers SET approved_at = now() WHERE id = $1`, p.ID)
		b.Exec(say, p.ID, uuid.New(), b.tenant, "approve")
	}
	refused(submit, p.ID) // approved by two, and nobody has said so
	refused(say, p.ID, uuid.New(), b.Tenant(), "approve")
	refused(`UPDATE transfers SET approvals_needed = 0 WHERE id = $1`, p.ID)
	refused(`UPDATE transfer_approvals SET decision = 'reject'`)
	refused(`DELETE FROM transfer_approvals`)
	b.Exec(`UPDATE transfers SET approved_at = now() WHERE id = $1`, p.ID)
	refused(`UPDATE transfers SET approved_at = NULL WHERE id = $1`, p.ID)
	refused(say, p.ID, uuid.New(), b.tenant, "reject") // it is decided
	b.Exec(submit, p.ID)
	other := b.settle("10.00")
	refused(say, other.ID, uuid.New(), b.tenant, "approve") // it needs none
}

// Whoever is removed and invited again has another id and is the same person: who neither approves
// twice, nor what was asked for under the first id.
func TestAPersonApprovesOnce(t *testing.T) {
	b := setup(t)
	first, second := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	const join = `INSERT INTO members (id, tenant_id, email, name, role, password_hash, invited_at, joined_at, removed_at)
		VALUES ($1, $2, 'ada@shop.example', 'Ada', 'finance', $3, now(), now(), $4)`
	b.Exec(join, first, b.tenant, nil, b.Clock.Now())
	b.Exec(join, second, b.tenant, "hash", nil)
	b.Exec(join, uuid.Must(uuid.NewV7()), b.Tenant(), nil, b.Clock.Now()) // of another tenant
	const say = `INSERT INTO transfer_approvals (transfer_id, member_id, tenant_id, decision, decided_at) VALUES ($1, $2, $3, 'approve', now())`

	p := b.waiting(2)
	_, err := b.decide(p, first, transfer.Approve)
	require.NoError(t, err)
	a, err := b.decide(p, second, transfer.Approve)
	require.NoError(t, err, "said already")
	require.Len(t, a.Decisions, 1)
	_, err = b.decide(p, second, transfer.Reject)
	require.ErrorIs(t, err, transfer.ErrDecided)
	_, err = b.Pool.Exec(b.ctx, say, p.ID, second, b.tenant)
	require.ErrorContains(t, err, "23514")
	a, err = b.decide(p, uuid.New(), transfer.Approve)
	require.NoError(t, err)
	require.Nil(t, a.Awaiting)

	o := order("60.00")
	o.Maker = transfer.Maker{Member: first, By: checker}
	b.fund("100.00")
	s, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, idempotency.Request{})
	require.NoError(t, err)
	p = b.get(accepted(t, s).MerchantTxRef)
	_, err = b.decide(p, second, transfer.Approve)
	require.ErrorIs(t, err, transfer.ErrOwnTransfer)
	_, err = b.Pool.Exec(b.ctx, say, p.ID, second, b.tenant)
	require.ErrorContains(t, err, "23514")
}

// What awaits approval is listed by that, with any other filter.
func TestListOfWhatAwaits(t *testing.T) {
	b := setup(t)
	p := b.waiting(1)
	b.settle("10.00")
	refs := func(f transfer.Filter) (out []string) {
		t.Helper()
		list, _, err := b.svc.List(b.ctx, b.tenant, f, page.Request{Limit: 10})
		require.NoError(t, err)
		for _, l := range list {
			out = append(out, l.MerchantTxRef)
		}
		return out
	}
	require.Equal(t, []string{p.MerchantTxRef}, refs(transfer.Filter{Awaiting: "approval"}))
	require.Len(t, refs(transfer.Filter{Status: transfer.Pending}), 2)
	require.Empty(t, refs(transfer.Filter{Awaiting: "approval", Search: strings.Repeat("x", 5)}))
	b.approve(p)
	require.Empty(t, refs(transfer.Filter{Awaiting: "approval"}))
	_, _, err := b.svc.List(b.ctx, b.tenant, transfer.Filter{Awaiting: "rain"}, page.Request{Limit: 10})
	require.ErrorIs(t, err, transfer.ErrAwaiting)
}

// Freezes, suspensions and missing cover hold an approved payout as they hold any other, and
// approvals may be given meanwhile.
func TestApprovedAndHeldBack(t *testing.T) {
	for name, begin := range stops {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			p := b.waiting(1)
			goOn := begin(b)
			b.approve(p)
			b.step(p)
			require.Zero(t, b.bank.Calls(lookupCall)+b.bank.Calls(payCall))
			goOn()
			require.Equal(t, transfer.Success, b.run(p).Status)
		})
	}
	t.Run("cover", func(t *testing.T) {
		b := setup(t)
		credit := b.credit("100.00")
		b.policy(1, "50.00", "")
		p := b.settle("60.00")
		b.Clock.Advance(10 * time.Hour)
		b.approve(p)
		at := b.step(p)
		require.LessOrEqual(t, at.Sub(b.Clock.Now()), 5*time.Second, "its schedule begins with the approval")
		b.MoveCredit(credit, ledger.EventConfirm)
		require.Equal(t, transfer.Success, b.run(p).Status)
	})
}

// What awaits approval is counted by tenant.
func TestWhatAwaitsIsTheTenantsOwn(t *testing.T) {
	b := setup(t)
	tenant, account := b.tenant, b.account
	b.tenant = b.Env.Tenant()
	b.account = b.Account(b.tenant, "shop")
	b.waiting(1)
	b.tenant, b.account = tenant, account
	for range 2 {
		b.waiting(1)
		b.settle("10.00") // below the threshold
	}
	got, err := b.svc.AwaitingApproval(b.ctx, tenant)
	require.NoError(t, err)
	require.Equal(t, transfer.Awaiting{Count: 2, Amount: money.Must("120.00")}, got)
}
