package customer

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/testenv"
)

var byHand = audit.By{Actor: "cli:ada", Reason: "papers seen"}

// bySession is who decides in the dashboard.
var bySession = audit.Session("ada@example.com", netip.MustParseAddr("192.0.2.9"))

// A name is approved, not a customer: with another name everything begins again.
func TestARenameEndsAnApproval(t *testing.T) {
	spec.Shows(t, "state.customer-kyc.ended")
	b := setup(t)
	id := b.in(KYCNone)
	_, err := b.submit(id, nin)
	require.NoError(t, err)
	require.Equal(t, 2, b.get(id).KYCTier)
	c, err := b.Rename(b.ctx, b.tenant, id, " "+holder, nil)
	require.NoError(t, err)
	require.Equal(t, KYCApproved, c.KYCStatus, "the same name")

	c, err = b.Rename(b.ctx, b.tenant, id, "Somebody Else", nil)
	require.NoError(t, err)
	require.Equal(t, []any{KYCNone, 1, "Somebody Else"}, []any{c.KYCStatus, c.KYCTier, c.Name})
	require.Equal(t, c, b.get(id))
	got, err := b.submit(id, nin)
	require.NoError(t, err)
	require.Equal(t, KYCPendingReview, got.KYCStatus, "the NIN is of another name")
	c, err = b.Rename(b.ctx, b.tenant, id, holder, nil)
	require.NoError(t, err)
	require.Equal(t, KYCPendingReview, c.KYCStatus, "what waits for a person goes on waiting")

	high := b.in(KYCApproved)
	_, _, err = b.SetTier(b.ctx, high, 3, byHand)
	require.NoError(t, err)
	c, err = b.Rename(b.ctx, b.tenant, high, "Somebody Else", nil)
	require.NoError(t, err)
	require.Equal(t, []any{KYCNone, 1}, []any{c.KYCStatus, c.KYCTier})
}

// A renaming waits for an approval of the name before, and ends it.
func TestARenamingBesideAnApproval(t *testing.T) {
	b := setup(t)
	id := b.in(KYCPendingReview)
	var c Customer
	require.NoError(t, b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `UPDATE customers SET kyc_status = 'approved', kyc_tier = 2 WHERE id = $1`, id)
		return err
	}, func() (err error) {
		c, err = b.Rename(b.ctx, b.tenant, id, "Somebody Else", nil)
		return err
	}))
	require.Equal(t, []any{KYCNone, 1, "Somebody Else"}, []any{c.KYCStatus, c.KYCTier, c.Name})
	require.Equal(t, c, b.get(id))
}

