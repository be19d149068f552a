package account_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/idempotency"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// A hold's reason and end are checked to the character and the microsecond; under the key of one
// that was placed the first answer comes again, even after its end.
func TestBoundsOfAHold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.Account(b.tenant, "shop")
	b.MoveCredit(b.Credit(id, "10.00"), ledger.EventConfirm)
	now := b.Clock.Now()
	place := func(reason string, until *time.Time, key string) (idempotency.Result, error) {
		return b.svc.PlaceHold(b.ctx, b.tenant, "shop", account.NewHold{Amount: "1.00", Reason: reason, Until: until}, b.keyed(key, reason))
	}
	later := now.Add(time.Microsecond)
	for want, c := range map[string]struct {
		reason string
		until  *time.Time
	}{
		"reason is required": {reason: " \t"},
		"reason must be at most 140 characters, without control characters": {reason: strings.Repeat("é", 141)},
		"reason must be at most 140 characters, without control character":  {reason: "two\nlines"},
		"until must be in the future":                                       {reason: "x", until: &now},
	} {
		_, err := place(c.reason, c.until, "")
		require.ErrorContains(t, err, want)
		require.Equal(t, errs.Invalid, errs.KindOf(err))
	}
	first, err := place(strings.Repeat("é", 140), &later, "k")
	require.NoError(t, err)
	require.False(t, first.Replayed)
	b.Clock.Set(later)
	again, err := place(strings.Repeat("é", 140), &later, "k")
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Answer, again.Answer)
	_, err = place("x", nil, "another")
	require.NoError(t, err)
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM holds WHERE account_id = $1`, id))
}

// What a member places is in the audit log, and so is each release, by a key too; a hold is
// released by its own tenant, and changes nothing of another's.
func TestWhoHoldsAndReleases(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.Account(b.tenant, "shop")
	b.MoveCredit(b.Credit(id, "10.00"), ledger.EventConfirm)
	hold := func(by *audit.By) uuid.UUID {
		t.Helper()
		_, err := b.svc.PlaceHold(b.ctx, b.tenant, "shop", account.NewHold{Amount: "1.00", Reason: "a deposit", By: by}, idempotency.Request{})
		require.NoError(t, err)
		return testenv.Value[uuid.UUID](b.Env, `SELECT id FROM holds WHERE account_id = $1 ORDER BY id DESC LIMIT 1`, id)
	}
	logged := func() string {
		return testenv.Value[string](b.Env, `SELECT coalesce(string_agg(action, ' ' ORDER BY id), '') FROM audit_log WHERE tenant_id = $1`, b.tenant)
	}
	key := audit.Key(uuid.New(), netip.Addr{})
	byKey, byMember, byOperator := hold(nil), hold(&byHand), hold(nil)
	require.Equal(t, "hold.place", logged())
	_, err := b.svc.ReleaseHold(b.ctx, b.Tenant(), byKey, key, idempotency.Request{})
	require.ErrorIs(t, err, ledger.ErrHoldNotFound)
	_, err = b.svc.Hold(b.ctx, b.Tenant(), byKey)
	require.ErrorIs(t, err, ledger.ErrHoldNotFound)
	_, err = b.svc.ReleaseHold(b.ctx, b.tenant, byKey, key, idempotency.Request{})
	require.NoError(t, err)
	require.Equal(t, "hold.place hold.release", logged())
	_, err = b.svc.ReleaseHold(b.ctx, b.tenant, byMember, byHand, idempotency.Request{})
	require.NoError(t, err)
	require.Equal(t, "hold.place hold.release hold.release", logged())
	_, err = account.ReleaseHoldByHand(b.ctx, b.Pool, b.Clock.Now(), byOperator, byHand)
	require.NoError(t, err)
	require.Equal(t, byHand.Reason, testenv.Value[string](b.Env, `SELECT reason FROM audit_log WHERE action = 'accounts.release' AND target = $1`, "account:"+id.String()))
	funds, err := b.svc.Balance(b.ctx, b.tenant, "shop")
	require.NoError(t, err)
	require.Equal(t, "10.00", funds.Available.String())
}

// A book transfer goes between two accounts of the tenant, of which the one that gets it is active
// and neither is frozen: the payer's by any freeze of it, the other one by a freeze of requests.
func TestWhoMayMoveMoneyBetweenAccounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	from, to := b.Account(b.tenant, "from"), b.Account(b.tenant, "to")
	b.MoveCredit(b.Credit(from, "10.00"), ledger.EventConfirm)
	b.expired("expired")
	give := func(ref string, o account.BookOrder) error {
		t.Helper()
		if o.Amount == "" {
			o.Amount = "1.00"
		}
		_, err := b.svc.Transfer(b.ctx, b.tenant, ref, o, idempotency.Request{})
		return err
	}
	order := account.BookOrder{ToAccountRef: "to"}
	for _, c := range []struct {
		ref  string
		o    account.BookOrder
		want error
	}{
		{"from", account.BookOrder{ToAccountRef: " "}, account.ErrBookTo},
		{"from", account.BookOrder{ToAccountRef: "to", Amount: "0.00"}, account.ErrAmount},
		{"from", account.BookOrder{ToAccountRef: "to", Narration: strings.Repeat("é", 141)}, account.ErrBookNarration},
		{"from", account.BookOrder{ToAccountRef: "to", Narration: "two\nlines"}, account.ErrBookNarration},
		{"from", account.BookOrder{ToAccountRef: "from"}, account.ErrBookSame},
		{"from", account.BookOrder{ToAccountRef: "expired"}, account.ErrBookNotActive},
		{"from", account.BookOrder{ToAccountRef: "customer-1"}, account.ErrBookNotFound},
		{"customer-1", order, account.ErrNotFound},
	} {
		require.ErrorIs(t, give(c.ref, c.o), c.want)
	}
	b.Touches(func() {
		require.NoError(t, give("from", account.BookOrder{ToAccountRef: "to", Narration: strings.Repeat("é", 140)}))
	}, from.String(), to.String(), "ledger_days (")
	freeze := func(scope string, subject, tenant any, requests bool) (lift func()) {
		id := uuid.New()
		b.Exec(`INSERT INTO freezes (id, scope, subject, tenant_id, requests, reason, actor, created_at) VALUES ($1, $2, $3, $4, $5, 'x', 'x', $6)`,
			id, scope, subject, tenant, requests, b.Clock.Now())
		return func() { b.Exec(`UPDATE freezes SET lifted_at = $2 WHERE id = $1`, id, b.Clock.Now()) }
	}
	for _, c := range []struct {
		scope    string
		subject  uuid.UUID
		requests bool
		want     error
	}{
		{"account", from, false, account.ErrFrozen},
		{"account", from, true, account.ErrFrozen},
		{"account", to, false, nil},
		{"account", to, true, account.ErrFrozen},
		{"tenant", b.tenant, false, nil},
		{"payouts", uuid.Nil, false, nil},
		{"account", testenv.Value[uuid.UUID](b.Env, `SELECT min(id::text)::uuid FROM accounts WHERE tenant_id <> $1`, b.tenant), true, nil},
	} {
		var tenant *uuid.UUID
		if c.scope != "payouts" {
			tenant = &b.tenant
		}
		lift := freeze(c.scope, c.subject, tenant, c.requests)
		require.ErrorIs(t, give("from", order), c.want, "%+v", c)
		lift()
	}
	require.NoError(t, give("from", order))
}
