package webhook

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/retry"
)

// Each change is one of the delivery or the tenant that it names: no row of another tenant changes
// with it, nor another delivery of its own; and what is read is the tenant's own.
func TestChangesTouchNoOthers(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(200))
	url := func(name string) string { return r.URL + "/" + name }
	tenant, account := b.tenant, b.account
	row := func(id uuid.UUID) string { return "deliveries (" + id.String() }
	event := func() NewDelivery {
		p := b.payment(url("account"))
		b.queue(p)
		return p
	}
	// another tenant, and another account of the first, with deliveries in each state
	b.tenant = b.Env.Tenant()
	b.account = b.Env.Account(b.tenant, "customer-1")
	b.Exec(`UPDATE tenants SET webhook_url = $2 WHERE id = $1`, b.tenant, url("stranger"))
	b.in(Pending)
	b.in(Dead)
	b.in(Delivered)
	event()
	b.tenant, b.account = tenant, account
	b.account = b.Env.Account(tenant, "customer-2")
	b.Exec(`UPDATE accounts SET callback_url = $2 WHERE id = $1`, b.account, url("sibling"))
	b.in(Pending)
	b.in(Dead)
	b.account = account
	b.Exec(`UPDATE tenants SET webhook_url = $2 WHERE id = $1`, tenant, url("mine"))

	since := b.Clock.Now()
	dead, second, old := b.in(Dead), b.in(Dead), b.deadAt(since.Add(-time.Millisecond))
	b.in(Delivered)
	b.in(Pending)
	sent, gone := b.queueOne(url("sent")), b.queueOne("http://127.0.0.1:1/")
	b.Touches(func() { require.NoError(t, b.Replay(b.ctx, dead, byHand)) }, row(dead))
	b.Touches(func() {
		_, err := b.ReplayOwn(b.ctx, tenant, second, byHand)
		require.NoError(t, err)
	}, row(second))
	_, err := b.ReplayOwn(b.ctx, b.Env.Tenant(), old, byHand)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = b.ReplayOwn(b.ctx, tenant, sent, byHand)
	require.ErrorIs(t, err, ErrNotDeadLetter)
	b.Touches(func() {
		n, more, err := b.ReplaySince(b.ctx, tenant, since, byHand)
		require.NoError(t, err)
		require.Equal(t, 1, n, "the sibling's; that of a moment before is too old")
		require.False(t, more)
	}, "customer-2", b.siblingsDead(tenant).String())
	b.Touches(func() { require.NoError(t, b.Deliver(b.ctx, sent)) }, row(sent), "work (deliver,"+sent.String())
	b.Touches(func() {
		_, again := retry.When(b.Deliver(b.ctx, gone))
		require.True(t, again)
	}, row(gone), "work (deliver,"+gone.String())
	b.Touches(func() {
		_, err := b.Choose(b.ctx, tenant, []Type{SettlementFailed}, byHand)
		require.NoError(t, err)
	}, "tenants ("+tenant.String())

	p := event()
	for group, want := range map[uuid.UUID]error{p.TransactionGroupID: nil, uuid.New(): ErrEventNotFound} {
		b.Touches(func() {
			d, err := b.Resend(b.ctx, tenant, group, PaymentReceived, nil, byHand)
			require.ErrorIs(t, err, want)
			if want == nil {
				require.Equal(t, url("mine"), d.CallbackURL)
				require.Equal(t, p.TransactionGroupID.String(), b.groupOf(d.ID).String())
			}
		})
	}
	letters, _, err := b.DeadLetters(b.ctx, tenant, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, old, letters[0].ID)
}

// siblingsDead is the dead letter of the tenant's second account.
func (b *bundle) siblingsDead(tenant uuid.UUID) (id uuid.UUID) {
	b.T.Helper()
	require.NoError(b.T, b.Pool.QueryRow(context.Background(), `
		SELECT d.id FROM deliveries d JOIN accounts a ON a.id = d.account_id WHERE d.tenant_id = $1 AND a.account_ref = 'customer-2' AND d.dead`, tenant).Scan(&id))
	return id
}

func (b *bundle) groupOf(id uuid.UUID) (group uuid.UUID) {
	b.T.Helper()
	require.NoError(b.T, b.Pool.QueryRow(context.Background(), `SELECT transaction_group_id FROM deliveries WHERE id = $1`, id).Scan(&group))
	return group
}
