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
// of the service has; what names another thing beside it changes nothing, and nothing that another
// payment of the batch says.
func TestMatchingPayments(t *testing.T) {
	t.Parallel()
	b := setup(t)
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
	)
	require.Equal(t, []uuid.UUID{id, second, ref, ref, uuid.Nil, uuid.Nil, uuid.Nil, uuid.Nil}, ids)
	require.Equal(t, []bool{false, false, false, false, true, false, false, false}, ambiguous)
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
