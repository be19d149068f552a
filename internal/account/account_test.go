package account_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

const createCall = "POST /v1/accounts/virtual"

type bundle struct {
	*testenv.Env
	ctx    context.Context
	bank   *fakebank.Bank
	svc    *account.Service
	box    *secret.Box
	tenant uuid.UUID
}

// setup has neighbours beside the test's own tenant: other tenants' accounts, older and newer ones,
// with the references that tests use, in each status, and with money.
func setup(t testing.TB) *bundle {
	b := alone(t)
	before := b.neighbours()
	b.tenant = b.Tenant()
	b.Untouched(before.String(), b.neighbours().String())
	return b
}

// neighbours are another tenant's accounts, whose rows no test changes.
func (b *bundle) neighbours() (tenant uuid.UUID) {
	b.T.Helper()
	tenant = b.Tenant()
	b.Credit(b.Account(tenant, "customer-1"), "7.00")
	b.Exec(`UPDATE accounts SET type = 'onetime', status = 'expired', expired_at = $2 WHERE id = $1`, b.Account(tenant, "order-1"), b.Clock.Now())
	b.Exec(`INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_name, status, type, leased_until, created_at, updated_at)
		SELECT gen_random_uuid(), tenant_id, customer_id, account_ref, provider, bank_account_name, 'provisioning', 'onetime', $2, created_at, updated_at
		FROM accounts WHERE tenant_id = $1 AND account_ref = 'customer-1'`, tenant, b.Clock.Now().Add(time.Hour))
	return tenant
}

// alone is setup for tests that look at the accounts of all tenants.
func alone(t testing.TB) *bundle {
	e := testenv.New(t)
	b := &bundle{Env: e, ctx: context.Background(), bank: e.Bank(fakebank.Options{})}
	var err error
	b.box, err = secret.ParseKeys(secret.NewKey("test").Reveal())
	require.NoError(t, err)
	b.svc = b.service(false)
	b.tenant = e.Tenant()
	return b
}

func (b *bundle) service(production bool) *account.Service {
	client := testenv.BankClient(b.T, b.bank, b.Clock)
	return account.New(account.Options{Pool: b.Pool, Bank: client, Box: b.box, Clock: b.Clock, Production: production})
}

func dedicated(ref string) account.NewAccount {
	return account.NewAccount{ExternalRef: ref, Name: "Ada Obi"}
}

func onetime(ref string) account.NewAccount {
	return account.NewAccount{ExternalRef: ref, Name: "Ada Obi", Mode: "onetime"}
}

func (b *bundle) provision(in account.NewAccount) account.Account {
	b.T.Helper()
	a, err := b.svc.Provision(b.ctx, b.tenant, in, idempotency.Request{})
	require.NoError(b.T, err)
	return a.Account
}

func TestProvision(t *testing.T) {
	spec.Shows(t, "field.customer.bvn.sealed", "state.account.created", "state.account.created.history", "endpoint.provision.bvn",
		"endpoint.provision.dedicated.reused")
	t.Parallel()
	b := setup(t)
	in := dedicated("customer-1")
	in.BVN = secret.Redact("22233344455")
	a := b.provision(in)
	require.Equal(t, "customer-1", a.AccountRef)
	require.Equal(t, account.Active, a.Status)
	require.Equal(t, account.Dedicated, a.Type)
	require.True(t, fakebank.ValidNUBAN(fakebank.BankCode, a.BankAccountNumber), a.BankAccountNumber)
	require.Equal(t, "Ada Obi", a.BankAccountName, "the record keeps what the tenant sent")
	require.Equal(t, fakebank.BankName, a.BankName)
	balance, err := b.svc.Balance(b.ctx, b.tenant, "customer-1")
	require.NoError(t, err)
	require.Equal(t, "0.00", balance.Balance.String())
	history, err := b.svc.History(b.ctx, b.tenant, "customer-1")
	require.NoError(t, err)
	require.Len(t, history, 1)
	require.Nil(t, history[0].FromStatus)
	require.Equal(t, account.Active, history[0].ToStatus)

	sealed := testenv.Value[[]byte](b.Env, `SELECT bvn FROM customers WHERE id = $1`, a.CustomerID)
	require.NotContains(t, string(sealed), "22233344455")
	plain, err := b.box.Open(secret.Place{Table: "customers", Column: "bvn", Row: a.CustomerID.String()}, sealed)
	require.NoError(t, err)
	require.Equal(t, "22233344455", string(plain))

	again := b.provision(dedicated("customer-1"))
	require.Equal(t, a, again, "the existing active account")
	require.Equal(t, 1, b.bank.Calls(createCall), "no second call upstream")
}

func TestTwoAtOnceMakeOneAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.service(false)
	var wg sync.WaitGroup
	ids := make(chan uuid.UUID, 20)
	for i := range 20 {
		svc := []*account.Service{b.svc, other}[i%2]
		wg.Go(func() {
			a, err := svc.Provision(b.ctx, b.tenant, dedicated("customer-1"), idempotency.Request{})
			if err != nil {
				t.Error(err)
			}
			ids <- a.ID
		})
	}
	wg.Wait()
	close(ids)
	first := <-ids
	for id := range ids {
		require.Equal(t, first, id)
	}
	require.Equal(t, 1, b.bank.Calls(createCall))
}

func TestOneTimeIsNeverDeduplicated(t *testing.T) {
	spec.Shows(t, "field.customer.reused", "field.account.number.own", "endpoint.provision.onetime")
	t.Parallel()
	b := setup(t)
	var wg sync.WaitGroup
	numbers := make(chan string, 8)
	for range 8 {
		wg.Go(func() {
			a, err := b.svc.Provision(b.ctx, b.tenant, onetime("order-1"), idempotency.Request{})
			if err != nil {
				t.Error(err)
			}
			numbers <- a.BankAccountNumber
		})
	}
	wg.Wait()
	close(numbers)
	seen := map[string]bool{}
	for n := range numbers {
		seen[n] = true
	}
	require.Len(t, seen, 8)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM customers WHERE tenant_id = $1`, b.tenant))
}

// The bank fails in every way; the next call with the same reference finishes the row, and no
// number is orphaned.
func TestProviderFailures(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "endpoint.provision.502")
	faults := map[string]fakebank.Rule{
		"answers 500":         {On: fakebank.OnAccounts, Do: fakebank.Fail, Next: 1},
		"cut before it acted": {On: fakebank.OnAccounts, Do: fakebank.Drop, Next: 1},
		"cut after it acted":  {On: fakebank.OnAccounts, Do: fakebank.DropAfter, Next: 1},
		"error in a 200":      {On: fakebank.OnAccounts, Do: fakebank.Refuse, Next: 1},
	}
	for name, rule := range faults {
		for _, in := range []account.NewAccount{dedicated("customer-1"), onetime("customer-1")} {
			t.Run(name+" "+in.Mode, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.bank.Faults.Set(rule)
				a, err := b.svc.Provision(b.ctx, b.tenant, in, idempotency.Request{})
				if err != nil {
					require.ErrorIs(t, err, account.ErrProvider)
					require.Equal(t, errs.Upstream, errs.KindOf(err))
					require.Equal(t, account.ErrProvider.Msg, errs.As(err).Msg)
					_, err = b.svc.Get(b.ctx, b.tenant, "customer-1")
					require.ErrorIs(t, err, account.ErrNotFound, "what the bank has not answered is not shown")
					b.bank.Faults.Clear()
					a.Account = b.provision(in)
				}
				require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM accounts WHERE tenant_id = $1`, b.tenant))
				require.Len(t, b.bank.Accounts(), 1)
				require.Equal(t, b.bank.Accounts()[0].NUBAN, a.BankAccountNumber)
			})
		}
	}
}

// besideALease provisions a reference while another caller has the lease of its row, until it has
// waited and asks again; asked is how often it did.
func (b *bundle) besideALease(ref string) (asked int, err error) {
	b.T.Helper()
	b.Exec(`UPDATE accounts SET leased_until = $2 WHERE tenant_id = $1`, b.tenant, b.Clock.Now().Add(time.Minute))
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	svc := *b.svc
	svc.EnsureSecret = func(context.Context, pg.Tx, uuid.UUID) error {
		if asked++; asked == 2 { // it waits, and asks again
			cancel()
		}
		return nil
	}
	in := dedicated(ref)
	in.CallbackURL = new("https://shop.example/hook")
	_, err = svc.Provision(ctx, b.tenant, in, idempotency.Request{})
	return asked, err
}

