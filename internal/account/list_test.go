package account_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/customer"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// named is an active account, by its reference, with a holder's name and a number.
func (b *bundle) named(ref, name, number string) uuid.UUID {
	b.T.Helper()
	id := b.Account(b.tenant, ref)
	b.Exec(`UPDATE accounts SET bank_account_name = $2, bank_account_number = $3 WHERE id = $1`, id, name, number)
	return id
}

// shelf is a tenant with an account of each kind, and the number of one that is being provisioned,
// with all that an account has.
func shelf(t *testing.T) (b *bundle, unfinished string) {
	t.Helper()
	b = setup(t)
	b.Credit(b.named("order-7", "Bola Ade", "1000000001"), "10.00")
	b.Credit(b.named("ADA-2", "Grace Eze", "1000000002"), "10.00")
	expired := b.named("shop", "Chi Obi", "1000000003")
	b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2 WHERE id = $1`, expired, b.Clock.Now())
	review := b.named("review", "dayo eze", "1000000004")
	b.Credit(review, "2.00")
	b.MoveCredit(b.Credit(review, "30.00"), ledger.EventHold)
	was := b.named("was-in-review", "Zainab", "1000000005")
	group := b.Credit(was, "5.00")
	b.MoveCredit(group, ledger.EventHold)
	b.MoveCredit(group, ledger.EventConfirm)
	row := b.named("unfinished", "Ada Obi", "1000000006")
	b.Exec(`ALTER TABLE accounts DISABLE TRIGGER USER`)
	b.Exec(`UPDATE accounts SET status = 'provisioning' WHERE id = $1`, row)
	b.Exec(`ALTER TABLE accounts ENABLE TRIGGER USER`)
	return b, "1000000006"
}

// refs are the references and balances of accounts.
func refs(list []account.Listed) string {
	var all []string
	for _, a := range list {
		all = append(all, a.AccountRef+" "+a.Balance.String())
	}
	return strings.Join(all, ", ")
}

// A list has its tenant's own accounts, each with its own balance, and those alone that the filter
// asks for.
func TestFilteredList(t *testing.T) {
	t.Parallel()
	b, _ := shelf(t)
	const all = "was-in-review 5.00, review 2.00, shop 0.00, ADA-2 10.00, order-7 10.00"
	for want, filters := range map[string][]account.Filter{
		all: {{}},
		"was-in-review 5.00, review 2.00, ADA-2 10.00, order-7 10.00": {{Status: account.Active}},
		"shop 0.00":                       {{Status: account.Expired}, {Search: "HOP"}, {Search: "chi"}, {Search: "0003"}, {Search: "shop", Status: account.Expired}},
		"review 2.00":                     {{Status: account.NeedsReview}, {Search: "DAYO"}, {Search: "eze", Status: account.NeedsReview}},
		"ADA-2 10.00":                     {{Search: "ada-"}, {Search: "grace"}, {Search: "1000000002"}},
		"review 2.00, ADA-2 10.00":        {{Search: "eze"}},
		"was-in-review 5.00, review 2.00": {{Search: "review"}},
		"":                                {{Search: "nobody"}, {Search: "shop", Status: account.Active}, {Search: "unfinished"}, {Search: "customer-1"}},
	} {
		for _, f := range filters {
			list, info, err := b.svc.List(b.ctx, b.tenant, f, page.Request{Limit: 10, Total: true})
			require.NoError(t, err)
			require.Equal(t, want, refs(list), "%+v", f)
			require.Equal(t, &page.Total{Count: len(list), Exact: true}, info.Total)
		}
	}
	for _, unknown := range []account.Status{account.Provisioning, "closed"} {
		_, _, err := b.svc.List(b.ctx, b.tenant, account.Filter{Status: unknown}, page.Request{Limit: 10})
		require.ErrorIs(t, err, account.ErrStatus)
	}
}

// Whatever a list is ordered by, its pages have each account once, in one order, also where some
// have the same value.
func TestSortedList(t *testing.T) {
	t.Parallel()
	b, _ := shelf(t)
	twin := b.named("twin", "BOLA ADE", "1000000007")
	b.Credit(twin, "10.00")
	for sort, want := range map[page.Sort]string{
		{}:                                  "twin 10.00, was-in-review 5.00, review 2.00, shop 0.00, ADA-2 10.00, order-7 10.00",
		{By: page.Created, Ascending: true}: "order-7 10.00, ADA-2 10.00, shop 0.00, review 2.00, was-in-review 5.00, twin 10.00",
		{By: page.Balance}:                  "twin 10.00, ADA-2 10.00, order-7 10.00, was-in-review 5.00, review 2.00, shop 0.00",
		{By: page.Balance, Ascending: true}: "shop 0.00, review 2.00, was-in-review 5.00, order-7 10.00, ADA-2 10.00, twin 10.00",
		{By: page.Name}:                     "was-in-review 5.00, ADA-2 10.00, review 2.00, shop 0.00, twin 10.00, order-7 10.00",
		{By: page.Name, Ascending: true}:    "order-7 10.00, twin 10.00, shop 0.00, review 2.00, ADA-2 10.00, was-in-review 5.00",
	} {
		for _, limit := range []int{1, 2, 10} {
			var all []account.Listed
			r := page.Request{Limit: limit, Sort: sort}
			for {
				list, info, err := b.svc.List(b.ctx, b.tenant, account.Filter{}, r)
				require.NoError(t, err)
				all = append(all, list...)
				if !info.HasMore {
					break
				}
				require.Len(t, list, limit)
				r.After = *info.NextCursor
			}
			require.Equal(t, want, refs(all), "%+v by %d", sort, limit)
		}
	}
}

// A cursor of a name that names another tenant's account ends the list: the page would tell how the
// name of its holder sorts.
func TestNamesOfOtherTenants(t *testing.T) {
	t.Parallel()
	b, _ := shelf(t)
	other := b.Tenant()
	for _, ref := range []string{"one", "two"} {
		b.Exec(`UPDATE accounts SET bank_account_name = 'Dayo' WHERE id = $1`, b.Account(other, ref))
	}
	for _, ascending := range []bool{true, false} {
		sort := page.Sort{By: page.Name, Ascending: ascending}
		_, info, err := b.svc.List(b.ctx, other, account.Filter{}, page.Request{Limit: 1, Sort: sort})
		require.NoError(t, err)
		require.True(t, info.HasMore)
		list, _, err := b.svc.List(b.ctx, b.tenant, account.Filter{}, page.Request{Limit: 10, Sort: sort, After: *info.NextCursor})
		require.NoError(t, err)
		require.Empty(t, refs(list))
	}
}

// A page by name does not go on behind an account that has another name by now: it would leave
// accounts out, or show some again.
func TestNameThatChangesBetweenPages(t *testing.T) {
	t.Parallel()
	b, _ := shelf(t)
	for _, ascending := range []bool{true, false} {
		r := page.Request{Limit: 2, Sort: page.Sort{By: page.Name, Ascending: ascending}}
		list, info, err := b.svc.List(b.ctx, b.tenant, account.Filter{}, r)
		require.NoError(t, err)
		r.After = *info.NextCursor
		next, _, err := b.svc.List(b.ctx, b.tenant, account.Filter{}, r)
		require.NoError(t, err)
		require.Len(t, next, 2)
		b.Exec(`UPDATE accounts SET bank_account_name = bank_account_name || ' Ltd' WHERE id = $1`, list[1].ID)
		_, _, err = b.svc.List(b.ctx, b.tenant, account.Filter{}, r)
		require.ErrorIs(t, err, page.ErrCursor)
	}
}

// What a tenant's filter finds is on the first page, however many accounts others have.
func TestListBesideManyAccounts(t *testing.T) {
	t.Parallel()
	b, _ := shelf(t)
	newest := b.Account(b.Tenant(), "many")
	b.Exec(`INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_number, bank_account_name, status, type, expired_at, closed_at, created_at, updated_at)
		SELECT `+testenv.IDsAfter(newest)+`, tenant_id, customer_id, 'many', provider, lpad(n::text, 10, '0'), bank_account_name, 'expired', 'onetime', $2, $2, $2, $2
		FROM accounts, generate_series(1, 10000) n WHERE id = $1`, newest, b.Clock.Now())
	list, info, err := b.svc.List(b.ctx, b.tenant, account.Filter{Status: account.Expired}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "shop 0.00", refs(list))
	require.False(t, info.HasMore)
}

// A search finds a whole reference or number first, and then its parts, each account once.
func TestSearchForAccounts(t *testing.T) {
	t.Parallel()
	b, unfinished := shelf(t)
	b.named("1000000003", "Ngozi", "2000000001")
	b.named("order-71", "Bola Ade", "2000000002")
	for text, want := range map[string]string{
		"order-7":    "order-7 10.00, order-71 0.00",
		"1000000003": "1000000003 0.00, shop 0.00",
		"2000000002": "order-71 0.00",
		"eze":        "review 2.00, ADA-2 10.00",
		"customer-1": "", "unfinished": "", unfinished: "",
		testenv.Value[string](b.Env, `SELECT min(bank_account_number) FROM accounts WHERE tenant_id <> $1`, b.tenant): "",
	} {
		found, more, err := b.svc.Search(b.ctx, b.tenant, text, 10)
		require.NoError(t, err)
		require.False(t, more)
		require.Equal(t, want, refs(found), text)
	}
	found, more, err := b.svc.Search(b.ctx, b.tenant, "order-7", 1)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, "order-7 10.00", refs(found))
}

// A number is the tenant's active account's, or else its newest one's that had it.
func TestAccountOfANumber(t *testing.T) {
	t.Parallel()
	b, unfinished := shelf(t)
	number := func(number string) string {
		t.Helper()
		a, err := b.svc.OfNumber(b.ctx, b.tenant, number)
		if err != nil {
			require.ErrorIs(t, err, account.ErrNotFound)
		}
		return a.AccountRef
	}
	end := func(ref string) {
		b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $3, closed_at = $3 WHERE tenant_id = $1 AND account_ref = $2`, b.tenant, ref, b.Clock.Now())
	}
	require.Equal(t, "order-7", number("1000000001"))
	require.Equal(t, "shop", number("1000000003"))
	end("order-7")
	b.named("second", "Bola Ade", "1000000001")
	end("second")
	require.Equal(t, "second", number("1000000001"), "both are closed: the newest")
	for _, none := range []string{
		unfinished, "1999999999",
		testenv.Value[string](b.Env, `SELECT max(bank_account_number) FROM accounts WHERE tenant_id <> $1`, b.tenant),
	} {
		require.Empty(t, number(none))
	}
	active := b.named("active", "Bola Ade", "3000000001")
	newer := b.named("newer", "Bola Ade", "3000000002")
	b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2, closed_at = $2, bank_account_number = '3000000001' WHERE id = $1`, newer, b.Clock.Now())
	require.Equal(t, "active", number("3000000001"), "an active one before a newer one that is closed: %s", active)
}

// The overview counts the tenant's accounts that the bank has opened.
func TestOverviewCountsAccounts(t *testing.T) {
	t.Parallel()
	b, _ := shelf(t)
	o, err := b.svc.Overview(b.ctx, b.tenant, 30)
	require.NoError(t, err)
	require.Equal(t, 5, o.Accounts)
	require.Equal(t, "27.00", o.Balance.String())
	require.True(t, o.Posted)
	none, err := b.svc.Overview(b.ctx, b.Tenant(), 30)
	require.NoError(t, err)
	require.Zero(t, none.Accounts)
	require.False(t, none.Posted)
}

// What is being provisioned is no account of its customer's, and is not exported; nor is an account
// without lines.
func TestUnfinishedRowIsNoAccount(t *testing.T) {
	t.Parallel()
	b, _ := shelf(t)
	id := testenv.Value[uuid.UUID](b.Env, `SELECT customer_id FROM accounts WHERE account_ref = 'unfinished'`)
	_, err := b.svc.OfCustomer(b.ctx, b.tenant, id)
	require.ErrorIs(t, err, account.ErrNotLinked)
	_, err = b.svc.OfCustomer(b.ctx, b.Tenant(), id)
	require.ErrorIs(t, err, customer.ErrNotFound)
	_, err = b.svc.Get(b.ctx, b.tenant, "unfinished")
	require.ErrorIs(t, err, account.ErrNotFound)
	b.Credit(testenv.Value[uuid.UUID](b.Env, `SELECT id FROM accounts WHERE account_ref = 'unfinished'`), "1.00")
	all, left, err := b.svc.Exports(b.ctx, b.tenant, ledger.Filter{}, 5)
	require.NoError(t, err)
	var exported []string
	for _, x := range all {
		exported = append(exported, x.AccountRef+" "+x.Opening.String()+" "+x.Closing.String())
	}
	require.Equal(t, []string{"order-7 0.00 10.00", "ADA-2 0.00 10.00", "review 0.00 2.00", "was-in-review 0.00 5.00"}, exported)
	require.Equal(t, "{1 0.00}", fmt.Sprint(left), "the expired one")
	all, left, err = b.svc.Exports(b.ctx, b.tenant, ledger.Filter{From: b.Clock.Now().Add(time.Hour)}, 5)
	require.NoError(t, err)
	require.Empty(t, all)
	require.Equal(t, "{5 27.00}", fmt.Sprint(left), "with what came before")
	_, _, err = b.svc.Exports(b.ctx, b.tenant, ledger.Filter{}, 4)
	require.EqualError(t, err, "the statements have more than 4 lines: narrow them by from and to")
	_, _, err = b.svc.Exports(b.ctx, b.tenant, ledger.Filter{Direction: "sideways"}, 5)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "lines")
}

// What a filter may look at in an account goes by what the file may have, not by what is left of
// that: a file that is as long as it may be is none that is too long, nor is one that looks at too
// much.
func TestExportsLookAtEachAccount(t *testing.T) {
	t.Parallel()
	b, _ := shelf(t)
	later := b.named("later", "Ada Obi", "1000000007")
	b.Credit(later, "1.00")
	confirmed := ledger.Filter{Status: ledger.Confirmed}
	all, left, err := b.svc.Exports(b.ctx, b.tenant, confirmed, 1)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "was-in-review", all[0].AccountRef)
	require.Equal(t, 5, left.Accounts)
	b.MoveCredit(b.Credit(b.named("last", "Ada Obi", "1000000008"), "1.00"), ledger.EventConfirm)
	_, _, err = b.svc.Exports(b.ctx, b.tenant, confirmed, 1)
	require.EqualError(t, err, "the statements have more than 1 lines: narrow them by from and to")
	for range ledger.ScanPerLine {
		b.Credit(later, "1.00")
	}
	_, _, err = b.svc.Exports(b.ctx, b.tenant, confirmed, 1)
	require.ErrorIs(t, err, ledger.ErrWide)
}

// What an account and a tenant have is their own: neither the neighbours' money nor their payments
// under review count, and a freeze of the account makes nothing of it available.
func TestOwnFunds(t *testing.T) {
	t.Parallel()
	b, _ := shelf(t)
	b.MoveCredit(b.Credit(b.Account(b.Tenant(), "customer-1"), "11.00"), ledger.EventHold)
	own, err := b.svc.Balance(b.ctx, b.tenant, "review")
	require.NoError(t, err)
	require.Equal(t, "2.00 0.00 2.00 30.00", funds(own.Funds))
	own, err = b.svc.Balance(b.ctx, b.tenant, "was-in-review")
	require.NoError(t, err)
	require.Equal(t, "5.00 5.00 0.00 0.00", funds(own.Funds))
	all, err := b.svc.TenantBalance(b.ctx, b.tenant)
	require.NoError(t, err)
	require.Equal(t, "27.00 5.00 22.00 30.00", funds(all))
	frozen := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM accounts WHERE account_ref = 'was-in-review'`)
	b.Exec(`INSERT INTO freezes (id, scope, subject, tenant_id, reason, actor, created_at) VALUES (gen_random_uuid(), 'account', $1, $2, 'x', 'x', $3)`, frozen, b.tenant, b.Clock.Now())
	own, err = b.svc.Balance(b.ctx, b.tenant, "was-in-review")
	require.NoError(t, err)
	require.Equal(t, "5.00 0.00 0.00 0.00", funds(own.Funds))
}

