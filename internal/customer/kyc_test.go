package customer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/identity"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/testenv"
)

func TestSubmitNIN(t *testing.T) {
	spec.Shows(t, "field.customer.nin.sealed", "state.customer-kyc.approved", "state.customer-kyc.pending", "state.customer-kyc.no-such")
	b := setup(t)
	for name, c := range map[string]struct {
		customer, nin string
		fault         fakebank.Action
		status        KYCStatus
		tier          int
	}{
		"the holder's":        {"Bello Amina", nin, "", KYCApproved, 2},
		"somebody else's":     {"Ada Obi", nin, "", KYCPendingReview, 1},
		"nobody's":            {holder, "11111111111", "", KYCRejected, 1},
		"the service is down": {holder, nin, fakebank.Fail, KYCPendingReview, 1},
		"no answer":           {holder, nin, fakebank.Drop, KYCPendingReview, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, from := range []KYCStatus{KYCNone, KYCRejected} {
				b.tenant = b.Tenant()
				id := b.in(from)
				b.Exec(`UPDATE customers SET name = $2 WHERE id = $1`, id, c.customer)
				if c.fault != "" {
					b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnNIN, Do: c.fault})
					defer b.bank.Faults.Clear()
				}
				b.Clock.Advance(time.Minute)
				last := c.nin[7:]
				got, err := b.submit(id, c.nin)
				require.NoError(t, err)
				require.Equal(t, Submission{ID: id, KYCTier: c.tier, KYCStatus: c.status, NINLast4: &last}, got)
				after := b.get(id)
				require.Equal(t, got, Submission{ID: id, KYCTier: after.KYCTier, KYCStatus: after.KYCStatus, NINLast4: after.NINLast4})
				require.Equal(t, b.Clock.Now(), after.UpdatedAt)

				sealed := testenv.Value[[]byte](b.Env, `SELECT nin FROM customers WHERE id = $1`, id)
				require.NotContains(t, string(sealed), c.nin)
				plain, err := b.Box.Open(secret.Place{Table: "customers", Column: "nin", Row: id.String()}, sealed)
				require.NoError(t, err)
				require.Equal(t, c.nin, string(plain))
			}
		})
	}
	b.log.Has(t, "customer_id=")
	b.log.HasNot(t, nin)
}

func TestNINForm(t *testing.T) {
	spec.Shows(t, "limit.nin")
	b := setup(t)
	for _, bad := range []string{"", "7012345678", "701234567890", " 70123456789", "7012345678a", "７０１２３４５６７８９", "70123456789\n", "-7012345678"} {
		_, err := b.submit(b.in(KYCPendingReview), bad)
		require.ErrorIs(t, err, errNIN, "%q", bad)
		_, err = b.submit(uuid.New(), bad)
		require.ErrorIs(t, err, errNIN, "the form is looked at first")
	}
	require.Zero(t, b.calls())
}

func TestSubmissionsThatAreRefused(t *testing.T) {
	spec.Shows(t, "endpoint.kyc.required")
	b := setup(t)
	foreign := b.Tenant()
	id := b.in(KYCNone)
	_, err := b.SubmitNIN(b.ctx, foreign, id, secret.Redact(nin), Submitter{})
	require.ErrorIs(t, err, ErrNotFound)
	_, err = b.submit(uuid.New(), nin)
	require.ErrorIs(t, err, ErrNotFound)
	for _, c := range []struct {
		kyc    KYCStatus
		tier   int
		status Status
		want   error
	}{
		{KYCApproved, 1, Active, ErrTier},
		{KYCApproved, 2, Active, ErrTier},
		{KYCApproved, 3, Active, ErrTier},
		{KYCNone, 3, Active, ErrTier},
		{KYCApproved, 2, Suspended, ErrTier},
		{KYCPendingReview, 2, Active, ErrTier},
		{KYCPendingReview, 1, Active, ErrPending},
		{KYCPendingReview, 1, Suspended, ErrPending},
		{KYCNone, 1, Suspended, ErrSuspended},
		{KYCRejected, 1, Suspended, ErrSuspended},
	} {
		id := b.in(c.kyc)
		b.Exec(`UPDATE customers SET kyc_tier = $2, status = $3 WHERE id = $1`, id, c.tier, c.status)
		before := b.get(id)
		got, err := b.submit(id, nin)
		require.ErrorIs(t, err, c.want, "%+v", c)
		require.Zero(t, got)
		require.Equal(t, before, b.get(id))
	}
	require.Zero(t, b.calls(), "nobody is paid for what is refused")
}

