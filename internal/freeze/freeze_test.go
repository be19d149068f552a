package freeze_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/freeze"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

var by = audit.By{Actor: "cli:ada", Reason: "a ticket"}

type bundle struct {
	*testenv.Env
	ctx context.Context
	svc *freeze.Service
}

func setup(t *testing.T) *bundle {
	t.Parallel()
	e := testenv.New(t)
	return &bundle{e, context.Background(), &freeze.Service{Pool: e.Pool, Clock: e.Clock}}
}

func (b *bundle) begin(n freeze.New) freeze.Freeze {
	b.T.Helper()
	f, err := b.svc.Begin(b.ctx, n, by)
	require.NoError(b.T, err)
	return f
}

// list are the freezes of a status, page by page.
func (b *bundle) list(status freeze.Status) (ids []uuid.UUID) {
	b.T.Helper()
	after := ""
	for {
		all, info, err := b.svc.List(b.ctx, status, page.Request{Limit: 1, After: after})
		require.NoError(b.T, err)
		for _, f := range all {
			ids = append(ids, f.ID)
		}
		if !info.HasMore {
			return ids
		}
		after = *info.NextCursor
	}
}

// A page of freezes ends where it has looked at its share: the next one goes on there.
func TestFreezesBehindManyOthers(t *testing.T) {
	b := setup(t)
	own := b.begin(freeze.New{Scope: freeze.Payouts})
	b.Exec(`INSERT INTO freezes (id, scope, subject, reason, actor, created_at, lifted_at)
		SELECT `+testenv.IDsAfter(own.ID)+`, f.scope, f.subject, f.reason, f.actor, f.created_at, f.created_at FROM freezes f, generate_series(1, $1::int)`, pg.ScanLimit)
	var sizes []int
	for _, rows := range testenv.Pages(t, 10, func(r page.Request) ([]freeze.Freeze, page.Info, error) { return b.svc.List(b.ctx, freeze.Standing, r) }) {
		sizes = append(sizes, len(rows))
	}
	require.Equal(t, []int{0, 1}, sizes)
}

// A freeze stands until its time has come, to the microsecond, or until it is lifted, and is lifted
// once. Each one is found and listed by itself, with whose payouts it stops.
func TestFreezesByTheirEnd(t *testing.T) {
	b := setup(t)
	tenant := b.Tenant()
	account := b.Account(tenant, "a")
	until := b.Clock.Now().Add(time.Hour)
	for _, past := range []time.Time{b.Clock.Now(), b.Clock.Now().Add(-time.Microsecond)} {
		_, err := b.svc.Begin(b.ctx, freeze.New{Scope: freeze.Tenant, Subject: tenant, Until: &past}, by)
		require.ErrorIs(t, err, freeze.ErrUntil)
	}
	open := b.begin(freeze.New{Scope: freeze.Tenant, Subject: tenant})
	bounded := b.begin(freeze.New{Scope: freeze.Account, Subject: account, Until: &until})
	all := b.begin(freeze.New{Scope: freeze.Payouts})
	require.Equal(t, []*uuid.UUID{&tenant, &tenant, nil}, []*uuid.UUID{open.TenantID, bounded.TenantID, all.TenantID})
	require.Equal(t, []string{"tenant:" + tenant.String(), "account:" + account.String(), "payouts:all"}, []string{open.Target(), bounded.Target(), all.Target()})
	found, err := b.svc.Find(b.ctx, bounded.ID)
	require.NoError(t, err)
	require.Equal(t, bounded.ID, found.ID)

	b.Clock.Set(until.Add(-time.Microsecond))
	require.True(t, bounded.Stands(b.Clock.Now()))
	require.Equal(t, []uuid.UUID{all.ID, bounded.ID, open.ID}, b.list(freeze.Standing))
	require.Empty(t, b.list(freeze.Ended))
	b.Clock.Set(until)
	require.False(t, bounded.Stands(b.Clock.Now()))
	require.Equal(t, []uuid.UUID{all.ID, open.ID}, b.list(freeze.Standing))
	require.Equal(t, []uuid.UUID{bounded.ID}, b.list(freeze.Ended))
	_, err = b.svc.Lift(b.ctx, bounded.ID, by)
	require.ErrorIs(t, err, freeze.ErrEnded)
	lifted, err := b.svc.Lift(b.ctx, open.ID, by)
	require.NoError(t, err)
	require.Equal(t, open.ID, lifted.ID)
	require.False(t, lifted.Stands(b.Clock.Now()))
	_, err = b.svc.Lift(b.ctx, open.ID, by)
	require.ErrorIs(t, err, freeze.ErrEnded)
	require.Equal(t, []uuid.UUID{all.ID}, b.list(freeze.Standing))
	require.Equal(t, []uuid.UUID{bounded.ID, open.ID}, b.list(freeze.Ended))
	require.Equal(t, []uuid.UUID{all.ID, bounded.ID, open.ID}, b.list(""))
	for _, unknown := range []error{
		func() error { _, err := b.svc.Lift(b.ctx, uuid.New(), by); return err }(),
		func() error { _, err := b.svc.Find(b.ctx, uuid.New()); return err }(),
	} {
		require.ErrorIs(t, unknown, freeze.ErrNotFound)
	}
	_, _, err = b.svc.List(b.ctx, "thawed", page.Request{Limit: 1})
	require.ErrorIs(t, err, freeze.ErrStatus)
}

