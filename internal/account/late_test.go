package account_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// held is a bank whose calls wait after they were made, until the test lets them answer, with an
// error or none.
type held struct {
	provider.Bank
	there  chan struct{}
	answer chan error
}

func newHeld(b provider.Bank) *held {
	return &held{Bank: b, there: make(chan struct{}), answer: make(chan error)}
}

func (h *held) CreateAccount(ctx context.Context, a provider.NewAccount) (provider.Account, error) {
	got, err := h.Bank.CreateAccount(ctx, a)
	h.there <- struct{}{}
	return got, errors.Join(err, <-h.answer)
}

func (h *held) CloseAccount(ctx context.Context, ref string) error {
	err := h.Bank.CloseAccount(ctx, ref)
	h.there <- struct{}{}
	return errors.Join(err, <-h.answer)
}

// beginning has another process do something until its call has reached the bank, which holds the
// answer back.
func (b *bundle) beginning(do func(*account.Service) error) (*held, chan error) {
	bank, done := newHeld(b.svc.Bank), make(chan error, 1)
	svc := account.New(account.Options{Pool: b.Pool, Bank: bank, Box: b.box, Clock: b.Clock})
	go func() { done <- do(svc) }()
	<-bank.there
	return bank, done
}

// opening provisions customer-1.
func (b *bundle) opening(svc *account.Service) error {
	_, err := svc.Provision(b.ctx, b.tenant, dedicated("customer-1"), idempotency.Request{})
	return err
}

// Of many callers who wait for one reference, one asks the database for all: they would take all
// its connections.
func TestOneWaiterAsksForAll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	type caller struct{}
	var mu sync.Mutex
	asked := map[any]int{}
	bank := newHeld(b.svc.Bank)
	svc := account.New(account.Options{Pool: b.Pool, Bank: bank, Box: b.box, Clock: b.Clock, EnsureSecret: func(ctx context.Context, _ pg.Tx, _ uuid.UUID) error {
		mu.Lock()
		defer mu.Unlock()
		asked[ctx.Value(caller{})]++
		return nil
	}})
	in := dedicated("customer-1")
	in.CallbackURL = new("https://shop.example/hook")
	const callers = 9
	ids := make(chan uuid.UUID, callers)
	for i := range callers {
		go func() {
			a, err := svc.Provision(context.WithValue(b.ctx, caller{}, i), b.tenant, in, idempotency.Request{})
			if err != nil {
				t.Error(err)
			}
			ids <- a.ID
		}()
		if i == 0 {
			<-bank.there
		}
	}
	more := func() (again, most int) {
		for _, n := range asked {
			if n > 1 {
				again++
			}
			most = max(most, n)
		}
		return again, most
	}
	testenv.Eventually(t, time.Minute, "all wait, and it was asked again and again", func() bool {
		mu.Lock()
		defer mu.Unlock()
		_, most := more()
		return len(asked) == callers && most > 3
	})
	mu.Lock()
	again, _ := more()
	mu.Unlock()
	require.Equal(t, 1, again, "callers who ask again")
	bank.answer <- nil
	first := <-ids
	for range callers - 1 {
		require.Equal(t, first, <-ids)
	}
}

// A caller whose lease has run out at the bank finishes late, well or badly: what it does changes
// nothing for the one that has the row by then, who finishes.
func TestLateFinisherOfProvisioning(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"with a number": nil, "with a failure": errors.New("too late")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			row := func() string {
				return testenv.Value[string](b.Env, `SELECT status || ' ' || coalesce(leased_until::text, 'free') || ' ' || last_error FROM accounts WHERE tenant_id = $1`, b.tenant)
			}
			first, firstDone := b.beginning(b.opening)
			b.Clock.Advance(time.Minute)
			second, secondDone := b.beginning(b.opening)
			before := row()
			require.Contains(t, before, "provisioning 20")
			first.answer <- answer
			want := account.ErrBusy
			if answer != nil {
				want = account.ErrProvider
			}
			require.ErrorIs(t, <-firstDone, want)
			require.Equal(t, before, row(), "the row is the second one's")
			second.answer <- nil
			require.NoError(t, <-secondDone)
			require.Equal(t, "active free ", row())
			require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM account_history h JOIN accounts a ON a.id = h.account_id AND a.tenant_id = $1`, b.tenant))
		})
	}
}

// What the bank has under the reference may be closed by now, as after a close by the bank itself:
// nobody could pay in, so nobody gets its number.
func TestAccountThatTheBankHasClosed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	bank, done := b.beginning(b.opening)
	bank.answer <- errors.New("the answer was lost")
	require.ErrorIs(t, <-done, account.ErrProvider)
	id := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM accounts WHERE tenant_id = $1`, b.tenant)
	require.NoError(t, b.svc.Bank.CloseAccount(b.ctx, id.String()))

	_, err := b.svc.Provision(b.ctx, b.tenant, dedicated("customer-1"), idempotency.Request{})
	require.ErrorIs(t, err, account.ErrProvider)
	require.Equal(t, "provisioning the bank has the account, but it is closed there",
		testenv.Value[string](b.Env, `SELECT status || ' ' || last_error FROM accounts WHERE tenant_id = $1`, b.tenant))

	_, err = account.CloseByHand(b.ctx, b.Pool, b.Clock.Now(), id, byHand)
	require.NoError(t, err)
	require.Equal(t, account.Active, b.provision(dedicated("customer-1")).Status, "the reference is free again")
}

