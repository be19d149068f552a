package payment_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/payment"
	"ajo/internal/secret"
	"ajo/internal/spool"
	"ajo/internal/testenv"
)

// Postgres is away: authentic events go to the spool, forged ones nowhere; when it is back they are
// stored in order, once.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	kept := b.keepSpool()
	first, second := b.event(nil), b.event(nil)
	b.receive(b.event(nil))
	at := b.Clock.Now()

	b.Exec(`ALTER TABLE inbound_events RENAME TO away`)
	for _, d := range []payment.InboundRequest{first, second, first} {
		r := b.receive(d)
		require.True(t, r.Spooled)
		require.False(t, r.ToPost(), "there is nothing to enqueue yet")
	}
	forged := first
	forged.Signature = "?"
	_, err := b.svc.Receive(b.ctx, forged)
	require.ErrorIs(t, err, payment.ErrNotStored)
	_, err = kept.Drain(b.ctx, b.svc.Unspool)
	require.Error(t, err, "still away")
	b.Exec(`ALTER TABLE away RENAME TO inbound_events`)

	b.Clock.Advance(3_600_000_000_000)
	n, err := kept.Drain(b.ctx, b.svc.Unspool)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Equal(t, 3, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`), "the copy is a duplicate")
	require.Equal(t, 3, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE received_at = $1`, at), "received when the bank sent it")
	for _, id := range testenv.Value[[]uuid.UUID](b.Env, `SELECT array_agg(id) FROM inbound_events`) {
		b.post(id)
	}
	balance, _ := b.books()
	require.Equal(t, "14925.00", balance)
}

// Postgres that failed while the machine's clock was ahead does not count as away once the clock is
// right.
func TestAwayByAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.keepSpool()
	b.svc.AwayUntil(time.Now().Add(time.Hour))
	require.False(t, b.receive(b.event(nil)).Spooled)
}

// What Postgres refuses for what it says does not go to the spool, where it would be refused again
// and again: the bank learns that it was not stored.
func TestRefusedEventIsNotSpooled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	kept := b.keepSpool()
	b.Exec(`ALTER TABLE inbound_events ADD CONSTRAINT refused CHECK (false)`)
	_, err := b.svc.Receive(b.ctx, b.event(nil))
	require.ErrorIs(t, err, payment.ErrNotStored)
	n, err := kept.Drain(b.ctx, b.svc.Unspool)
	require.NoError(t, err)
	require.Zero(t, n)
}

// keepSpool gives the service a spool, and returns it.
func (b *bundle) keepSpool() *spool.Spool {
	b.T.Helper()
	kept, err := spool.Open(b.T.TempDir(), 1<<20)
	require.NoError(b.T, err)
	b.T.Cleanup(func() { _ = kept.Close() })
	b.svc.Spool = kept
	return kept
}

// spooled sends events while Postgres is away, and returns the spool that they are in.
func (b *bundle) spooled(deliveries ...payment.InboundRequest) *spool.Spool {
	b.T.Helper()
	kept := b.keepSpool()
	b.Exec(`ALTER TABLE inbound_events RENAME TO away`)
	for _, d := range deliveries {
		require.True(b.T, b.receive(d).Spooled)
	}
	b.Exec(`ALTER TABLE away RENAME TO inbound_events`)
	return kept
}

func (b *bundle) drain(kept *spool.Spool) error {
	_, err := kept.Drain(b.ctx, b.svc.Unspool)
	return err
}