// funds are the balance, and what of it is available, provisional and held.
func funds(f account.Funds) string {
	var all []string
	for _, a := range []money.Amount{f.Balance, f.Available, f.Provisional, f.Held} {
		all = append(all, a.String())
	}
	return strings.Join(all, " ")
}

// A shop may open a one-time account for each order under one reference. Whatever names that
// reference, or its customer, looks at a few of its accounts, however many it has by now.
func TestManyAccountsOfOneReference(t *testing.T) {
	t.Parallel()
	b := setup(t)
	last := b.provision(onetime("shop"))
	b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2 WHERE id = $1`, last.ID, b.Clock.Now())
	b.Exec(`INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_number, bank_account_name, status, type, expired_at, closed_at, created_at, updated_at)
		SELECT ('0190c0de-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, tenant_id, customer_id, account_ref, provider, lpad(n::text, 10, '0'), bank_account_name, status, type, $2, $2, $2, $2
		FROM accounts, generate_series(0, 5000) n WHERE id = $1`, last.ID, b.Clock.Now())
	b.Exec(`ANALYZE accounts`)
	pool, asked := b.Recorded()
	svc := account.New(account.Options{Pool: pool, Bank: b.svc.Bank, Box: b.box, Clock: b.Clock})
	look := func(what string) (of []testenv.Statement) {
		t.Helper()
		for _, s := range asked() {
			if !strings.Contains(s.SQL, "FROM accounts") {
				continue
			}
			most, plan := b.MostRows(s)
			require.LessOrEqual(t, most, 10, "%s\n%s\n%s", what, s.SQL, plan)
			of = append(of, s)
		}
		require.NotEmpty(t, of, what)
		return of
	}
	all := func(want uuid.UUID) {
		t.Helper()
		got, err := svc.Get(b.ctx, b.tenant, "shop")
		require.NoError(t, err)
		require.Equal(t, want, got.ID)
		look("by the reference")
		payers, err := account.FindPayers(b.ctx, pool, b.Clock.Now(), []account.Ref{{TenantID: b.tenant, AccountRef: "shop"}})
		require.NoError(t, err)
		require.Equal(t, want, payers[0].ID)
		look("of a settlement")
		got, err = svc.OfCustomer(b.ctx, b.tenant, last.CustomerID)
		require.NoError(t, err)
		require.Equal(t, want, got.ID)
		look("of the customer")
	}
	all(last.ID)
	p, err := svc.Provision(b.ctx, b.tenant, onetime("shop"), idempotency.Request{})
	require.NoError(t, err)
	look("of one more")
	all(p.Account.ID)

	// the tenant's only account that is active is the oldest
	oldest := uuid.MustParse("0190c0de-0000-7000-8000-000000000000")
	b.ExecUnguarded(`UPDATE accounts SET status = 'expired', expired_at = $2 WHERE tenant_id = $1 AND status = 'active'`, b.tenant, b.Clock.Now())
	b.ExecUnguarded(`UPDATE accounts SET status = 'active', expired_at = NULL, closed_at = NULL WHERE id = $1`, oldest)
	require.NoError(t, account.ExpireAll(b.ctx, pool, b.Clock.Now(), b.tenant, "the tenant is closed"))
	slices := look("that are to be ended")
	require.Equal(t, oldest, slices[1].Args[1], "a slice begins where the one before ended")
}

// The ids of changes are of the clock of the machine that writes them, which may be behind
// another's: history is in the order of the times that it shows.
func TestHistoryIsInTheOrderOfItsTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.provision(dedicated("customer-1"))
	b.Exec(`INSERT INTO account_history (id, account_id, from_status, to_status, reason, created_at)
		VALUES ('01800000-0000-7000-8000-000000000000', $1, 'active', 'expired', 'closed by the tenant', $2)`, a.ID, b.Clock.Now().Add(time.Hour))
	history, err := b.svc.History(b.ctx, b.tenant, "customer-1")
	require.NoError(t, err)
	require.Len(t, history, 2)
	require.Equal(t, account.Active, history[0].ToStatus)
	require.Equal(t, account.Expired, history[1].ToStatus)
}