// One NIN approves one customer of a tenant; the next one with it waits for a person, who may
// approve it all the same.
func TestANINApprovesOneCustomerOfATenant(t *testing.T) {
	b := setup(t)
	submit := func(tenant, id uuid.UUID) KYCStatus {
		got, err := b.SubmitNIN(b.ctx, tenant, id, secret.Redact(nin), Submitter{})
		require.NoError(t, err)
		return got.KYCStatus
	}
	first, second := b.in(KYCNone), b.in(KYCNone)
	require.Equal(t, KYCApproved, submit(b.tenant, first))
	require.Equal(t, KYCPendingReview, submit(b.tenant, second))
	require.Equal(t, 1, b.get(second).KYCTier)
	mine := b.tenant
	b.tenant = b.Tenant()
	require.Equal(t, KYCApproved, submit(b.tenant, b.in(KYCNone)), "another tenant's customer is another")
	b.tenant = mine

	shown, err := b.Show(b.ctx, first)
	require.NoError(t, err)
	require.Zero(t, shown.SameNIN, "the second waits, and is not approved")
	shown, err = b.Show(b.ctx, second)
	require.NoError(t, err)
	require.Equal(t, 1, shown.SameNIN)
	c, err := b.DecideByHand(b.ctx, shown, KYCApprove, byHand)
	require.NoError(t, err)
	require.Equal(t, KYCApproved, c.KYCStatus)
	shown, err = b.Show(b.ctx, second)
	require.NoError(t, err)
	require.True(t, shown.NINShared)
	require.Equal(t, 1, shown.SameNIN, "the first; it does not count itself")

	third := b.in(KYCNone)
	_, _, err = b.SetTier(b.ctx, first, 1, byHand)
	require.NoError(t, err)
	_, _, err = b.SetTier(b.ctx, second, 1, byHand)
	require.NoError(t, err)
	require.Equal(t, KYCApproved, submit(b.tenant, third), "an approval that was taken back does not count")

	// The number cannot be told from what is kept.
	require.NotContains(t, testenv.Value[string](b.Env, `SELECT string_agg(c::text, '') || string_agg(h::text, '') FROM customers c, hash_keys h`), nin)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM hash_keys`))
}

// An approval is marked as one of a NIN that is shared if the NIN has approved another customer of
// the same tenant: another tenant's does not count, nor one that waits.
func TestAnApprovalOfASharedNINIsMarked(t *testing.T) {
	b := setup(t, func(o *Options) { o.Identity = nil }) // each submission waits for a person
	waiting := func() uuid.UUID {
		id := b.in(KYCNone)
		_, err := b.submit(id, nin)
		require.NoError(t, err)
		return id
	}
	approve := func(id uuid.UUID) (shared bool) {
		_, err := b.Decide(b.ctx, Reviewer{TenantID: b.tenant, By: bySession}, id, KYCApprove)
		require.NoError(t, err)
		return testenv.Value[bool](b.Env, `SELECT nin_shared FROM customers WHERE id = $1`, id)
	}
	require.False(t, approve(waiting()))
	b.tenant = b.Tenant()
	first, second := waiting(), waiting()
	require.False(t, approve(first), "another tenant's is approved, and one of this tenant's waits")
	require.True(t, approve(second))
}

// Which customers a NIN has approved is looked up by its hash: a tenant may have millions, and each
// submission and approval asks with the customer's row locked.
func TestANINIsLookedUpBesideManyCustomers(t *testing.T) {
	b := setup(t, func(o *Options) { o.Identity = nil }) // each submission waits for a person
	const many = 3000
	b.Exec(`
		INSERT INTO customers (id, tenant_id, external_ref, name, kyc_status, kyc_tier, nin_hash, nin_shared, created_at, updated_at)
		SELECT gen_random_uuid(), $1, n, 'Ada Obi', 'approved', 2, sha256(n::text::bytea), n % 10 = 0, $2, $2 FROM generate_series(1, $3::int) n`,
		b.tenant, b.Clock.Now(), many)
	b.Exec(`ANALYZE customers`)
	id, waiting := b.in(KYCNone), b.in(KYCNone)
	_, err := b.submit(waiting, nin)
	require.NoError(t, err)
	pool, asked := b.Recorded()
	b.Service.Pool = pool
	_, err = b.submit(id, nin)
	require.NoError(t, err)
	_, err = b.Show(b.ctx, id)
	require.NoError(t, err)
	_, err = b.Decide(b.ctx, Reviewer{TenantID: b.tenant, By: bySession}, id, KYCApprove)
	require.NoError(t, err)
	looked := 0
	for _, s := range asked() {
		if !strings.Contains(s.SQL, "FROM customers") || !strings.Contains(s.SQL, "nin_hash = ") {
			continue
		}
		looked++
		if strings.Contains(s.SQL, "UPDATE") {
			s.Args = []any{waiting} // the other one is approved by now
		}
		most, plan := b.MostRows(s)
		require.Less(t, most, many/10, plan)
		require.Contains(t, plan, "customers_nin_once", plan)
	}
	require.Equal(t, 3, looked)
}

func TestOneNINAtOnce(t *testing.T) {
	b := setup(t)
	for range 3 {
		b.tenant = b.Tenant()
		ids := []uuid.UUID{b.in(KYCNone), b.in(KYCNone), b.in(KYCNone), b.in(KYCNone)}
		fails := make([]error, len(ids))
		var wg sync.WaitGroup
		for i, id := range ids {
			wg.Go(func() { _, fails[i] = b.submit(id, nin) })
		}
		wg.Wait()
		approved := 0
		for i, id := range ids {
			require.NoError(t, fails[i])
			if b.get(id).KYCStatus == KYCApproved {
				approved++
			}
		}
		require.Equal(t, 1, approved)
	}
}

// Of two people who approve two customers of one NIN at the same moment, the second sees what the
// first has decided.
func TestOneNINApprovedByTwoAtOnce(t *testing.T) {
	b := setup(t, func(o *Options) { o.Identity = nil }) // each submission waits for a person
	byOperator := func(sameNIN int) func(uuid.UUID) error {
		return func(id uuid.UUID) error {
			shown, err := b.Show(b.ctx, id)
			require.NoError(t, err)
			shown.SameNIN = sameNIN
			_, err = b.DecideByHand(b.ctx, shown, KYCApprove, byHand)
			return err
		}
	}
	for name, approve := range map[string]func(uuid.UUID) error{
		"a session": func(id uuid.UUID) error {
			_, err := b.Decide(b.ctx, Reviewer{TenantID: b.tenant, By: bySession}, id, KYCApprove)
			return err
		},
		"an operator who was shown another": byOperator(1),
	} {
		b.tenant = b.Tenant()
		first, second := b.in(KYCNone), b.in(KYCNone)
		for _, id := range []uuid.UUID{first, second} {
			_, err := b.submit(id, nin)
			require.NoError(t, err)
		}
		require.NoError(t, b.Meanwhile(func(tx pg.Tx) error {
			_, err := tx.Exec(b.ctx, `UPDATE customers SET kyc_status = 'approved', kyc_tier = 2 WHERE id = $1`, first)
			return err
		}, func() error { return approve(second) }), name)
		require.Equal(t, KYCApproved, b.get(second).KYCStatus, name)
		require.True(t, testenv.Value[bool](b.Env, `SELECT nin_shared FROM customers WHERE id = $1`, second), name)
	}
	b.tenant = b.Tenant()
	first, second := b.in(KYCNone), b.in(KYCNone)
	for _, id := range []uuid.UUID{first, second} {
		_, err := b.submit(id, nin)
		require.NoError(t, err)
	}
	require.ErrorIs(t, b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `UPDATE customers SET kyc_status = 'approved', kyc_tier = 2 WHERE id = $1`, first)
		return err
	}, func() error { return byOperator(0)(second) }), errSharedNIN, "nobody was shown that the NIN has approved the first")
	require.Equal(t, KYCPendingReview, b.get(second).KYCStatus)
	shown, err := b.Show(b.ctx, second)
	require.NoError(t, err)
	require.Equal(t, 1, shown.SameNIN)
	_, err = b.DecideByHand(b.ctx, shown, KYCApprove, byHand)
	require.NoError(t, err)
}

// Operators see and decide what waits, whosever it is: nothing waits for ever.
func TestOperatorsDecideForAnyTenant(t *testing.T) {
	b := setup(t, func(o *Options) { o.Production = true })
	id, other := b.in(KYCPendingReview), b.in(KYCPendingReview)
	b.in(KYCNone)
	b.tenant = b.Tenant()
	theirs := b.in(KYCPendingReview)
	list, info, err := b.Reviews(b.ctx, page.Request{Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{theirs, other}, []uuid.UUID{list[0].ID, list[1].ID})
	require.Equal(t, "Test tenant", list[0].TenantName)
	list, _, err = b.Reviews(b.ctx, page.Request{Limit: 2, After: *info.NextCursor})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, id, list[0].ID)

	c, err := b.Decide(b.ctx, Reviewer{TenantID: b.tenant, Operator: true, By: bySession}, id, KYCApprove)
	require.NoError(t, err)
	require.Equal(t, KYCApproved, c.KYCStatus)
	require.Equal(t, "operator-"+bySession.Actor, testenv.Value[string](b.Env, `SELECT actor FROM audit_log WHERE action = 'kyc.approve'`))

	shown, err := b.Show(b.ctx, other)
	require.NoError(t, err)
	b.Exec(`UPDATE customers SET name = 'Somebody Else' WHERE id = $1`, other)
	_, err = b.DecideByHand(b.ctx, shown, KYCApprove, byHand)
	require.ErrorIs(t, err, errRenamed, "what was looked at is another name")
	shown, err = b.Show(b.ctx, other)
	require.NoError(t, err)
	c, err = b.DecideByHand(b.ctx, shown, KYCReject, byHand)
	require.NoError(t, err)
	require.Equal(t, KYCRejected, c.KYCStatus)
	_, err = b.DecideByHand(b.ctx, shown, KYCReject, byHand)
	require.ErrorIs(t, err, ErrNotPending)
	_, err = b.Show(b.ctx, uuid.New())
	require.ErrorIs(t, err, ErrNotFound)
	_, err = b.DecideByHand(b.ctx, Record{Customer: Customer{ID: uuid.New()}}, KYCApprove, byHand)
	require.ErrorIs(t, err, ErrNotFound)
	records, _, err := audit.List(b.ctx, b.Pool, audit.Filter{Target: "customer:" + other.String()}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, "cli:ada customers.reject papers seen", records[0].Actor+" "+records[0].Action+" "+records[0].Reason)
}

// An operator decides about the NIN that was shown, not about one that was submitted after somebody
// else had rejected that.
func TestAnotherNINIsNotDecided(t *testing.T) {
	const another = "22222222228"
	b := setup(t, func(o *Options) { o.Identity = nil })
	id := b.in(KYCNone)
	_, err := b.submit(id, nin)
	require.NoError(t, err)
	shown, err := b.Show(b.ctx, id)
	require.NoError(t, err)
	rejected := shown
	_, err = b.DecideByHand(b.ctx, rejected, KYCReject, byHand)
	require.NoError(t, err)
	got, err := b.submit(id, another)
	require.NoError(t, err)
	require.Equal(t, KYCPendingReview, got.KYCStatus)
	_, err = b.DecideByHand(b.ctx, shown, KYCApprove, byHand)
	require.ErrorIs(t, err, errAnotherNIN)
	_, err = b.DecideByHand(b.ctx, shown, KYCReject, byHand)
	require.ErrorIs(t, err, errAnotherNIN)
	require.Equal(t, KYCPendingReview, b.get(id).KYCStatus)
	shown, err = b.Show(b.ctx, id)
	require.NoError(t, err)
	c, err := b.DecideByHand(b.ctx, shown, KYCApprove, byHand)
	require.NoError(t, err)
	require.Equal(t, []any{KYCApproved, "2228"}, []any{c.KYCStatus, *c.NINLast4})
	_, err = b.DecideByHand(b.ctx, rejected, KYCReject, byHand)
	require.ErrorIs(t, err, ErrNotPending, "whatever was shown, nothing waits")
}

// Two NINs may end in the same four digits, which are all that operators see of them.
func TestAnotherNINOfTheSameDigitsIsNotDecided(t *testing.T) {
	b := setup(t, func(o *Options) { o.Identity = nil })
	id := b.in(KYCNone)
	_, err := b.submit(id, "11111116789")
	require.NoError(t, err)
	shown, err := b.Show(b.ctx, id)
	require.NoError(t, err)
	_, err = b.DecideByHand(b.ctx, shown, KYCReject, byHand)
	require.NoError(t, err)
	b.Clock.Advance(time.Microsecond)
	_, err = b.submit(id, "22222226789")
	require.NoError(t, err)
	for _, event := range []KYCEvent{KYCApprove, KYCReject} {
		_, err = b.DecideByHand(b.ctx, shown, event, byHand)
		require.ErrorIs(t, err, ErrChanged)
	}
	require.Equal(t, KYCPendingReview, b.get(id).KYCStatus)
}

func TestTiersAndStatuses(t *testing.T) {
	spec.Shows(t, "field.customer.tier.three.self", "state.other.customer", "state.customer-kyc.ended")
	b := setup(t)
	id := b.in(KYCNone)
	for _, tier := range []int{0, 4, -1} {
		_, _, err := b.SetTier(b.ctx, id, tier, byHand)
		require.ErrorIs(t, err, ErrTierRange)
	}
	for _, tier := range []int{2, 3} {
		_, _, err := b.SetTier(b.ctx, id, tier, byHand)
		require.ErrorIs(t, err, errTierKYC)
	}
	_, err := b.submit(id, nin)
	require.NoError(t, err)
	for _, step := range []struct {
		tier    int
		changed bool
		status  KYCStatus
	}{{3, true, KYCApproved}, {3, false, KYCApproved}, {2, true, KYCApproved}, {1, true, KYCNone}, {1, false, KYCNone}} {
		c, changed, err := b.SetTier(b.ctx, id, step.tier, byHand)
		require.NoError(t, err)
		require.Equal(t, []any{step.changed, step.tier, step.status}, []any{changed, c.KYCTier, c.KYCStatus})
		require.Equal(t, c, b.get(id))
	}
	b.Exec(`UPDATE customers SET kyc_tier = 2 WHERE id = $1`, id)
	c, _, err := b.SetTier(b.ctx, id, 1, byHand)
	require.NoError(t, err, "a tier that no approval stands behind can be taken away")
	require.Equal(t, 1, c.KYCTier)
	for _, step := range []struct {
		to      Status
		changed bool
		submit  error
	}{{Suspended, true, ErrSuspended}, {Suspended, false, ErrSuspended}, {Active, true, nil}} {
		c, changed, err := b.SetStatus(b.ctx, id, step.to, byHand)
		require.NoError(t, err)
		require.Equal(t, []any{step.changed, step.to}, []any{changed, c.Status})
		_, err = b.submit(id, nin)
		require.ErrorIs(t, err, step.submit)
	}
	_, err = b.submit(b.in(KYCNone), fakebank.OtherFormNIN)
	require.NoError(t, err)
	records, _, err := audit.List(b.ctx, b.Pool, audit.Filter{Target: "customer:" + id.String()}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, records, 6, "what changed, once each")
	_, _, err = b.SetTier(b.ctx, uuid.New(), 1, byHand)
	require.ErrorIs(t, err, ErrNotFound)
	_, _, err = b.SetStatus(b.ctx, uuid.New(), Active, byHand)
	require.ErrorIs(t, err, ErrNotFound)
}
