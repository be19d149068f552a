package transfer_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/batch"
	"ajo/internal/idempotency"
	"ajo/internal/limit"
	"ajo/internal/pg"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// Whether an API key still holds is asked behind the locks, once for each key of a batch, if the
// requests have waited for them for 100 ms. Only the request of one that has ended is refused.
func TestKeysThatWaitedAreChecked(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	gone := errors.New("the key was revoked")
	checks := map[string]int{}
	ask := func(amount, actor string, ends error) transfer.Ask {
		a := b.ask(amount, "")
		a.Order.Maker = transfer.Maker{By: audit.By{Actor: actor}, Standing: func(context.Context, pg.Querier) error {
			checks[actor]++
			return ends
		}}
		return a
	}
	asks := []transfer.Ask{ask("1.00", "key:1", nil), ask("2.00", "key:1", nil), ask("40.00", "key:2", gone), ask("5.00", "key:3", nil)}
	for _, o := range b.svc.SettleTogether(b.ctx, asks[:2]) {
		require.NoError(t, o.Err)
	}
	require.Empty(t, checks, "it has waited for nobody")
	require.Equal(t, "997.00", b.balance())

	together := func(asks []transfer.Ask, waited time.Duration) (out []batch.Outcome[transfer.Settled]) {
		require.NoError(t, b.InOrder(func(tx pg.Tx) error {
			_, err := tx.Exec(b.ctx, `SELECT FROM ledger_balances WHERE account_id = $1 FOR UPDATE`, b.account)
			return err
		}, func(pg.Tx) error {
			b.Clock.Advance(waited)
			return nil
		}, func() error {
			out = b.svc.SettleTogether(b.ctx, asks)
			return nil
		}))
		return out
	}
	const long = 100 * time.Millisecond
	for waited, want := range map[time.Duration]int{long - time.Millisecond: 0, long: 1} {
		clear(checks)
		for _, o := range together(asks[:2], waited) {
			require.NoError(t, o.Err)
		}
		require.Equal(t, want, checks["key:1"], waited)
	}
	out := together(asks, long)
	for i, want := range []error{nil, nil, gone, nil} {
		require.ErrorIs(t, out[i].Err, want, "request %d", i)
	}
	require.Equal(t, "983.00", b.balance())
	require.Equal(t, 9, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers`))
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
}

// A member's session is asked about behind the locks always, and its line says who it was.
func TestMembersAreCheckedBehindTheLocks(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	gone, ends := errors.New("the session was ended"), false
	a := b.ask("40.00", "")
	a.Order.Maker = transfer.Maker{
		Member: uuid.New(),
		By: audit.Session("ada@shop.example", netip.MustParseAddr("198.51.100.7")).While(func(context.Context, pg.Querier) error {
			if ends {
				return gone
			}
			return nil
		}),
	}
	for _, ends = range []bool{false, true} {
		out := b.svc.SettleTogether(b.ctx, []transfer.Ask{a, b.ask("1.00", "")})
		require.NoError(t, out[1].Err)
		require.Equal(t, ends, errors.Is(out[0].Err, gone))
	}
	require.Equal(t, "958.00", b.balance())
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'transfer.settle'`))
}

// A change of what payouts are accepted by is answered when those that have read what held before
// are accepted.
func TestChangesWaitForPayoutsUnderWay(t *testing.T) {
	b := setup(t)
	exempted := func(b *bundle) transfer.Beneficiary {
		b.policy(1, "50.00", "")
		saved := b.save("0123456789", "Landlord")
		b.exempt(saved, true)
		return saved
	}
	for name, prepare := range map[string]func(b *bundle) (change func() error){
		"policy": func(b *bundle) func() error {
			tenants := tenant.New(tenant.Options{Pool: b.Pool, Clock: b.Clock, Log: b.log.Logger()})
			b.T.Cleanup(func() { _ = tenants.Close(b.ctx) })
			return func() error {
				_, err := tenants.SetPayoutPolicy(b.ctx, b.tenant, tenant.PayoutPolicy{Approvals: 1, Threshold: sum("50.00")}, stop)
				return err
			}
		},
		"end of an exemption": func(b *bundle) func() error {
			saved := exempted(b)
			return func() error {
				_, _, err := b.svc.ExemptBeneficiary(b.ctx, b.tenant, saved.ID, false, checker)
				return err
			}
		},
		"removal of a beneficiary": func(b *bundle) func() error {
			saved := exempted(b)
			return func() error {
				_, err := b.svc.RemoveBeneficiary(b.ctx, b.tenant, saved.ID, checker)
				return err
			}
		},
		"first limits": func(b *bundle) func() error {
			return func() error {
				_, err := b.limits().SetPayouts(b.ctx, b.tenant, time.Time{}, limit.Payouts{MaxTransfer: sum("50.00")}, stop)
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			own := b.anotherAccount(t)
			own.fund("100.00")
			change := prepare(own)
			lines := testenv.Value[int](own.Env, `SELECT count(*) FROM audit_log`)
			accepted := -1 // when the change was answered
			answered := make(chan error, 1)
			begun := func(pg.Tx) error {
				go func() {
					err := change()
					accepted = testenv.Value[int](own.Env, `SELECT count(*) FROM transfers WHERE tenant_id = $1`, own.tenant)
					answered <- err
				}()
				testenv.Eventually(t, time.Minute, "the change to be committed", func() bool {
					return testenv.Value[int](own.Env, `SELECT count(*) FROM audit_log`) == lines+1
				})
				return nil
			}
			require.NoError(t, own.InOrder(testenv.LocksBalance(own.account), begun, func() error {
				_, err := own.svc.Settle(own.ctx, own.tenant, "shop", order("60.00"), idempotency.Request{})
				return err
			}))
			require.NoError(t, <-answered)
			require.Equal(t, 1, accepted, "the payout that went by what held before was accepted when the change was answered")
		})
	}
}