// A process that died at the bank leaves its lease behind; when it has run out, the next call takes
// the row up.
func TestLeaseOfADeadProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	_, err := b.svc.Provision(b.ctx, b.tenant, dedicated("customer-1"), idempotency.Request{})
	require.ErrorIs(t, err, account.ErrProvider)
	b.bank.Faults.Clear()
	_, err = b.besideALease("customer-1")
	require.ErrorIs(t, err, account.ErrBusy)
	b.Clock.Advance(time.Minute)
	b.provision(dedicated("customer-1"))
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM accounts WHERE tenant_id = $1`, b.tenant))
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "endpoint.provision.name", "endpoint.provision.mode")
	b := setup(t)
	text := func(s string) *string { return &s }
	past, future := b.Clock.Now(), b.Clock.Now().Add(time.Hour)
	zero := money.Zero
	cases := map[string]func(in *account.NewAccount){
		"externalRef is required":                                     func(in *account.NewAccount) { in.ExternalRef = "  " },
		"externalRef must be at most 255 characters":                  func(in *account.NewAccount) { in.ExternalRef = strings.Repeat("é", 256) },
		"externalRef must not contain a slash or control characters":  func(in *account.NewAccount) { in.ExternalRef = "a/b" },
		"externalRef must not begin or end with a space":              func(in *account.NewAccount) { in.ExternalRef = "customer-1 " },
		"externalRef must not be . or ..: it cannot be used in a URL": func(in *account.NewAccount) { in.ExternalRef = ".." },
		"name is required":                                  func(in *account.NewAccount) { in.Name = "" },
		"name must be at most 200 characters":               func(in *account.NewAccount) { in.Name = strings.Repeat("x", 201) },
		"name must not contain control characters":          func(in *account.NewAccount) { in.Name = "a\x00b" },
		"bvn must be exactly 11 digits":                     func(in *account.NewAccount) { in.BVN = secret.Redact("2223334445") },
		"expectedAmount must be above zero":                 func(in *account.NewAccount) { in.ExpectedAmount = &zero },
		"mode must be dedicated or onetime":                 func(in *account.NewAccount) { in.Mode = "forever" },
		"expiresAt is for one-time accounts only":           func(in *account.NewAccount) { in.ExpiresAt = &future },
		"expiresAt must be in the future":                   func(in *account.NewAccount) { in.Mode, in.ExpiresAt = "onetime", &past },
		"callbackUrl must begin with https:// or http://":   func(in *account.NewAccount) { in.CallbackURL = text("ftp://x.example") },
		"callbackUrl must not have a user name or password": func(in *account.NewAccount) { in.CallbackURL = text("https://u:p@x.example") },
	}
	for want, change := range cases {
		in := dedicated("customer-1")
		change(&in)
		_, err := b.svc.Provision(b.ctx, b.tenant, in, idempotency.Request{})
		require.EqualError(t, err, want)
		require.Equal(t, errs.Invalid, errs.KindOf(err))
	}
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM customers WHERE tenant_id = $1`, b.tenant))
	require.Zero(t, b.bank.Calls(createCall))
}

func TestProductionNeedsBusinessKYC(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "endpoint.business-kyc.production")
	b := setup(t)
	b.svc = b.service(true)
	_, err := b.svc.Provision(b.ctx, b.tenant, dedicated("customer-1"), idempotency.Request{})
	require.ErrorIs(t, err, account.ErrBusinessKYC)
	b.Exec(`UPDATE tenants SET kyc_status = 'verified', business_type = 'ngo' WHERE id = $1`, b.tenant)
	b.provision(dedicated("customer-1"))
}