func TestWithoutANINService(t *testing.T) {
	b := setup(t, func(o *Options) { o.Identity = nil })
	got, err := b.submit(b.in(KYCNone), nin)
	require.NoError(t, err)
	require.Equal(t, KYCPendingReview, got.KYCStatus)
}

func TestSlowNINService(t *testing.T) {
	b := setup(t, func(o *Options) {
		o.CheckTimeout = 20 * time.Millisecond
		o.Identity = answers(func(ctx context.Context, _, _ string) (identity.Result, error) {
			<-ctx.Done()
			return 0, errors.Join(ctx.Err(), identity.ErrUnavailable)
		})
	})
	got, err := b.submit(b.in(KYCNone), nin)
	require.NoError(t, err)
	require.Equal(t, KYCPendingReview, got.KYCStatus)
}

// During the check no transaction is open and nothing is locked; what happened to the customer
// meanwhile counts.
func TestWhatHappensDuringTheCheck(t *testing.T) {
	var meanwhile func()
	b := setup(t, func(o *Options) {
		o.Identity = answers(func(context.Context, string, string) (identity.Result, error) {
			meanwhile()
			return identity.Match, nil
		})
	})
	for _, c := range []struct {
		change string
		want   error
		status KYCStatus
	}{
		{`UPDATE customers SET status = 'suspended' WHERE id = $1`, ErrSuspended, KYCNone},
		{`UPDATE customers SET kyc_status = 'approved', kyc_tier = 2 WHERE id = $1`, ErrTier, KYCApproved},
		{`UPDATE customers SET kyc_status = 'pending_review' WHERE id = $1`, ErrPending, KYCPendingReview},
		// one after the other
		{`UPDATE customers SET kyc_status = 'rejected' WHERE id = $1`, nil, KYCApproved},
		{`UPDATE customers SET name = 'Somebody Else' WHERE id = $1`, nil, KYCPendingReview},
		{`DELETE FROM customers WHERE id = $1`, ErrNotFound, ""},
	} {
		b.tenant = b.Tenant()
		id := b.in(KYCNone)
		meanwhile = func() {
			b.Exec(c.change, id)
			require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`))
		}
		_, err := b.submit(id, nin)
		require.ErrorIs(t, err, c.want, c.change)
		if c.status == "" {
			continue
		}
		after := b.get(id)
		require.Equal(t, c.status, after.KYCStatus, c.change)
		require.Equal(t, c.want == nil, after.NINLast4 != nil, "a refused submission leaves no NIN")
	}
}

// Many submissions at once, of numbers with every outcome: the customer ends as one of them left
// it, with that one's NIN.
func TestSubmissionsAtOnce(t *testing.T) {
	b := setup(t)
	numbers := map[string]KYCStatus{nin: KYCApproved, fakebank.OtherFormNIN: KYCPendingReview, "11111111111": KYCRejected}
	for range 10 {
		b.tenant = b.Tenant()
		id := b.in(KYCNone)
		var wg sync.WaitGroup
		var mu sync.Mutex
		ended := map[KYCStatus]int{}
		for number, want := range numbers {
			for range 2 {
				wg.Go(func() {
					got, err := b.submit(id, number)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						ended[got.KYCStatus]++
						if got.KYCStatus != want || *got.NINLast4 != number[7:] {
							t.Errorf("%s got %+v", number, got)
						}
					} else if !errors.Is(err, ErrTier) && !errors.Is(err, ErrPending) {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		after := b.get(id)
		require.Equal(t, 1, ended[KYCApproved]+ended[KYCPendingReview], "of those that end it, one does")
		require.Equal(t, 1, ended[after.KYCStatus])
		require.Equal(t, after.KYCStatus == KYCApproved, after.KYCTier == 2)
		sealed := testenv.Value[[]byte](b.Env, `SELECT nin FROM customers WHERE id = $1`, id)
		plain, err := b.Box.Open(secret.Place{Table: "customers", Column: "nin", Row: id.String()}, sealed)
		require.NoError(t, err)
		require.Equal(t, after.KYCStatus, numbers[string(plain)])
		require.Equal(t, string(plain[7:]), *after.NINLast4)
	}
}

func TestDecisions(t *testing.T) {
	spec.Shows(t, "state.customer-kyc.approve", "state.customer-kyc.reject", "state.customer-kyc.resubmit")
	b := setup(t)
	by := Reviewer{TenantID: b.tenant, By: bySession}
	id := b.in(KYCNone)
	b.Exec(`UPDATE customers SET name = 'Ada Obi' WHERE id = $1`, id)
	_, err := b.submit(id, nin)
	require.NoError(t, err)
	_, err = b.Decide(b.ctx, Reviewer{TenantID: b.Tenant(), By: bySession}, id, KYCApprove)
	require.ErrorIs(t, err, ErrNotFound, "another tenant's")
	_, err = b.Decide(b.ctx, by, uuid.New(), KYCApprove)
	require.ErrorIs(t, err, ErrNotFound)

	b.Clock.Advance(time.Hour)
	c, err := b.Decide(b.ctx, by, id, KYCReject)
	require.NoError(t, err)
	require.Equal(t, KYCRejected, c.KYCStatus)
	require.Equal(t, 1, c.KYCTier)
	require.Equal(t, b.Clock.Now(), c.UpdatedAt)
	require.Equal(t, c, b.get(id))
	_, err = b.Decide(b.ctx, by, id, KYCApprove)
	require.ErrorIs(t, err, ErrNotPending)

	_, err = b.submit(id, fakebank.OtherFormNIN)
	require.NoError(t, err, "a rejected customer may submit again")
	c, err = b.Decide(b.ctx, by, id, KYCApprove)
	require.NoError(t, err)
	require.Equal(t, KYCApproved, c.KYCStatus)
	require.Equal(t, 2, c.KYCTier)
	require.Equal(t, "6780", *c.NINLast4)
	require.Equal(t, c, b.get(id))
	for _, event := range []KYCEvent{KYCApprove, KYCReject} {
		_, err = b.Decide(b.ctx, by, id, event)
		require.ErrorIs(t, err, ErrNotPending)
	}
	records, _, err := audit.List(b.ctx, b.Pool, audit.Filter{Target: "customer:" + id.String()}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, records, 2, "each decision once, and nothing of what was refused")
	for i, want := range []struct{ action, detail string }{
		{"kyc.approve", `{"name": "Ada Obi", "ninLast4": "6780", "kycTier": 2}`},
		{"kyc.reject", `{"name": "Ada Obi", "ninLast4": "6789", "kycTier": 1}`},
	} {
		require.Equal(t, bySession.Actor, records[i].Actor)
		require.Equal(t, want.action, records[i].Action)
		require.JSONEq(t, want.detail, string(records[i].Detail))
	}

	tier3 := b.in(KYCPendingReview)
	b.Exec(`UPDATE customers SET kyc_tier = 3 WHERE id = $1`, tier3)
	c, err = b.Decide(b.ctx, by, tier3, KYCApprove)
	require.NoError(t, err)
	require.Equal(t, 3, c.KYCTier, "an approval never lowers a tier")
}

func TestDecisionsInProduction(t *testing.T) {
	spec.Shows(t, "state.customer-kyc.operator")
	b := setup(t, func(o *Options) { o.Production = true })
	for _, event := range []KYCEvent{KYCApprove, KYCReject} {
		id := b.in(KYCPendingReview)
		for _, any := range []uuid.UUID{id, uuid.New()} {
			_, err := b.Decide(b.ctx, Reviewer{TenantID: b.tenant, By: bySession}, any, event)
			require.ErrorIs(t, err, errOperator)
		}
		require.Equal(t, KYCPendingReview, b.get(id).KYCStatus)
		_, err := b.Decide(b.ctx, Reviewer{TenantID: b.tenant, Operator: true, By: bySession}, id, event)
		require.NoError(t, err)
	}
}

func TestDecisionsAtOnce(t *testing.T) {
	b := setup(t)
	for range 10 {
		id := b.in(KYCPendingReview)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []KYCStatus
		for i := range 8 {
			event := []KYCEvent{KYCApprove, KYCReject}[i%2]
			wg.Go(func() {
				c, err := b.Decide(b.ctx, Reviewer{TenantID: b.tenant, By: bySession}, id, event)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, c.KYCStatus)
				} else if !errors.Is(err, ErrNotPending) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, []KYCStatus{b.get(id).KYCStatus}, won)
	}
}

// Every state × event pair, through the use cases.
func TestEveryStateAndEvent(t *testing.T) {
	spec.Shows(t, "state.customer-kyc.values")
	var result identity.Result
	var err error
	b := setup(t, func(o *Options) {
		o.Identity = answers(func(context.Context, string, string) (identity.Result, error) { return result, err })
	})
	drive := func(id uuid.UUID, e KYCEvent) (failed error) {
		by := Reviewer{TenantID: b.tenant, By: bySession}
		switch e {
		case KYCRename:
			before := b.get(id).KYCStatus
			if c, err := b.Rename(b.ctx, b.tenant, id, "Another "+holder, nil); err != nil || c.KYCStatus == before {
				return ErrNotPending // a name is changed in every state, and moves one
			}
			return nil
		case KYCRevoke:
			if _, changed, err := b.SetTier(b.ctx, id, 1, byHand); err != nil || !changed {
				return ErrNotPending
			}
			return nil
		case KYCApprove, KYCReject:
			_, failed = b.Decide(b.ctx, by, id, e)
			return failed
		}
		result, err = map[KYCEvent]identity.Result{KYCMatch: identity.Match, KYCNoSuch: identity.NoSuch}[e], nil
		if e == KYCDoubt {
			err = identity.ErrUnavailable
		}
		_, failed = b.submit(id, nin)
		return failed
	}
	require.ElementsMatch(t, []KYCStatus{KYCNone, KYCPendingReview, KYCApproved, KYCRejected}, KYCTransitions.States())
	for _, from := range KYCTransitions.States() {
		for _, event := range KYCTransitions.Events() {
			b.tenant = b.Tenant()
			id := b.in(from)
			to, allowed := KYCTransitions.Next(from, event)
			failed := drive(id, event)
			require.Equal(t, allowed, failed == nil, "%s on %s: %v", event, from, failed)
			if !allowed {
				to = from
			}
			after := b.get(id)
			require.Equal(t, to, after.KYCStatus, "%s on %s", event, from)
			require.Equal(t, to == KYCApproved, after.KYCTier == 2, "%s on %s", event, from)
		}
	}
}

// Every state × state pair: the schema allows the moves of the table and no others.
func TestSchemaHasTheSameMoves(t *testing.T) {
	b := setup(t)
	for _, from := range KYCTransitions.States() {
		for _, to := range KYCTransitions.States() {
			if from == to {
				continue
			}
			_, err := b.Pool.Exec(b.ctx, `UPDATE customers SET kyc_status = $2 WHERE id = $1`, b.in(from), to)
			if slices.Contains(KYCTransitions.Moves(), [2]string{string(from), string(to)}) {
				require.NoError(t, err, "%s to %s", from, to)
			} else {
				require.Equal(t, "23514", pg.Code(err), "%s to %s", from, to)
			}
		}
	}
	_, err := b.Pool.Exec(b.ctx, `UPDATE customers SET kyc_status = 'verified' WHERE id = $1`, b.in(KYCNone))
	require.Equal(t, "23514", pg.Code(err), "no other state exists")
}
