package webhook

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// publish publishes events as a use case does whose tenants may be subscribed to them.
func (b *bundle) publish(events ...NewDelivery) []uuid.UUID {
	b.T.Helper()
	var ids []uuid.UUID
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) (err error) {
		ids, err = Publish(b.ctx, tx, b.Clock.Now(), events)
		return err
	}))
	return ids
}

// of is an event of the bundle's account.
func (b *bundle) of(t Type, group uuid.UUID) NewDelivery {
	d := NewDelivery{Type: t, AccountID: b.account, TransactionGroupID: group, CreatedAt: b.Clock.Now(), Payload: Payment{Amount: money.Must("10.00")}}
	if t == SettlementSucceeded || t == SettlementFailed || t == SettlementRefunded {
		d.Payload = Settlement{MerchantTxRef: "AJO1", Amount: money.Must("10.00"), BankCode: "058", AccountNumber: "0123456789"}
	}
	return d
}

func TestChoosing(t *testing.T) {
	b := setup(t)
	for _, c := range []struct{ in, want []Type }{
		{nil, []Type{PaymentReceived}},
		{[]Type{SettlementFailed, PaymentConfirmed, SettlementFailed}, []Type{PaymentReceived, PaymentConfirmed, SettlementFailed}},
		{[]Type{PaymentReceived}, []Type{PaymentReceived}},
		{Types, Types},
	} {
		got, err := b.Choose(b.ctx, b.tenant, c.in, audit.Session("ada@example.com", netip.Addr{}))
		require.NoError(t, err)
		require.Equal(t, c.want, got)
		got, err = b.Chosen(b.ctx, b.tenant)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, wrong := range []Type{"", "test", "payment", "payment.*", "PAYMENT.CONFIRMED", "payment.received,payment.confirmed"} {
		_, err := b.Choose(b.ctx, b.tenant, []Type{PaymentConfirmed, wrong}, audit.Session("ada@example.com", netip.Addr{}))
		require.ErrorIs(t, err, ErrEvents)
	}
	got, err := b.Chosen(b.ctx, b.tenant)
	require.NoError(t, err)
	require.Equal(t, Types, got, "a refused choice changes nothing")
	got, err = b.Chosen(b.ctx, b.Tenant())
	require.NoError(t, err)
	require.Equal(t, []Type{PaymentReceived}, got, "the rule for who has chosen nothing")
	for _, wrong := range []string{"{payment.received}", "{payment.lost}", "{NULL}"} {
		_, err := b.Pool.Exec(b.ctx, `UPDATE tenants SET webhook_events = $2 WHERE id = $1`, b.tenant, wrong)
		require.Equal(t, "23514", pg.Code(err), wrong)
	}
}

// Each type, once for its payment or settlement, to who chose it and has a URL.
func TestPublishToSubscribers(t *testing.T) {
	b := setup(t)
	group := uuid.Must(uuid.NewV7())
	chosen := []Type{PaymentConfirmed, SettlementRefunded}
	_, err := b.Choose(b.ctx, b.tenant, chosen, audit.Session("ada@example.com", netip.Addr{}))
	require.NoError(t, err)
	var all []NewDelivery
	for _, typ := range Types[1:] {
		all = append(all, b.of(typ, group))
	}
	for _, id := range b.publish(all...) {
		require.Equal(t, uuid.Nil, id, "there is no URL")
	}
	b.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook' WHERE id = $1`, b.tenant)
	for round := range 2 {
		for i, id := range b.publish(all...) {
			typ := Types[i+1]
			if round > 0 || typ != PaymentConfirmed && typ != SettlementRefunded {
				require.Equal(t, uuid.Nil, id, typ)
				continue
			}
			d := b.get(id)
			require.Equal(t, []any{typ, group, b.tenant, b.account, "customer-1", "https://tenant.example/hook"},
				[]any{d.EventType, d.TransactionGroupID, d.TenantID, d.AccountID, d.AccountRef, d.CallbackURL})
		}
	}
	require.Equal(t, 2, b.deliveries())
	require.Empty(t, b.publish())
}

// The other events of a payment are no repetition of the first one, whatever a receiver goes by:
// transactionGroupId with eventType, or webhook-id.
func TestMessageIDs(t *testing.T) {
	b := setup(t)
	_, err := b.Choose(b.ctx, b.tenant, Types, audit.Session("ada@example.com", netip.Addr{}))
	require.NoError(t, err)
	r := receive(t, answer(200))
	b.Exec(`UPDATE tenants SET webhook_url = $2 WHERE id = $1`, b.tenant, r.URL)
	b.setSecret(secretText)
	group := uuid.Must(uuid.NewV7())
	received := b.payment(r.URL)
	received.TransactionGroupID = group
	ids := b.queue(received)
	for _, typ := range Types[1:] {
		ids = append(ids, b.publish(b.of(typ, group))...)
	}
	seen := map[string]bool{}
	for i, id := range ids {
		require.NoError(t, b.Deliver(b.ctx, id))
		c := r.seen()[i]
		require.NoError(t, verify(c, secretText, b.Clock.Now()))
		require.NoError(t, verifyStandard(c, secretText))
		message, err := uuid.Parse(c.header.Get("Webhook-Id"))
		require.NoError(t, err)
		require.False(t, seen[message.String()])
		seen[message.String()] = true
		require.Equal(t, messageID(Types[i], group), message)
		require.Equal(t, Types[i] == PaymentReceived, message == group)
		require.Equal(t, Types[i] == PaymentReceived, message.Version() == 7, "a group is a version 7")
	}
	// The same in every attempt, and wherever it is made: it does not hang on the row.
	require.Equal(t, "3a294044-81f3-5b86-8d99-7c98ccc4733e", messageID(PaymentConfirmed, uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")).String())
}

const secretText = "c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6"

// Chosen events go by the same schedule, become dead letters, and are listed and replayed as the
// first one is.
func TestChosenEventsAreDeliveries(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(500))
	b.Exec(`UPDATE tenants SET webhook_url = $2, webhook_events = '{settlement.failed}' WHERE id = $1`, b.tenant, r.URL+"?token=abc")
	id := b.publish(b.of(SettlementFailed, uuid.Must(uuid.NewV7())))[0]
	for i := range 6 {
		err := b.Deliver(b.ctx, id)
		at, again := retry.When(err)
		require.Equal(t, i < 5, again)
		if again {
			b.Clock.Set(at)
		}
	}
	letters, _, err := b.DeadLetters(b.ctx, b.tenant, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, id, letters[0].ID)
	d, err := b.ReplayOwn(b.ctx, b.tenant, id, audit.Session("ada@example.com", netip.Addr{}))
	require.NoError(t, err)
	require.Equal(t, Pending, d.Status)
	require.True(t, d.NextAttemptAt.Equal(b.Clock.Now()))
	require.Equal(t, "session:ada@example.com", testenv.Value[string](b.Env, `SELECT actor FROM audit_log WHERE action = 'deliveries.replay'`))
	require.Equal(t, r.URL+"?…", testenv.Value[string](b.Env, `SELECT detail->>'CallbackURL' FROM audit_log WHERE action = 'deliveries.replay'`), "its query may be a secret")
	_, err = b.ReplayOwn(b.ctx, b.tenant, id, audit.Session("ada@example.com", netip.Addr{}))
	require.ErrorIs(t, err, ErrNotDeadLetter)
}

func TestOwnDeliveriesOnly(t *testing.T) {
	b := setup(t)
	id, other := b.in(Dead), b.Tenant()
	_, err := b.Show(b.ctx, other, id)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = b.ReplayOwn(b.ctx, other, id, audit.Session("ada@example.com", netip.Addr{}))
	require.ErrorIs(t, err, ErrNotFound)
	require.Equal(t, Dead, b.get(id).Status)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log`))
	list, _, err := b.List(b.ctx, Filter{TenantID: other}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, list)
	d, err := b.Show(b.ctx, b.tenant, id)
	require.NoError(t, err)
	require.Equal(t, "{}", d.Body)
}

func TestListFilters(t *testing.T) {
	b := alone(t)
	_, err := b.Choose(b.ctx, b.tenant, Types, audit.Session("ada@example.com", netip.Addr{}))
	require.NoError(t, err)
	b.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook' WHERE id = $1`, b.tenant)
	dead, delivered, second := b.in(Dead), b.in(Delivered), b.Account(b.tenant, "customer-2")
	refunded := b.of(SettlementRefunded, uuid.Must(uuid.NewV7()))
	refunded.AccountID = second
	published := b.publish(refunded)[0]
	for name, c := range map[string]struct {
		f    Filter
		want []uuid.UUID
	}{
		"all":            {Filter{}, []uuid.UUID{published, delivered, dead}},
		"dead":           {Filter{Status: Dead}, []uuid.UUID{dead}},
		"of an event":    {Filter{EventType: SettlementRefunded}, []uuid.UUID{published}},
		"of an account":  {Filter{AccountID: second}, []uuid.UUID{published}},
		"of a tenant":    {Filter{TenantID: b.tenant, EventType: PaymentReceived}, []uuid.UUID{delivered, dead}},
		"of all at once": {Filter{TenantID: b.tenant, AccountID: b.account, EventType: PaymentReceived, Status: Delivered}, []uuid.UUID{delivered}},
		"of none":        {Filter{EventType: SettlementFailed}, nil},
	} {
		list, _, err := b.List(b.ctx, c.f, page.Request{Limit: 10})
		require.NoError(t, err, name)
		var got []uuid.UUID
		for _, d := range list {
			got = append(got, d.ID)
		}
		require.Equal(t, c.want, got, name)
	}
	_, _, err = b.List(b.ctx, Filter{Status: "stuck"}, page.Request{Limit: 10})
	require.ErrorIs(t, err, ErrStatus)
	_, _, err = b.List(b.ctx, Filter{EventType: "test"}, page.Request{Limit: 10})
	require.ErrorIs(t, err, errType)
}

// What is rare is found behind more deliveries of others than a page looks at; what is frequent is
// looked at in parts, to the last row of each.
func TestListFindsWhatIsRareAmongMany(t *testing.T) {
	b := setup(t)
	rare := b.Endpoint(b.tenant, "https://example.com/rare", "{settlement.failed}")
	busy := b.Endpoint(b.tenant, "https://example.com/busy", "{settlement.succeeded}")
	pending, dead, own := b.in(Pending), b.in(Dead), b.in(Delivered)
	b.Exec(`UPDATE deliveries SET endpoint_id = $2, event_type = $3 WHERE id = $1`, own, rare, SettlementFailed)
	ids := testenv.IDsAfter(own)
	many := func(n int, account uuid.UUID, endpoint *uuid.UUID) {
		b.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, delivered_at, created_at, endpoint_id)
			SELECT `+ids+`, a.tenant_id, a.id, gen_random_uuid(), $2, 'https://example.com', '{}', 'delivered', now(), now(), $3
			FROM accounts a, generate_series(1, $4::int) WHERE a.id = $1`, account, SettlementSucceeded, endpoint, n)
	}
	type found struct {
		ids  []uuid.UUID
		more bool
	}
	list := func(f Filter) (out found) {
		f.TenantID = b.tenant
		list, info, err := b.List(b.ctx, f, page.Request{Limit: 10})
		require.NoError(t, err)
		for _, d := range list {
			out.ids = append(out.ids, d.ID)
		}
		out.more = info.HasMore
		return out
	}
	b.Schedule(work.Ingest, pending, b.Clock.Now()) // of another kind
	require.Equal(t, found{[]uuid.UUID{pending}, false}, list(Filter{Status: Pending}))
	require.Equal(t, Pending, b.get(pending).Status)
	b.Exec(`INSERT INTO work (kind, id, due_at) SELECT 'ingest', `+ids+`, now() FROM generate_series(1, $1::int)`, pg.ScanLimit-2)
	require.Equal(t, found{[]uuid.UUID{pending}, false}, list(Filter{Status: Pending}), "the tenant's own are fewer")

	many(pg.ScanLimit, testenv.Value[uuid.UUID](b.Env, `SELECT id FROM accounts WHERE tenant_id <> $1`, b.tenant), nil)
	require.Equal(t, found{[]uuid.UUID{own, dead, pending}, false}, list(Filter{AccountID: b.account}), "another tenant's are not looked at")
	sibling := b.Account(b.tenant, "sibling")
	many(pg.ScanLimit-1, sibling, &busy)
	require.Equal(t, found{[]uuid.UUID{own}, true}, list(Filter{AccountID: b.account}), "the last of those that a page looks at")
	many(1, sibling, &busy)
	for name, c := range map[string]struct {
		f    Filter
		want found
	}{
		"an account":          {Filter{AccountID: b.account}, found{nil, true}},
		"an endpoint":         {Filter{Endpoint: &rare}, found{[]uuid.UUID{own}, false}},
		"pending":             {Filter{Status: Pending}, found{[]uuid.UUID{pending}, true}}, // the last of those that a page looks at
		"no endpoint":         {Filter{Endpoint: new(uuid.UUID)}, found{nil, true}},
		"dead":                {Filter{Status: Dead}, found{[]uuid.UUID{dead}, false}},
		"a rare event":        {Filter{EventType: SettlementFailed}, found{[]uuid.UUID{own}, false}},
		"the frequent event":  {Filter{EventType: PaymentReceived}, found{nil, true}},
		"delivered, and rare": {Filter{EventType: SettlementFailed, Status: Delivered}, found{[]uuid.UUID{own}, false}},
	} {
		require.Equal(t, c.want, list(c.f), name)
	}
}

// The list of a rare event does not read the many others: its index is asked.
func TestRareEventsAreFoundByTheirIndex(t *testing.T) {
	b := setup(t)
	b.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, delivered_at, created_at)
		SELECT overlay(gen_random_uuid()::text PLACING left($3, 15) FROM 1)::uuid, $1, $2, gen_random_uuid(), CASE WHEN n % 1000 = 0 THEN 'settlement.failed' ELSE 'payment.received' END, 'https://example.com', '{}', 'delivered', now(), now()
		FROM generate_series(1, 5000) n`, b.tenant, b.account, uuid.Must(uuid.NewV7()).String())
	b.Exec(`ANALYZE deliveries`)
	plan := b.Plan(deliveryQuery+` WHERE d.id < $1 AND d.tenant_id = $2 AND ($3 = '' OR d.event_type = $3) ORDER BY d.id DESC LIMIT 20`,
		uuid.Max, b.tenant, string(SettlementFailed))
	require.Contains(t, plan, "_tenant_id_event_type_id_idx on deliveries_")
}