// Of two who lift a freeze at once the second waits for the first, and is refused.
func TestAFreezeIsLiftedOnce(t *testing.T) {
	b := setup(t)
	f := b.begin(freeze.New{Scope: freeze.Payouts})
	require.ErrorIs(t, b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `UPDATE freezes SET lifted_at = $2 WHERE id = $1`, f.ID, b.Clock.Now())
		return err
	}, func() error {
		_, err := b.svc.Lift(b.ctx, f.ID, by)
		return err
	}), freeze.ErrEnded)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log`), "of its beginning")
}

// The list begins with the tenants that are suspended, each with the last word of its own log, and
// not with others; their freezes follow, and later pages have no suspensions.
func TestSuspendedTenantsAreListed(t *testing.T) {
	b := setup(t)
	first, second, active := b.Tenant(), b.Tenant(), b.Tenant()
	say := func(tenant uuid.UUID, action, reason string) {
		require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			b.Clock.Advance(time.Second)
			return audit.Write(b.ctx, tx, b.Clock.Now(), audit.By{Actor: "cli:ada", Reason: reason}.Entry(action, "tenant:"+tenant.String(), nil).Of(tenant))
		}))
	}
	say(first, "tenant.suspend", "an old word")
	say(first, "tenant.suspend", "fraud")
	say(first, "tenant.other", "something else")
	say(second, "tenant.close", "it leaves")
	say(active, "tenant.suspend", "long over")
	b.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = ANY($1)`, []uuid.UUID{first, second})
	f := b.begin(freeze.New{Scope: freeze.Payouts})
	for status, want := range map[freeze.Status][]string{"": {"it leaves", "fraud", "a ticket"}, freeze.Standing: {"it leaves", "fraud", "a ticket"}, freeze.Ended: nil} {
		list, _, err := b.svc.List(b.ctx, status, page.Request{Limit: 10})
		require.NoError(t, err)
		var got []string
		for _, x := range list {
			got = append(got, x.Reason)
		}
		require.Equal(t, want, got, status)
	}
	list, info, err := b.svc.List(b.ctx, "", page.Request{Limit: 1})
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.False(t, info.HasMore)
	require.Equal(t, []uuid.UUID{second, first, uuid.Nil}, []uuid.UUID{list[0].Subject, list[1].Subject, list[2].Subject})
	require.Equal(t, f.ID, list[2].ID)
	b.begin(freeze.New{Scope: freeze.Payouts})
	_, info, err = b.svc.List(b.ctx, "", page.Request{Limit: 1})
	require.NoError(t, err)
	rest, _, err := b.svc.List(b.ctx, "", page.Request{Limit: 1, After: *info.NextCursor})
	require.NoError(t, err)
	require.Len(t, rest, 1)
}