// The same of the close at the bank.
func TestLateFinisherOfAClose(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"closed": nil, "with a failure": errors.New("too late")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			a := b.provision(dedicated("customer-1"))
			_, err := b.svc.Expire(b.ctx, b.tenant, "customer-1", account.Ending{Reason: "requested by the tenant"}, idempotency.Request{})
			require.NoError(t, err)
			closing := func(svc *account.Service) error { return svc.AdvanceExpiry(b.ctx, a.ID) }
			row := func() string {
				return testenv.Value[string](b.Env, `
					SELECT concat_ws(' ', attempt_count, due_at, w.leased_until, version, closed_at, a.last_error) FROM accounts a LEFT JOIN work w ON w.id = a.id WHERE a.tenant_id = $1`, b.tenant)
			}
			first, firstDone := b.beginning(closing)
			b.Clock.Advance(time.Minute)
			second, secondDone := b.beginning(closing)
			before := row()
			first.answer <- answer
			require.Equal(t, answer != nil, <-firstDone != nil)
			require.Equal(t, before, row(), "the row is the second one's")
			second.answer <- nil
			require.NoError(t, <-secondDone)
			require.True(t, testenv.Value[bool](b.Env, `SELECT closed_at IS NOT NULL FROM accounts WHERE tenant_id = $1`, b.tenant))
			require.Nil(t, b.DueAt(work.Expire, a.ID))
		})
	}
}

// A one-time row that the bank did not answer for is taken up by a request for the very same
// account only: one with another expected amount or another end has a row of its own.
func TestStaleOneTimeRowIsTakenUpByItsLikeOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := func(h time.Duration) *time.Time { t := b.Clock.Now().Add(h).Truncate(time.Microsecond); return &t }
	amount := func(s string) *money.Amount { a := money.Must(s); return &a }
	end := at(time.Hour)
	kinds := []account.NewAccount{}
	for _, expected := range []*money.Amount{nil, amount("5000.00"), amount("7000.00")} {
		for _, expires := range []*time.Time{nil, end, at(2 * time.Hour)} {
			in := onetime("order-1")
			in.ExpectedAmount, in.ExpiresAt = expected, expires
			kinds = append(kinds, in)
		}
	}
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	stale := map[uuid.UUID]bool{}
	for _, in := range kinds {
		_, err := b.svc.Provision(b.ctx, b.tenant, in, idempotency.Request{})
		require.ErrorIs(t, err, account.ErrProvider)
		id := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM accounts WHERE tenant_id = $1 ORDER BY id DESC LIMIT 1`, b.tenant)
		require.False(t, stale[id], "it took up another's row")
		stale[id] = true
	}
	b.bank.Faults.Clear()
	for _, in := range kinds {
		a := b.provision(in)
		require.True(t, stale[a.ID], "it did not take up its own")
		delete(stale, a.ID)
		require.Equal(t, in.ExpiresAt == nil, a.ExpiresAt == nil)
		require.Equal(t, in.ExpectedAmount == nil, a.ExpectedAmount == nil)
		if in.ExpectedAmount != nil {
			require.True(t, in.ExpectedAmount.Equal(a.ExpectedAmount.Amount))
		}
		if in.ExpiresAt != nil {
			require.True(t, in.ExpiresAt.Equal(*a.ExpiresAt))
		}
	}
	require.Empty(t, stale)
	fresh := b.provision(kinds[0])
	require.Equal(t, len(kinds)+1, testenv.Value[int](b.Env, `SELECT count(*) FROM accounts WHERE tenant_id = $1`, b.tenant), fresh.ID)
}

// A one-time row that another request has leased is left to it: one that asks for the like gets an
// account of its own meanwhile, at once. From the end of the lease on the row is taken up.
func TestLeasedOneTimeRowIsLeftToItsRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	_, err := b.svc.Provision(b.ctx, b.tenant, onetime("order-1"), idempotency.Request{})
	require.ErrorIs(t, err, account.ErrProvider)
	b.bank.Faults.Clear()
	leased, until := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM accounts WHERE tenant_id = $1`, b.tenant), b.Clock.Now().Add(time.Minute)
	b.Exec(`UPDATE accounts SET leased_until = $2 WHERE tenant_id = $1`, b.tenant, until)
	b.Clock.Set(until.Add(-time.Microsecond))
	ctx, end := context.WithTimeout(b.ctx, time.Minute)
	defer end()
	own, err := b.svc.Provision(ctx, b.tenant, onetime("order-1"), idempotency.Request{})
	require.NoError(t, err)
	require.NotEqual(t, leased, own.ID)
	b.Clock.Set(until)
	require.Equal(t, leased, b.provision(onetime("order-1")).ID)
}