// A test event is signed, reports nothing that happened, and is kept nowhere.
func TestTestEvent(t *testing.T) {
	b := setup(t)
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); _, _ = w.Write([]byte("hello")) })
	_, err := b.Test(b.ctx, b.tenant, " ")
	require.ErrorIs(t, err, errNoURL)
	b.Exec(`UPDATE tenants SET webhook_url = $2 WHERE id = $1`, b.tenant, r.URL+"/own")
	got, err := b.Test(b.ctx, b.tenant, "")
	require.NoError(t, err)
	require.Equal(t, []any{r.URL + "/own", 201, "", "hello", ""}, []any{got.URL, *got.StatusCode, got.Error, got.ResponseBody, got.SignatureHeader})
	b.setSecret(secretText)
	got, err = b.Test(b.ctx, b.tenant, r.URL+"/other")
	require.NoError(t, err)
	c := r.seen()[1]
	require.Equal(t, got.Body, string(c.body))
	require.Equal(t, got.SignatureHeader, c.header.Get("X-Service-Signature"))
	require.Equal(t, "ajo/test", c.header.Get("User-Agent"))
	require.NoError(t, verify(c, secretText, b.Clock.Now()))
	require.NoError(t, verifyStandard(c, secretText))
	require.Regexp(t, `^{"eventType":"test","id":"[0-9a-f-]{36}","message":"[^"]*","createdAt":"2026-03-02T09:00:00Z"}$`, got.Body)
	for _, word := range []string{"amount", "Amount", "NGN", "transactionGroupId", "accountRef", "status", "payment", "paid"} {
		require.NotContains(t, got.Body, word)
	}
	require.Zero(t, b.deliveries())
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM listen_events`))
}

// A test event to an endpoint's URL is signed with the endpoint's secret, as its deliveries are.
func TestTestEventToAnEndpoint(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(200))
	id, own := b.endpoint(r.URL+"/books", "{payment.received}")
	b.Env.Endpoint(b.Env.Tenant(), r.URL+"/books", "{payment.received}")
	got, err := b.Test(b.ctx, b.tenant, " "+r.URL+"/books ")
	require.NoError(t, err)
	require.NotEmpty(t, got.SignatureHeader)
	require.NoError(t, verify(r.seen()[0], own, b.Clock.Now()))
	b.setSecret(secretText)
	_, err = b.Test(b.ctx, b.tenant, r.URL+"/books")
	require.NoError(t, err)
	require.NoError(t, verify(r.seen()[1], own, b.Clock.Now()))
	require.Error(t, verify(r.seen()[1], secretText, b.Clock.Now()), "no delivery to it is signed so")

	b.Exec(`UPDATE webhook_endpoints SET removed_at = $2, secret = NULL WHERE id = $1`, id, b.Clock.Now())
	_, err = b.Test(b.ctx, b.tenant, r.URL+"/books")
	require.NoError(t, err)
	require.NoError(t, verify(r.seen()[2], secretText, b.Clock.Now()))
}

// Who chooses the events that another request is choosing waits for it, and changes nothing.
func TestEventsChosenTwiceAtOnce(t *testing.T) {
	b := setup(t)
	require.NoError(t, b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `UPDATE tenants SET webhook_events = $2 WHERE id = $1`, b.tenant, []Type{SettlementFailed})
		return err
	}, func() error {
		_, err := b.Choose(b.ctx, b.tenant, []Type{SettlementFailed}, byHand)
		return err
	}))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log`))
}