func TestFindingByReference(t *testing.T) {
	t.Parallel()
	b := setup(t)
	get := func(ref string) account.Account {
		t.Helper()
		a, err := b.svc.Get(b.ctx, b.tenant, ref)
		require.NoError(t, err)
		return a
	}
	old, newer := b.provision(onetime("ref")), b.provision(onetime("ref"))
	require.Equal(t, newer.ID, get("ref").ID, "the newest active one-time account")
	_, err := b.svc.Expire(b.ctx, b.tenant, newer.ID.String(), account.Ending{Reason: "test"}, idempotency.Request{})
	require.NoError(t, err)
	require.Equal(t, old.ID, get("ref").ID, "an active one before a newer expired one")
	main := b.provision(dedicated("ref"))
	require.Equal(t, main.ID, get("ref").ID, "the active dedicated account first")
	require.Equal(t, old.ID, get(old.ID.String()).ID, "its own id finds an older one")
	for _, id := range []uuid.UUID{main.ID, old.ID} {
		_, err = b.svc.Expire(b.ctx, b.tenant, id.String(), account.Ending{Reason: "test"}, idempotency.Request{})
		require.NoError(t, err)
	}
	require.Equal(t, main.ID, get("ref").ID, "the newest expired one")
	_, err = b.svc.Provision(b.ctx, b.tenant, dedicated("ref"), idempotency.Request{})
	require.ErrorIs(t, err, account.ErrExists)
	for _, ref := range []string{"", "none", uuid.NewString()} {
		_, err = b.svc.Get(b.ctx, b.tenant, ref)
		require.ErrorIs(t, err, account.ErrNotFound)
	}
	other := b.Tenant()
	for _, ref := range []string{"ref", main.ID.String()} {
		_, err = b.svc.Get(b.ctx, other, ref)
		require.ErrorIs(t, err, account.ErrNotFound, "another tenant's")
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 5 {
		b.provision(dedicated(fmt.Sprintf("customer-%d", i)))
	}
	var refs []string
	r := page.Request{Limit: 2}
	for {
		list, info, err := b.svc.List(b.ctx, b.tenant, account.Filter{}, r)
		require.NoError(t, err)
		for _, a := range list {
			refs = append(refs, a.AccountRef)
		}
		if !info.HasMore {
			require.Nil(t, info.NextCursor)
			break
		}
		b.provision(dedicated("inserted-" + *info.NextCursor))
		r.After = *info.NextCursor
	}
	require.Equal(t, []string{"customer-4", "customer-3", "customer-2", "customer-1", "customer-0"}, refs)
	_, _, err := b.svc.List(b.ctx, b.tenant, account.Filter{}, page.Request{Limit: 2, After: page.ID(page.Transfers, b.tenant)})
	require.ErrorIs(t, err, page.ErrCursor, "a statement's cursor is no list's")
}

func TestExpireAndCloseAtTheBank(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.account.expire", "state.account.expired.expire")
	b := setup(t)
	a := b.provision(dedicated("customer-1"))
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	got, err := b.svc.Expire(b.ctx, b.tenant, "customer-1", account.Ending{Reason: "requested by the tenant"}, idempotency.Request{})
	require.NoError(t, err)
	require.Contains(t, string(got.Answer.Body), `"Status":"expired"`)
	_, err = b.svc.Expire(b.ctx, b.tenant, "customer-1", account.Ending{Reason: "again"}, idempotency.Request{})
	require.ErrorIs(t, err, account.ErrNotActive)
	for range 3 {
		at, ok := retry.When(b.svc.AdvanceExpiry(b.ctx, a.ID))
		require.True(t, ok, "the close is retried until it works")
		require.NoError(t, b.svc.AdvanceExpiry(b.ctx, a.ID), "not due yet")
		b.Clock.Set(at)
	}
	b.bank.Faults.Clear()
	require.Equal(t, []uuid.UUID{a.ID}, b.Overdue(work.Expire, b.Clock.Now(), b.Clock.Now().Add(time.Second), 10))
	require.NoError(t, b.svc.AdvanceExpiry(b.ctx, a.ID))
	there, ok := b.bank.Account(a.ID.String())
	require.True(t, ok)
	require.True(t, there.Closed)
	require.Nil(t, b.DueAt(work.Expire, a.ID))
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.account.deadline", "state.account.deadline.provider")
	b := setup(t)
	in := onetime("order-1")
	deadline := b.Clock.Now().Add(time.Hour)
	in.ExpiresAt = &deadline
	a := b.provision(in)
	require.NoError(t, b.svc.AdvanceExpiry(b.ctx, a.ID))
	got, err := b.svc.Get(b.ctx, b.tenant, "order-1")
	require.NoError(t, err)
	require.Equal(t, account.Active, got.Status, "a task that is too early does nothing")
	b.Schedule(work.Expire, a.ID, b.Clock.Now())
	require.NoError(t, b.svc.AdvanceExpiry(b.ctx, a.ID))
	got, err = b.svc.Get(b.ctx, b.tenant, "order-1")
	require.NoError(t, err)
	require.Equal(t, account.Active, got.Status, "due too early, it is due at its deadline again")
	require.True(t, deadline.Equal(*b.DueAt(work.Expire, a.ID)))
	b.Clock.Set(deadline.Add(5 * time.Minute))
	require.NoError(t, b.svc.AdvanceExpiry(b.ctx, a.ID))
	got, err = b.svc.Get(b.ctx, b.tenant, "order-1")
	require.NoError(t, err)
	require.Equal(t, account.Expired, got.Status)
	require.Equal(t, deadline, testenv.Value[time.Time](b.Env, `SELECT expired_at FROM accounts WHERE tenant_id = $1`, b.tenant).UTC(), "the deadline, not the moment of the task")
	there, _ := b.bank.Account(a.ID.String())
	require.True(t, there.Closed)
	history, err := b.svc.History(b.ctx, b.tenant, "order-1")
	require.NoError(t, err)
	require.Len(t, history, 2)
	require.Equal(t, "the deadline was reached", history[1].Reason)
}

// An account without a deadline, made due by hand, is said to have none, and stays.
func TestDueWithoutADeadline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.provision(onetime("order-1"))
	b.Schedule(work.Expire, a.ID, b.Clock.Now())
	require.ErrorContains(t, b.svc.AdvanceExpiry(b.ctx, a.ID), "has no deadline")
	got, err := b.svc.Get(b.ctx, b.tenant, "order-1")
	require.NoError(t, err)
	require.Equal(t, account.Active, got.Status)
}

