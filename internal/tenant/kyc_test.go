package tenant

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fsm"
	"ajo/internal/spec"
	"ajo/internal/testenv"
)

func TestBusinessKYC(t *testing.T) {
	spec.Shows(t, "field.tenant.business", "state.tenant-kyc.verified", "endpoint.business-kyc.type", "endpoint.business-kyc.cac")
	b := setup(t)
	ctx := context.Background()
	for _, kind := range []string{"sole_proprietor", "registered_business", "ngo", "other"} {
		id := b.Tenant()
		got, err := b.BusinessKYC(ctx, id, kind, " RC 123456 ", bySession)
		require.NoError(t, err)
		require.Equal(t, BusinessKYC{KYCStatus: KYCVerified, BusinessType: kind}, got)
		require.Equal(t, "RC 123456", testenv.Value[string](b.Env, `SELECT cac_number FROM tenants WHERE id = $1`, id))
		me, err := b.Me(ctx, id)
		require.NoError(t, err)
		require.Equal(t, KYCVerified, me.KYCStatus)
		require.Equal(t, kind, *me.BusinessType)
		_, err = b.BusinessKYC(ctx, id, "other", "", bySession)
		require.ErrorIs(t, err, errKYCVerified)
	}
	id := b.Tenant()
	_, err := b.BusinessKYC(ctx, id, "", "", bySession)
	require.ErrorIs(t, err, errBusinessTypeMissing)
	_, err = b.BusinessKYC(ctx, id, "NGO", "", bySession)
	require.ErrorIs(t, err, errBusinessType)
	_, err = b.BusinessKYC(ctx, id, "ngo", strings.Repeat("1", 65), bySession)
	require.ErrorIs(t, err, errCACNumber)
	_, err = b.BusinessKYC(ctx, id, "ngo", "RC\x00", bySession)
	require.ErrorIs(t, err, errCACNumber)
	_, err = b.BusinessKYC(ctx, id, "ngo", "", bySession)
	require.NoError(t, err)
}

// Payments and payouts write rows that refer to the tenant, such as deliveries. They do not wait
// for a business KYC that waits for its member.
func TestMoneyDoesNotWaitForBusinessKYC(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	in := b.shop("ada@example.com")
	ada := bySession.While(b.Standing(Tenant{}, in.owner.Token, Owner))
	require.NoError(t, b.InOrder(
		testenv.Runs(`SELECT FROM members WHERE id = $1 FOR NO KEY UPDATE`, b.member(in.owner).ID),
		testenv.Runs(`SELECT FROM tenants WHERE id = $1 FOR KEY SHARE`, in.id), // as an insert does
		func() error { _, err := b.BusinessKYC(ctx, in.id, "ngo", "", ada); return err }))
}

// Every state × event pair.
func TestKYCTransitions(t *testing.T) {
	spec.Shows(t, "state.tenant-kyc.values", "state.tenant-kyc.others")
	b := setup(t)
	states := []KYCStatus{KYCUnverified, KYCPendingReview, KYCVerified}
	place := func(id uuid.UUID, s KYCStatus) { // whatever the table says
		b.Exec(`ALTER TABLE tenants DISABLE TRIGGER tenants_kyc`)
		b.Exec(`UPDATE tenants SET kyc_status = $2, business_type = CASE WHEN $2 = 'unverified' THEN NULL ELSE 'other' END WHERE id = $1`, id, s)
		b.Exec(`ALTER TABLE tenants ENABLE TRIGGER tenants_kyc`)
	}
	for _, from := range states {
		for _, to := range states {
			if from == to {
				continue
			}
			id := b.Tenant()
			place(id, from)
			_, err := b.Pool.Exec(context.Background(), `UPDATE tenants SET kyc_status = $2, business_type = 'other' WHERE id = $1`, id, to)
			require.Equal(t, slices.Contains(KYCTransitions.Moves(), [2]string{string(from), string(to)}), err == nil, "%s>%s: %v", from, to, err)
		}
		id := b.Tenant()
		place(id, from)
		for _, event := range KYCTransitions.Events() {
			require.Equal(t, KYCSubmit, event)
			to, ok := KYCTransitions.Next(from, event)
			_, err := b.BusinessKYC(context.Background(), id, "ngo", "", bySession)
			if ok {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
				to = from
			}
			require.Equal(t, string(to), testenv.Value[string](b.Env, `SELECT kyc_status FROM tenants WHERE id = $1`, id))
		}
	}
	require.Equal(t, refuseKYC(KYCPendingReview), errKYCPending)
	require.NotContains(t, KYCTransitions.States(), KYCPendingReview, "reserved: docs/decisions.md, \"Customers and KYC\"")
	require.NotContains(t, KYCTransitions.States(), KYCStatus(fsm.Start))
}

func TestBusinessKYCAtOnce(t *testing.T) {
	b := setup(t)
	id := b.Tenant()
	var wg sync.WaitGroup
	var ok atomic.Int32
	for range 10 {
		wg.Go(func() {
			if _, err := b.BusinessKYC(context.Background(), id, "ngo", "", bySession); err == nil {
				ok.Add(1)
			} else {
				require.ErrorIs(t, err, errKYCVerified)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int32(1), ok.Load())
}