// A path's reference goes before another account's id, be the account of that reference expired or
// not.
func TestReferenceThatIsAnotherAccountsID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.provision(dedicated("customer-1"))
	named := b.provision(dedicated(a.ID.String()))
	find := func(ref string) uuid.UUID {
		t.Helper()
		got, err := b.svc.Get(b.ctx, b.tenant, ref)
		require.NoError(t, err)
		return got.ID
	}
	require.Equal(t, named.ID, find(a.ID.String()))
	require.Equal(t, a.ID, find("customer-1"))
	require.Equal(t, named.ID, find(named.ID.String()))
	_, err := b.svc.Expire(b.ctx, b.tenant, named.ID.String(), account.Ending{Reason: "requested by the tenant"}, idempotency.Request{})
	require.NoError(t, err)
	require.Equal(t, named.ID, find(a.ID.String()), "expired, it still goes before the id of an active one")
}

// However an account ends, UpdatedAt is the moment of it, and what the account is named and created
// as stays.
func TestUpdatedAtAfterExpiry(t *testing.T) {
	t.Parallel()
	for name, expire := range map[string]func(b *bundle, a account.Account){
		"at the tenant's word": func(b *bundle, a account.Account) {
			got, err := b.svc.Expire(b.ctx, b.tenant, a.ID.String(), account.Ending{Reason: "requested by the tenant"}, idempotency.Request{})
			require.NoError(b.T, err)
			require.Contains(b.T, string(got.Answer.Body), `"UpdatedAt":"`+b.Clock.Now().Format(time.RFC3339Nano)+`"`)
		},
		"at its deadline": func(b *bundle, a account.Account) {
			b.Clock.Set(a.ExpiresAt.Add(time.Minute))
			require.NoError(b.T, b.svc.AdvanceExpiry(b.ctx, a.ID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			in, deadline := onetime("order-1"), b.Clock.Now().Add(time.Hour)
			in.ExpiresAt = &deadline
			a := b.provision(in)
			b.Clock.Advance(time.Minute)
			expire(b, a)
			got, err := b.svc.Get(b.ctx, b.tenant, a.ID.String())
			require.NoError(t, err)
			want := a
			want.Status, want.UpdatedAt = account.Expired, b.Clock.Now()
			require.Equal(t, want, got)
		})
	}
}

// An opening that was given up at the bank is finished after all while the next caller waits for
// its row: that caller has the account, and the bank is not called for it.
func TestFinishedWhileTheNextCallerWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	_, err := b.svc.Provision(b.ctx, b.tenant, dedicated("customer-1"), idempotency.Request{})
	require.ErrorIs(t, err, account.ErrProvider)
	b.bank.Faults.SetDown(fakebank.Up)
	var got account.Provisioned
	require.NoError(t, b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `UPDATE accounts SET status = 'active', bank_account_number = '9000000001', bank_name = 'Nombank', leased_until = NULL WHERE tenant_id = $1`, b.tenant)
		return err
	}, func() (err error) {
		got, err = b.svc.Provision(b.ctx, b.tenant, dedicated("customer-1"), idempotency.Request{})
		return err
	}))
	require.Equal(t, "9000000001", got.BankAccountNumber)
	require.Empty(t, b.bank.Accounts())
	require.True(t, testenv.Value[bool](b.Env, `SELECT leased_until IS NULL FROM accounts WHERE tenant_id = $1`, b.tenant))
}

// The deadline of the account that has a number is put off just when the bank issues the number
// again: the account is active again, and keeps it.
func TestNumberOfAnAccountWhoseDeadlineIsPutOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in, deadline := onetime("order-1"), b.Clock.Now().Add(time.Hour)
	in.ExpiresAt = &deadline
	old := b.provision(in)
	b.Clock.Set(deadline.Add(time.Minute))
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Reissue, Value: old.BankAccountNumber})
	require.ErrorContains(t, b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `UPDATE accounts SET expires_at = $2 WHERE id = $1`, old.ID, deadline.Add(time.Hour))
		return err
	}, func() error {
		_, err := b.svc.Provision(b.ctx, b.tenant, dedicated("customer-1"), idempotency.Request{})
		return err
	}), "which an active account has")
}

// What the bank says of a close is recorded under the account's lock, which is taken before that of
// its work item: who has the account can have the item.
func TestCloseIsRecordedUnderTheAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.expired("customer-1")
	bank, ended := b.beginning(func(svc *account.Service) error { return svc.AdvanceExpiry(b.ctx, id) })
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(b.ctx, `SELECT FROM accounts WHERE id = $1 FOR NO KEY UPDATE`, id); err != nil {
			return err
		}
		bank.answer <- nil
		testenv.Eventually(t, time.Minute, "the record to wait for the account", func() bool { return b.LockWaits() > 0 })
		_, err := tx.Exec(b.ctx, `SELECT FROM work WHERE id = $1 FOR UPDATE NOWAIT`, id)
		return err
	}))
	require.NoError(t, <-ended)
	require.True(t, testenv.Value[bool](b.Env, `SELECT closed_at IS NOT NULL FROM accounts WHERE id = $1`, id))
}