// Call, exact payment and deadline at once, again and again: one moves the account, and history has
// one expiry.
func TestExpiryRaces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 50 {
		id := b.Account(b.tenant, uuid.NewString())
		b.Exec(`UPDATE accounts SET type = 'onetime' WHERE id = $1`, id)
		var wg sync.WaitGroup
		var mu sync.Mutex
		winners := 0
		for _, ev := range []account.Event{account.EventExpire, account.EventPaid, account.EventDeadline} {
			wg.Go(func() {
				var moved bool
				err := pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) (err error) {
					now := b.Clock.Now()
					moved, err = account.ExpireTx(b.ctx, tx, now, id, ev, now, string(ev))
					return err
				})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if moved {
					winners++
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, winners)
	}
	require.Equal(t, 50, testenv.Value[int](b.Env, `SELECT count(*) FROM account_history WHERE to_status = 'expired'`))
}

func TestAccountTableMatchesSchema(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.account.terminal", "state.account.expire.irreversible")
	b := setup(t)
	states := account.Transitions.States()
	require.Equal(t, []account.Status{account.Provisioning, account.Active, account.Expired}, states)
	require.Equal(t, [][2]string{{"provisioning", "active"}, {"active", "expired"}}, account.Transitions.Moves(), "nothing leaves expired")
	for _, from := range states {
		for _, to := range states {
			if from == to {
				continue
			}
			id := b.Account(b.tenant, uuid.NewString())
			expiry := func(s account.Status) string {
				if s == account.Expired {
					return "now()"
				}
				return "NULL"
			}
			b.Exec(`ALTER TABLE accounts DISABLE TRIGGER accounts_status`)
			b.Exec(`UPDATE accounts SET status = $2, expired_at = `+expiry(from)+` WHERE id = $1`, id, from)
			b.Exec(`ALTER TABLE accounts ENABLE TRIGGER accounts_status`)
			_, err := b.Pool.Exec(b.ctx, `UPDATE accounts SET status = $2, expired_at = `+expiry(to)+` WHERE id = $1`, id, to)
			allowed := false
			for _, m := range account.Transitions.Moves() {
				allowed = allowed || m == [2]string{string(from), string(to)}
			}
			require.Equal(t, allowed, err == nil, "%s>%s: %v", from, to, err)
		}
	}
	_, err := ledger.Verify(b.ctx, b.Pool)
	require.NoError(t, err)
}
