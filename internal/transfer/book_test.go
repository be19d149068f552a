package transfer_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/freeze"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

func (b *bundle) accounts() *account.Service {
	return account.New(account.Options{Pool: b.Pool, Clock: b.Clock})
}

// book moves money between two accounts of the tenant under a key, or without one.
func (b *bundle) book(key, from, to, amount string) (account.BookTransfer, bool, error) {
	b.T.Helper()
	o := account.BookOrder{ToAccountRef: to, Amount: amount, Narration: "change"}
	body, err := json.Marshal(o)
	require.NoError(b.T, err)
	request, err := idempotency.NewRequest(b.tenant, key, "POST", "/v1/accounts/"+from+"/transfer", body)
	require.NoError(b.T, err)
	r, err := b.accounts().Transfer(b.ctx, b.tenant, from, o, request)
	var done account.BookTransfer
	if err == nil {
		require.Equal(b.T, 201, r.Answer.Status)
		require.NoError(b.T, json.Unmarshal(r.Answer.Body, &done))
	}
	return done, r.Replayed, err
}

// on is the bundle with another account of the tenant in the place of its own.
func (b *bundle) on(id uuid.UUID) *bundle {
	other := *b
	other.account = id
	return &other
}

func TestBookTransferMovesAvailableMoney(t *testing.T) {
	b := setup(t)
	till := b.on(b.Account(b.tenant, "till"))
	b.fund("100.00")
	b.credit("50.00") // not confirmed
	recalled := b.credit("30.00")
	b.MoveCredit(recalled, ledger.EventConfirm)
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		_, err := ledger.HoldRecalled(b.ctx, tx, b.Clock.Now(), []uuid.UUID{recalled})
		return err
	}))
	require.Equal(t, "100.00", b.shown(false).Available.String())
	_, _, err := b.book("", "shop", "till", "100.01")
	require.ErrorIs(t, err, ledger.ErrInsufficientFunds)

	done, replayed, err := b.book("k", "shop", "till", "60.00")
	require.NoError(t, err)
	require.False(t, replayed)
	again, replayed, err := b.book("k", "shop", "till", "60.00")
	require.NoError(t, err)
	require.True(t, replayed)
	require.Equal(t, done, again)
	require.Equal(t, []string{"shop", "till", "60.00", "NGN", "change"}, []string{done.FromAccountRef, done.ToAccountRef, done.Amount.String(), done.Currency, done.Narration})
	b.money("120.00", "credit 100.00 confirmed", "credit 50.00 provisional", "credit 30.00 confirmed", "debit 60.00 confirmed")
	till.money("60.00", "credit 60.00 confirmed")
	for id, want := range map[uuid.UUID]ledger.Direction{done.DebitEntryID: ledger.Debit, done.CreditEntryID: ledger.Credit} {
		var kind, group, direction string
		require.NoError(t, b.Pool.QueryRow(b.ctx, `SELECT kind, transaction_group_id, direction FROM ledger_entries WHERE id = $1`, id).Scan(&kind, &group, &direction))
		require.Equal(t, []string{"book_transfer", done.ID.String(), string(want)}, []string{kind, group, direction})
	}

	// What has come covers a settlement at once, and what has gone none.
	p := b.settle("50.00")
	_ = b.svc.Advance(b.ctx, p.ID)
	require.Equal(t, transfer.Pending, b.get(p.MerchantTxRef).Status, "40.00 are confirmed")
	_, _, err = b.book("", "till", b.account.String(), "10.00")
	require.NoError(t, err)
	require.False(t, b.DueAt(work.Settle, p.ID).After(b.Clock.Now()), "money that came lets it go on at once")
	require.Equal(t, transfer.Success, b.run(p).Status)
	_, _, err = b.book("", "shop", "till", "0.01")
	require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
}

func TestBookTransferRefusals(t *testing.T) {
	b := setup(t)
	b.Account(b.tenant, "till")
	b.fund("100.00")
	old := b.Account(b.tenant, "old")
	_, err := b.Pool.Exec(b.ctx, `UPDATE accounts SET status = 'expired', expired_at = $2 WHERE id = $1`, old, b.Clock.Now())
	require.NoError(t, err)
	foreign := b.Account(b.Tenant(), "foreign")
	for _, c := range []struct {
		from, to, amount string
		want             error
	}{
		{"shop", "till", "0.00", account.ErrAmount},
		{"shop", "till", "-1.00", account.ErrAmount},
		{"shop", "till", "1.001", account.ErrAmount},
		{"shop", "till", "", account.ErrAmount},
		{"shop", " ", "1.00", account.ErrBookTo},
		{"none", "till", "1.00", account.ErrNotFound},
		{"shop", "none", "1.00", account.ErrBookNotFound},
		{"shop", foreign.String(), "1.00", account.ErrBookNotFound},
		{foreign.String(), "till", "1.00", account.ErrNotFound},
		{"shop", "shop", "1.00", account.ErrBookSame},
		{"shop", b.account.String(), "1.00", account.ErrBookSame},
		{"shop", "old", "1.00", account.ErrBookNotActive},
		{"till", "shop", "0.01", ledger.ErrInsufficientFunds},
	} {
		_, _, err := b.book("refused", c.from, c.to, c.amount)
		require.ErrorIs(t, err, c.want, "%+v", c)
	}
	b.money("100.00", "credit 100.00 confirmed")
	_, _, err = b.book("refused", "shop", "till", "1.00")
	require.NoError(t, err, "a refusal keeps no answer")
	_, _, err = b.book("refused", "shop", "till", "2.00")
	require.ErrorIs(t, err, idempotency.ErrReused)
}

