package account_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/pg"
)

// A payment's account is found by its id, then by its number, then by a reference that one account
// of the service has; what is still provisioned is found by none of them. What names another thing
// beside it changes nothing, and nothing that another payment of the batch says.
func TestMatchingPayments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	unfinished := b.named("unfinished", "Ada Obi", "1000000004")
	b.Exec(`ALTER TABLE accounts DISABLE TRIGGER USER`)
	b.Exec(`UPDATE accounts SET status = 'provisioning' WHERE id = $1`, unfinished)
	b.Exec(`ALTER TABLE accounts ENABLE TRIGGER USER`)
	id, second, ref := b.named("by-id", "Ada Obi", "1000000001"), b.named("by-number", "Ada Obi", "1000000002"), b.named("by-ref", "Ada Obi", "1000000003")
	now := b.Clock.Now()
	match := func(aliases ...account.Alias) (ids []uuid.UUID, ambiguous []bool) {
		t.Helper()
		require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			targets, several, err := account.Match(b.ctx, tx, aliases)
			if err != nil {
				return err
			}
			ids, ambiguous = make([]uuid.UUID, len(aliases)), several
			for i, target := range targets {
				if target != nil {
					ids[i] = target.ID
				}
			}
			return nil
		}))
		return ids, ambiguous
	}
	ids, ambiguous := match(
		account.Alias{Ref: id.String(), Number: "1000000002", At: now},
		account.Alias{Ref: "by-ref", Number: "1000000002", At: now},
		account.Alias{Ref: "by-ref", At: now},
		account.Alias{Ref: "by-ref", Number: "9999999999", At: now},
		account.Alias{Ref: "customer-1", At: now},
		account.Alias{Ref: "nobody", At: now},
		account.Alias{At: now},
		account.Alias{Ref: uuid.NewString(), At: now},
		account.Alias{Ref: unfinished.String(), At: now},
		account.Alias{Number: "1000000004", At: now},
		account.Alias{Ref: "unfinished", At: now},
	)
	require.Equal(t, []uuid.UUID{id, second, ref, ref}, ids[:4])
	require.Equal(t, make([]uuid.UUID, 7), ids[4:])
	require.Equal(t, []bool{false, false, false, false, true, false, false, false, false, false, false}, ambiguous)
}

// What is known of an account that was paid is its own tenant's: where its events go, limits and
// prices.
func TestWhatIsKnownOfPayees(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.Tenant()
	own, hers := b.Account(b.tenant, "shop"), b.Account(other, "shop")
	now := b.Clock.Now()
	b.Exec(`UPDATE tenants SET webhook_url = 'https://hers.example', event_log = true, listening_until = $2 WHERE id = $1`, other, now)
	b.Exec(`UPDATE tenants SET webhook_url = 'https://shop.example' WHERE id = $1`, b.tenant)
	b.Exec(`INSERT INTO tier_limits (tenant_id, tier, starts_at, max_deposit, created_at, actor, reason) VALUES ($1, 1, $2, 60, $2, 'x', 'x')`, other, now)
	b.Exec(`INSERT INTO prices (id, tenant_id, charged_on, percent, flat, minimum, valid_from, created_at, actor, reason)
		VALUES (gen_random_uuid(), $1, 'payout', 0, 1, 0, $2, $2::timestamptz - interval '1 hour', 'x', 'x')`, other, now)
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		targets, _, err := account.Match(b.ctx, tx, []account.Alias{{Ref: own.String(), At: now}, {Ref: hers.String(), At: now}})
		require.NoError(t, err)
		for i, want := range []account.Target{
			{ID: own, TenantID: b.tenant, CallbackURL: "https://shop.example"},
			{ID: hers, TenantID: other, CallbackURL: "https://hers.example", FanOut: true, ListeningUntil: &now, Tiered: true, Priced: true},
		} {
			got := targets[i]
			require.Equal(t, []any{want.ID, want.TenantID, want.CallbackURL, want.FanOut, want.ListeningUntil == nil, want.Tiered, want.Priced},
				[]any{got.ID, got.TenantID, got.CallbackURL, got.FanOut, got.ListeningUntil == nil, got.Tiered, got.Priced})
		}
		return nil
	}))
}

// A number that several accounts have had is that account's which had it when the payment was made;
// two open accounts of two banks with one number are told apart by nothing.
func TestMatchingANumberThatIsIssuedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	start := b.Clock.Now()
	var accounts []uuid.UUID
	for range 3 { // each an hour, with an hour between them; the last one is open
		id := b.named(uuid.NewString(), "Ada Obi", "1000000001")
		b.Clock.Advance(time.Hour)
		b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2, closed_at = $2 WHERE id = $1`, id, b.Clock.Now())
		accounts = append(accounts, id)
		b.Clock.Advance(time.Hour)
	}
	b.Exec(`ALTER TABLE accounts DISABLE TRIGGER USER`)
	b.Exec(`UPDATE accounts SET status = 'active', expired_at = NULL, closed_at = NULL WHERE id = $1`, accounts[2])
	first, second, open := accounts[0], accounts[1], accounts[2]
	moment := time.Microsecond
	match := func(at time.Duration) (id uuid.UUID, ambiguous bool) {
		t.Helper()
		require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			targets, several, err := account.Match(b.ctx, tx, []account.Alias{{Number: "1000000001", At: start.Add(at)}})
			if err == nil && targets[0] != nil {
				id, ambiguous = targets[0].ID, several[0]
			} else if err == nil {
				ambiguous = several[0]
			}
			return err
		}))
		return id, ambiguous
	}
	for _, c := range []struct {
		at   time.Duration
		want uuid.UUID
	}{
		{-moment, open},
		{0, first},
		{time.Hour, first},
		{time.Hour + moment, open},
		{2 * time.Hour, second},
		{3 * time.Hour, second},
		{3*time.Hour + moment, open},
		{4 * time.Hour, open},
		{9 * time.Hour, open},
	} {
		id, ambiguous := match(c.at)
		require.Equal(t, c.want, id, c.at)
		require.False(t, ambiguous)
	}
	b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2, closed_at = $2 WHERE id = $1`, open, start.Add(5*time.Hour))
	for at, want := range map[time.Duration]uuid.UUID{
		-moment: first, time.Hour + moment: first, 3*time.Hour + moment: second, 5 * time.Hour: open, 5*time.Hour + moment: open,
	} {
		id, _ := match(at)
		require.Equal(t, want, id, "none is open: %s", at)
	}
	other := b.Account(b.tenant, "other-bank")
	b.Exec(`UPDATE accounts SET status = 'active', expired_at = NULL, closed_at = NULL WHERE id = $1`, open)
	b.Exec(`UPDATE accounts SET provider = 'another', bank_account_number = '1000000001' WHERE id = $1`, other)
	id, ambiguous := match(9 * time.Hour)
	require.Equal(t, uuid.Nil, id)
	require.True(t, ambiguous)
}
