package customer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/testenv"
)

func TestGet(t *testing.T) {
	b := setup(t)
	id := b.in(KYCNone)
	c := b.get(id)
	require.Equal(t, Customer{
		ID: id, TenantID: b.tenant, ExternalRef: id.String(), Name: holder, KYCTier: 1, KYCStatus: KYCNone, Status: Active,
		CreatedAt: b.Clock.Now(), UpdatedAt: b.Clock.Now(),
	}, c)
	for _, unknown := range []uuid.UUID{uuid.Nil, uuid.New()} {
		_, err := b.Get(b.ctx, b.tenant, unknown)
		require.ErrorIs(t, err, ErrNotFound)
	}
	_, err := b.Get(b.ctx, b.Tenant(), id)
	require.ErrorIs(t, err, ErrNotFound, "another tenant's")
}

// A page of customers looks at the tenant's own, and ends where it has looked at its share: the
// next one goes on there.
func TestCustomersBehindManyOthers(t *testing.T) {
	b := setup(t)
	own := b.in(KYCApproved)
	many := func(tenant uuid.UUID) {
		b.Exec(`INSERT INTO customers (id, tenant_id, external_ref, name, created_at, updated_at)
			SELECT `+testenv.IDsAfter(own)+`, $1, 'c' || n, 'Ada Obi', $2, $2 FROM generate_series(1, $3::int) n`, tenant, b.Clock.Now(), pg.ScanLimit)
	}
	pages := func() (out [][]uuid.UUID) {
		for _, rows := range testenv.Pages(t, 10, func(r page.Request) ([]Customer, page.Info, error) {
			return b.List(b.ctx, b.tenant, Filter{KYCStatus: KYCApproved}, r)
		}) {
			var ids []uuid.UUID
			for _, c := range rows {
				ids = append(ids, c.ID)
			}
			out = append(out, ids)
		}
		return out
	}
	many(b.Tenant())
	require.Equal(t, [][]uuid.UUID{{own}}, pages())
	many(b.tenant)
	require.Equal(t, [][]uuid.UUID{nil, {own}}, pages())
}

func TestListPages(t *testing.T) {
	b := setup(t)
	other := b.Tenant()
	b.Account(other, "theirs")
	var want, got []uuid.UUID
	for range 5 {
		want = append(want, b.in(KYCNone))
	}
	slices.Reverse(want)
	r := page.Request{Limit: 2}
	for {
		list, info, err := b.List(b.ctx, b.tenant, Filter{}, r)
		require.NoError(t, err)
		for _, c := range list {
			got = append(got, c.ID)
		}
		if !info.HasMore {
			require.Nil(t, info.NextCursor)
			break
		}
		b.in(KYCNone) // what is inserted meanwhile does not shift the pages
		r.After = *info.NextCursor
	}
	require.Equal(t, want, got)
	_, _, err := b.List(b.ctx, b.tenant, Filter{}, page.Request{Limit: 2, After: page.ID(page.Transfers, b.tenant)})
	require.ErrorIs(t, err, page.ErrCursor)
	list, info, err := b.List(b.ctx, b.Tenant(), Filter{}, page.Request{Limit: 2})
	require.NoError(t, err)
	require.Empty(t, list)
	require.False(t, info.HasMore)
}

func TestRename(t *testing.T) {
	b := setup(t)
	id := b.in(KYCRejected)
	b.Clock.Advance(time.Hour)
	c, err := b.Rename(b.ctx, b.tenant, id, "  Adébáyọ̀ Stores ", nil)
	require.NoError(t, err)
	require.Equal(t, "Adébáyọ̀ Stores", c.Name)
	require.Equal(t, b.Clock.Now(), c.UpdatedAt)
	require.Equal(t, c, b.get(id))
	for name, want := range map[string]error{
		"": ErrNameMissing, " \t": ErrNameMissing, strings.Repeat("ọ", 201): errNameTooLong, "a\x00b": errNameControls, "a\nb": errNameControls,
	} {
		_, err := b.Rename(b.ctx, b.tenant, id, name, nil)
		require.ErrorIs(t, err, want)
	}
	_, err = b.Rename(b.ctx, b.tenant, uuid.New(), "X", nil)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = b.Rename(b.ctx, b.Tenant(), id, "X", nil)
	require.ErrorIs(t, err, ErrNotFound)
	require.Equal(t, c, b.get(id))
}

func TestEnsure(t *testing.T) {
	spec.Shows(t, "endpoint.provision.bvn.tier")
	b := setup(t)
	ensure := func(name, bvn string) (id uuid.UUID, err error) {
		err = pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			id, err = Ensure(b.ctx, tx, b.Box, b.Clock.Now(), NewCustomer{TenantID: b.tenant, ExternalRef: "ref", Name: name, BVN: secret.Redact(bvn)})
			return err
		})
		return id, err
	}
	id, err := ensure("Ada Obi", "")
	require.NoError(t, err)
	require.Nil(t, b.get(id).BVNLast4)
	again, err := ensure("Another Name", "22233344455")
	require.NoError(t, err)
	require.Equal(t, id, again)
	c := b.get(id)
	require.Equal(t, "Ada Obi", c.Name, "the name stays")
	require.Equal(t, "4455", *c.BVNLast4)
	require.Equal(t, 1, c.KYCTier)
	_, err = ensure("Ada Obi", "11111111111")
	require.NoError(t, err)
	require.Equal(t, "4455", *b.get(id).BVNLast4, "the first BVN stays")
	sealed := testenv.Value[[]byte](b.Env, `SELECT bvn FROM customers WHERE id = $1`, id)
	require.NotContains(t, string(sealed), "22233344455")
	b.Exec(`UPDATE customers SET status = 'suspended' WHERE id = $1`, id)
	_, err = ensure("Ada Obi", "")
	require.ErrorIs(t, err, ErrSuspended)
}
