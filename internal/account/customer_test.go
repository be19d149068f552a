package account_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/customer"
	"ajo/internal/errs"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/safehttp"
	"ajo/internal/spec"
	"ajo/internal/testenv"
)

func TestAccountOfACustomer(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "endpoint.provision.customer")
	b := setup(t)
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	_, err := b.svc.Provision(b.ctx, b.tenant, dedicated("ref"), idempotency.Request{})
	require.ErrorIs(t, err, account.ErrProvider)
	b.bank.Faults.Clear()
	id := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM customers WHERE tenant_id = $1`, b.tenant)
	_, err = b.svc.OfCustomer(b.ctx, b.tenant, id)
	require.ErrorIs(t, err, account.ErrNotLinked, "what the bank has not answered is not shown")
	require.Equal(t, errs.NotFound, errs.KindOf(err))

	get := func() account.Account {
		t.Helper()
		a, err := b.svc.OfCustomer(b.ctx, b.tenant, id)
		require.NoError(t, err)
		same, err := b.svc.Get(b.ctx, b.tenant, "ref")
		require.NoError(t, err)
		require.Equal(t, same, a, "the order is a path reference's")
		return a
	}
	old, newer := b.provision(onetime("ref")), b.provision(onetime("ref"))
	require.Equal(t, id, old.CustomerID)
	require.Equal(t, newer.ID, get().ID)
	main := b.provision(dedicated("ref"))
	require.Equal(t, main.ID, get().ID, "the active dedicated one first")
	for _, a := range []account.Account{main, newer} {
		_, err = b.svc.Expire(b.ctx, b.tenant, a.ID.String(), account.Ending{Reason: "test"}, idempotency.Request{})
		require.NoError(t, err)
	}
	require.Equal(t, old.ID, get().ID, "an active one before a newer expired one")
	_, err = b.svc.Expire(b.ctx, b.tenant, old.ID.String(), account.Ending{Reason: "test"}, idempotency.Request{})
	require.NoError(t, err)
	require.Equal(t, newer.ID, get().ID, "the newest expired one; the dedicated row is older")

	b.provision(dedicated("another customer"))
	require.Equal(t, newer.ID, get().ID)
	for _, unknown := range []uuid.UUID{uuid.Nil, uuid.New(), main.ID} {
		_, err = b.svc.OfCustomer(b.ctx, b.tenant, unknown)
		require.ErrorIs(t, err, customer.ErrNotFound)
	}
	_, err = b.svc.OfCustomer(b.ctx, b.Tenant(), id)
	require.ErrorIs(t, err, customer.ErrNotFound, "another tenant's")
}

// A suspended customer gets no new account; the one it has stays, and is the answer to whoever asks
// for it again.
func TestSuspendedCustomer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.provision(dedicated("ref"))
	b.Exec(`UPDATE customers SET status = 'suspended' WHERE tenant_id = $1`, b.tenant)
	_, err := b.svc.Provision(b.ctx, b.tenant, onetime("ref"), idempotency.Request{})
	require.ErrorIs(t, err, customer.ErrSuspended)
	require.Equal(t, errs.Forbidden, errs.KindOf(err))
	got, err := b.svc.Get(b.ctx, b.tenant, "ref")
	require.NoError(t, err)
	require.Equal(t, account.Active, got.Status)
	require.Equal(t, a.ID, got.ID)
	calls := b.bank.Calls(createCall)
	again, err := b.svc.Provision(b.ctx, b.tenant, dedicated("ref"), idempotency.Request{})
	require.NoError(t, err)
	require.Equal(t, a.ID, again.ID)
	require.Equal(t, http.StatusCreated, again.Answer.Status)
	require.Equal(t, calls, b.bank.Calls(createCall))
	_, err = b.svc.Expire(b.ctx, b.tenant, a.ID.String(), account.Ending{Reason: "test"}, idempotency.Request{})
	require.NoError(t, err)
	_, err = b.svc.Provision(b.ctx, b.tenant, dedicated("ref"), idempotency.Request{})
	require.ErrorIs(t, err, customer.ErrSuspended)
}

// A suspended customer's request does not wait for another one that is opening the account: it is
// refused at once.
func TestSuspendedWhileItIsProvisioned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	_, err := b.svc.Provision(b.ctx, b.tenant, dedicated("ref"), idempotency.Request{})
	require.ErrorIs(t, err, account.ErrProvider)
	b.bank.Faults.Clear()
	b.Exec(`UPDATE customers SET status = 'suspended' WHERE tenant_id = $1`, b.tenant)
	asked, err := b.besideALease("ref")
	require.ErrorIs(t, err, customer.ErrSuspended)
	require.Equal(t, 1, asked)
}

func TestCallbacksInProduction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.svc = account.New(account.Options{
		Pool: b.Pool, Bank: b.svc.Bank, Box: b.box, Clock: b.Clock,
		Callbacks: safehttp.CallbackRules(true, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}),
	})
	b.provision(dedicated("ref"))
	for url, want := range map[string]string{
		"https://169.254.169.254/":        "callbackUrl must not point to a private address",
		"https://localhost/hook":          "callbackUrl must not point to a private address",
		"https://10.2.0.1/":               "callbackUrl must not point to a private address",
		"http://example.com/":             "callbackUrl must begin with https://",
		"https://10.1.2.3/hook":           "",
		"https://example.com/hook?token=": "",
	} {
		in := onetime("order")
		in.CallbackURL = &url
		_, created := b.svc.Provision(b.ctx, b.tenant, in, idempotency.Request{})
		_, changed := b.svc.Update(b.ctx, b.tenant, "ref", account.Changes{CallbackURL: &url}, byHand)
		for _, err := range []error{created, changed} {
			if want == "" {
				require.NoError(t, err, url)
			} else {
				require.EqualError(t, err, want)
				require.Equal(t, errs.Invalid, errs.KindOf(err))
			}
		}
	}
}