// A freeze of an account lets nothing leave it, by a book transfer neither; other freezes are of
// what leaves the bank.
func TestBookTransferUnderAFreeze(t *testing.T) {
	b := setup(t)
	till := b.Account(b.tenant, "till")
	b.fund("100.00")
	for _, c := range []struct {
		freeze freeze.New
		want   error
	}{
		{freeze.New{Scope: freeze.Account, Subject: b.account}, account.ErrFrozen},
		{freeze.New{Scope: freeze.Account, Subject: b.account, Requests: true}, account.ErrFrozen},
		{freeze.New{Scope: freeze.Account, Subject: till}, nil},
		{freeze.New{Scope: freeze.Account, Subject: till, Requests: true}, account.ErrFrozen},
		{freeze.New{Scope: freeze.Tenant, Subject: b.tenant}, nil},
		{freeze.New{Scope: freeze.Payouts}, nil},
	} {
		lift := b.freeze(c.freeze)
		_, _, err := b.book("", "shop", "till", "1.00")
		require.ErrorIs(t, err, c.want, "%+v", c.freeze)
		lift()
		_, _, err = b.book("", "shop", "till", "1.00")
		require.NoError(t, err)
	}
}

// Eight calls with one key move the money once.
func TestBookTransferTwiceAtOnce(t *testing.T) {
	b := setup(t)
	b.Account(b.tenant, "till")
	b.fund("100.00")
	atOnce(t, func() (uuid.UUID, error) {
		done, _, err := b.book("once", "shop", "till", "60.00")
		return done.ID, err
	})
	b.money("40.00", "credit 100.00 confirmed", "debit 60.00 confirmed")
}

// atOnce does something eight times at once under one key: it is done once, and whoever has an
// answer has that of the one.
func atOnce[T any](t *testing.T, do func() (T, error)) {
	t.Helper()
	var wg sync.WaitGroup
	answers := make(chan T, 8)
	for range 8 {
		wg.Go(func() {
			answer, err := do()
			if !errors.Is(err, idempotency.ErrRunning) {
				require.NoError(t, err)
				answers <- answer
			}
		})
	}
	wg.Wait()
	close(answers)
	first := <-answers
	for answer := range answers {
		require.Equal(t, first, answer)
	}
}

// Book transfers in all directions beside settlements: nothing waits for ever, no account is ever
// below zero, and what all accounts have together is what came less what was settled.
func TestBookTransfersBesideSettlements(t *testing.T) {
	b := setup(t)
	refs := []string{"shop", "till", "safe"}
	ids := []uuid.UUID{b.account, b.Account(b.tenant, "till"), b.Account(b.tenant, "safe")}
	for _, id := range ids {
		b.on(id).fund("200.00")
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	left, moved, refused := money.Must("600.00"), 0, 0
	for worker := range 10 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(16, uint64(worker)))
			for range 25 {
				from := rng.IntN(len(refs))
				amount := money.FromKobo(1 + rng.Int64N(90_00))
				var err error
				settled := rng.IntN(3) == 0
				if settled {
					_, err = b.svc.Settle(b.ctx, b.tenant, refs[from], order(amount.String()), idempotency.Request{})
				} else {
					_, _, err = b.book("", refs[from], refs[(from+1+rng.IntN(2))%3], amount.String())
				}
				mu.Lock()
				switch {
				case errors.Is(err, ledger.ErrInsufficientFunds):
					refused++
				case err != nil:
					t.Error(err)
				case settled:
					left = left.Sub(amount)
				default:
					moved++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.NotZero(t, moved)
	require.NotZero(t, refused)
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
	var sum, lowest money.Amount
	require.NoError(t, b.Pool.QueryRow(b.ctx, `
		SELECT (SELECT sum(balance) FROM ledger_balances WHERE tenant_id = $1), (SELECT min(running_balance) FROM ledger_entries WHERE tenant_id = $1)`, b.tenant).
		Scan(&sum, &lowest))
	require.Equal(t, left.String(), sum.String())
	require.GreaterOrEqual(t, lowest.Sign(), 0)
}

// A freeze of an account, and the end of the other one, that come while a book transfer waits for
// the balance stop it; and a freeze has not begun before what moves the account's money has ended.
func TestBookTransferBesideAFreeze(t *testing.T) {
	b := setup(t)
	till := b.Account(b.tenant, "till")
	b.fund("100.00")
	locked := func(sql string, args ...any) func(pg.Tx) error {
		return func(tx pg.Tx) error {
			_, err := tx.Exec(b.ctx, `SELECT FROM ledger_balances WHERE account_id = $1 FOR NO KEY UPDATE`, b.account)
			if err == nil && sql != "" {
				_, err = tx.Exec(b.ctx, sql, args...)
			}
			return err
		}
	}
	move := func() error {
		_, _, err := b.book("", "shop", "till", "60.00")
		return err
	}
	require.ErrorIs(t, b.Meanwhile(locked(`
		INSERT INTO freezes (id, scope, subject, tenant_id, requests, reason, actor, created_at) VALUES ($1, 'account', $2, $3, false, 'fraud', 'cli:ada', $4)`,
		uuid.New(), b.account, b.tenant, b.Clock.Now()), move), account.ErrFrozen)
	b.Exec(`UPDATE freezes SET lifted_at = $1`, b.Clock.Now())
	require.ErrorIs(t, b.Meanwhile(locked(`UPDATE accounts SET status = 'expired', expired_at = $2 WHERE id = $1`, till, b.Clock.Now()), move), account.ErrBookNotActive)
	require.NoError(t, b.Meanwhile(locked(""), func() error {
		_, err := b.freezes().Begin(b.ctx, freeze.New{Scope: freeze.Account, Subject: b.account}, stop)
		return err
	}))
	b.money("100.00", "credit 100.00 confirmed")
}