// Between spool and Postgres the bank's secret is changed, and so is the encryption key, one after
// the other: an event that was answered 200 is stored all the same, authentic, and posted.
func TestSpooledEventsOutliveTheirSecrets(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*bundle){
		"another secret of the bank":                func(b *bundle) { b.svc.WebhookSecret = secret.Redact("another") },
		"another encryption key":                    func(b *bundle) { b.svc.Box = anotherBox(b.T, "new") },
		"no seal, as by the version before":         func(b *bundle) { b.svc.Box = nil },
		"a secret that was the previous one by now": func(b *bundle) { b.rotateSecret(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			kept := b.spooled(b.event(nil), b.event(nil))
			change(b)
			require.NoError(t, b.drain(kept))
			require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE authentic AND signature_valid AND status = 'received'`))
		})
	}
}

func anotherBox(t testing.TB, id string) *secret.Box {
	t.Helper()
	box, err := secret.ParseKeys(secret.NewKey(id).Reveal())
	require.NoError(t, err)
	return box
}

// What somebody has written into the spool, or changed there, is not stored; nor is it lost: its
// segment is set aside. What is sound beside it is stored.
func TestChangedRecordsOfTheSpool(t *testing.T) {
	t.Parallel()
	type record map[string]any
	for name, change := range map[string]func(b *bundle, r record){
		"the amount":     func(_ *bundle, r record) { r["Body"] = bytes.Replace(bodyOf(t, r), []byte("5000"), []byte("5001"), 1) },
		"the time":       func(_ *bundle, r record) { r["ReceivedAt"] = "2020-01-01T00:00:00Z" },
		"the seal":       func(_ *bundle, r record) { r["Seal"] = []byte("a seal") },
		"a forged event": func(_ *bundle, r record) { delete(r, "Seal"); r["Signature"] = "?" },
		"a forged new seal": func(b *bundle, r record) {
			r["Seal"], r["Signature"] = anotherBox(t, "test").Seal(sealPlace, []byte("?")), "?"
		},
		"no event at all":   func(_ *bundle, r record) { r["Body"] = 5 },
		"what no row takes": func(b *bundle, r record) { b.Exec(`ALTER TABLE inbound_events ADD CHECK (narration <> 'rent')`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			sound := b.event(func(e *fakebank.Event) { e.Data.Transaction.Narration = "sound" })
			kept := b.spooled(b.event(nil), sound)
			var records [][]byte
			away := errors.New("away")
			_, err := kept.Drain(b.ctx, func(_ context.Context, all [][]byte) error {
				for _, r := range all {
					records = append(records, bytes.Clone(r))
				}
				return away
			})
			require.ErrorIs(t, err, away)
			var r record
			require.NoError(t, json.Unmarshal(records[0], &r))
			change(b, r)
			records[0], err = json.Marshal(r)
			require.NoError(t, err)
			require.ErrorIs(t, b.svc.Unspool(b.ctx, records), spool.ErrSetAside)
			require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`), "nor is it kept as forged: it was answered 200")
			b.log.Has(t, "alert=spool_unreadable")
		})
	}
}

func bodyOf(t *testing.T, r map[string]any) []byte {
	t.Helper()
	text, _ := r["Body"].(string)
	body, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	require.Contains(t, string(body), "5000")
	return body
}

// sealPlace is where the service seals its records.
var sealPlace = secret.Place{Table: "spool", Column: "event", Row: "sha256"}

// rotateSecret gives the service another secret of the bank; the one that signs the test's events
// holds for so long.
func (b *bundle) rotateSecret(overlap time.Duration) {
	b.svc.WebhookSecret, b.svc.PreviousSecret = secret.Redact("the new one"), secret.Redact(fakebank.DefaultWebhookSecret)
	b.svc.PreviousUntil = b.Clock.Now().Add(overlap)
}

// The bank's previous secret holds beside the new one until its end, and not a moment longer.
func TestPreviousSecret(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.rotateSecret(time.Hour)
	signed := func(key string) payment.InboundRequest {
		bank := fakebank.New(fakebank.Options{Clock: b.Clock, WebhookSecret: key})
		d := b.event(nil)
		h, err := bank.SignedHeaders(d.Body)
		require.NoError(t, err)
		d.Signature, d.Timestamp = h.Get(fakebank.DefaultSignatureHeader), h.Get(fakebank.DefaultTimestampHeader)
		return d
	}
	require.True(t, b.receive(signed("the new one")).ToPost())
	require.True(t, b.receive(signed(fakebank.DefaultWebhookSecret)).ToPost())
	require.Equal(t, payment.CategorySigInvalid, b.receive(signed("a third")).Category)
	b.Clock.Advance(time.Hour - time.Microsecond)
	require.True(t, b.receive(signed(fakebank.DefaultWebhookSecret)).ToPost())
	b.Clock.Advance(time.Microsecond)
	require.Equal(t, payment.CategorySigInvalid, b.receive(signed(fakebank.DefaultWebhookSecret)).Category)
	require.True(t, b.receive(signed("the new one")).ToPost())

	b.svc.PreviousSecret, b.svc.PreviousUntil = secret.Redacted{}, b.Clock.Now().Add(time.Hour)
	const empty = "\x00" // an HMAC's key is filled up with zeros
	require.Equal(t, payment.CategorySigInvalid, b.receive(signed(empty)).Category, "no secret is not an empty one")
}

func TestNowhereToStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	full, err := spool.Open(t.TempDir(), 10)
	require.NoError(t, err)
	t.Cleanup(func() { _ = full.Close() })
	b.svc.Spool = full
	d := b.event(nil)
	b.Pool.Close()
	_, err = b.svc.Receive(b.ctx, d)
	require.ErrorIs(t, err, payment.ErrNotStored)
	require.ErrorIs(t, err, spool.ErrFull)
}

// A full spool is handed over in few round trips: after an hour without Postgres, events must not
// wait for another one.
func TestUnspoolInBatches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const events = 200
	var records [][]byte
	for range events {
		record, err := json.Marshal(struct {
			payment.InboundRequest
			ReceivedAt time.Time
		}{b.event(nil), b.Clock.Now()})
		require.NoError(t, err)
		records = append(records, record)
	}
	pool, asked := b.Recorded()
	b.svc.Pool = pool
	require.NoError(t, b.svc.Unspool(b.ctx, records))
	require.Less(t, len(asked()), events/2, "statements")
	require.Equal(t, events, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`))
}