// Of a tenant whose suspension the audit log has no more, the list does not say since when it is
// suspended: another change of the tenant says nothing about that.
func TestSuspendedBeforeTheAuditLog(t *testing.T) {
	b := setup(t)
	forgotten, known := b.Tenant(), b.Tenant()
	b.Exec(`UPDATE tenants SET status = 'suspended', updated_at = $2 WHERE id = ANY($1)`, []uuid.UUID{forgotten, known}, b.Clock.Now())
	since := b.Clock.Now()
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		return audit.Write(b.ctx, tx, since, by.Entry("tenant.suspend", "tenant:"+known.String(), nil).Of(known))
	}))
	b.Clock.Advance(400 * 24 * time.Hour)
	b.Exec(`UPDATE tenants SET payout_fee_by = 'tenant', updated_at = $2 WHERE id = $1`, forgotten, b.Clock.Now())
	list, _, err := b.svc.List(b.ctx, freeze.Standing, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, []uuid.UUID{known, forgotten}, []uuid.UUID{list[0].Subject, list[1].Subject})
	require.Equal(t, since, list[0].CreatedAt.UTC())
	require.Nil(t, list[1].CreatedAt)
}

// A freeze returns once the transactions that had written transfers before it have ended; it waits
// neither for those of another database's or of readers, nor for those that come later.
func TestAFreezeWaitsForWritersAlone(t *testing.T) {
	b := setup(t)
	tenant := b.Tenant()
	write := `UPDATE transfers SET updated_at = updated_at WHERE false`
	reader, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	defer func() { _ = reader.Rollback(b.ctx) }()
	_, err = reader.Exec(b.ctx, `SELECT count(*) FROM transfers`)
	require.NoError(t, err)
	tables, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	defer func() { _ = tables.Rollback(b.ctx) }()
	_, err = tables.Exec(b.ctx, `UPDATE tenants SET name = name WHERE false`)
	require.NoError(t, err)
	b.begin(freeze.New{Scope: freeze.Tenant, Subject: tenant})

	writer, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	defer func() { _ = writer.Rollback(b.ctx) }()
	_, err = writer.Exec(b.ctx, write)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := b.svc.Begin(b.ctx, freeze.New{Scope: freeze.Tenant, Subject: tenant}, by)
		done <- err
	}()
	testenv.Eventually(t, time.Minute, "the freeze to stand", func() bool {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM freezes`) == 2
	})
	require.Empty(t, done)
	gone, cancel := context.WithCancel(b.ctx)
	cancel()
	require.ErrorIs(t, freeze.AwaitSubmissions(gone, b.Pool), freeze.ErrOpen, "who cannot look has not seen the end")
	require.NoError(t, writer.Rollback(b.ctx))
	require.NoError(t, <-done)
}

// Whatever goes wrong after the commit of a freeze, its error says that the freeze stands.
func TestAFreezeStandsWhoeverGoes(t *testing.T) {
	b := setup(t)
	tenant := b.Tenant()
	for name, n := range map[string]freeze.New{"tenant": {Scope: freeze.Tenant, Subject: tenant}, "account": {Scope: freeze.Account, Subject: b.Account(tenant, "a")}} {
		writer, err := b.Pool.Begin(b.ctx)
		require.NoError(t, err)
		_, err = writer.Exec(b.ctx, `UPDATE transfers SET updated_at = updated_at WHERE false`)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(b.ctx)
		type began struct {
			f   freeze.Freeze
			err error
		}
		done := make(chan began, 1)
		go func() {
			f, err := b.svc.Begin(ctx, n, by)
			done <- began{f, err}
		}()
		testenv.Eventually(t, time.Minute, "the freeze", func() bool {
			return testenv.Value[int](b.Env, `SELECT count(*) FROM freezes WHERE scope = $1`, string(n.Scope)) == 1
		})
		cancel()
		got := <-done
		require.NoError(t, writer.Rollback(b.ctx))
		require.ErrorIs(t, got.err, freeze.ErrOpen, name)
		require.ErrorIs(t, got.err, context.Canceled, name)
		require.Equal(t, n.Subject, got.f.Subject, name)
	}
}
