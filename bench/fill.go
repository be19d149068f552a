package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/ledger"
	"ajo/migrations"
)

const (
	// fillMark ends the ids of filled payments, by which the checks tell them from those of the
	// run. They begin without order, as all of a bank's.
	fillMark  = "-FILL"
	fillBatch = 5000
	fillDays  = 30 // over which the payments of a filled book came
)

// bookOf is what a filled database has: spread entries over the accounts of four tenants, and two
// accounts more.
type bookOf struct {
	spread, big, small int
}

func (b bookOf) entries() int { return b.spread + b.big + b.small }

// filled is a database that was filled by an earlier row or run, and is copied for each row:
// filling takes minutes.
type filled struct {
	Database string
	Accounts []filledAccount
}

type filledAccount struct {
	Ref, ID, Key, Number string
	Entries              int
	Sum                  money.Amount
}

// fill returns a database with that book, made now or earlier. Entries are posted by the ledger's
// own function, in large batches, so that numbers, running balances and hashes are right; the
// events behind them are written by one statement, without bodies.
func (r *run) fill(ctx context.Context, b bookOf) (*filled, error) {
	schema, err := migrations.Digest() // a database that was filled under another schema is not used
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s_fill_%d_%d_%d_%s", r.prefix, b.spread, b.big, b.small, schema[:8])
	file := filepath.Join(r.servers.dir, name+".json")
	if f, err := r.kept(ctx, file, name); f != nil || err != nil {
		return f, err
	}
	r.say("filling a book of %d entries; later runs use it again", b.entries())
	w, err := r.newWorld(ctx, "fill", worldOptions{settings: postingSettings})
	if err != nil {
		return nil, err
	}
	defer w.close(ctx)
	if err := w.signUp(ctx, r.spread()+2); err != nil {
		return nil, err
	}
	f := &filled{Database: name}
	for i, a := range w.accounts {
		n := b.spread / r.spread()
		switch i {
		case r.spread():
			n = b.big
		case r.spread() + 1:
			n = b.small
		}
		f.Accounts = append(f.Accounts, filledAccount{Ref: a.ref, ID: a.id, Key: a.key, Number: a.number, Entries: n})
	}
	for _, sql := range beforeFill {
		if err := patiently(ctx, w.pool, sql); err != nil {
			return nil, err
		}
	}
	if err := r.fillAccounts(ctx, w, f.Accounts); err != nil {
		return nil, err
	}
	r.say("filled: writing events, and verifying")
	for _, sql := range afterFill {
		if err := patiently(ctx, w.pool, sql); err != nil {
			return nil, err
		}
	}
	if err := r.keepFilled(ctx, w, name); err != nil {
		return nil, err
	}
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	return f, os.WriteFile(file, text, 0o600)
}

// kept finds a database that was filled earlier.
func (r *run) kept(ctx context.Context, file, name string) (*filled, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var there bool
	if err := r.admin.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&there); err != nil || !there {
		return nil, err
	}
	var f filled
	return &f, json.Unmarshal(text, &f)
}

// fillAccounts posts the entries, the accounts in turn as payments would come.
func (r *run) fillAccounts(ctx context.Context, w *world, accounts []filledAccount) error {
	total, done := 0, 0
	left := make([]int, len(accounts))
	for i, a := range accounts {
		left[i] = a.Entries
		total += a.Entries
	}
	begin, said := time.Now(), time.Now()
	at := begin.UTC().Truncate(time.Microsecond).AddDate(0, 0, -fillDays)
	each := begin.Sub(at) / time.Duration(total+1)
	for done < total {
		batch := make([]ledger.Posting, 0, fillBatch)
		for i := 0; len(batch) < fillBatch && done < total; i = (i + 1) % len(accounts) {
			// The accounts with many entries get theirs in every round, so that all of them end
			// together.
			share := max(1, min(left[i], left[i]*fillBatch/max(1, total-done+len(batch))))
			for range min(share, left[i], fillBatch-len(batch)) {
				p := ledger.Posting{
					AccountID: uuid.MustParse(accounts[i].ID), Amount: money.FromKobo(int64(90_00 + done%997)), Fee: money.FromKobo(10_00),
					Narration: "bench", ProviderTxnRef: "API-VACT_TRA-" + bankID("filled", done) + fillMark, TransactionGroupID: idAt(at),
				}
				accounts[i].Sum = accounts[i].Sum.Add(p.Amount)
				batch = append(batch, p)
				left[i]--
				done++
			}
		}
		if err := fillPosted(ctx, w.pool, at, batch); err != nil {
			return err
		}
		at = at.Add(each * time.Duration(len(batch)))
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			r.say("filled %d of %d, %.0f/s", done, total, float64(done)/time.Since(begin).Seconds())
		}
	}
	return nil
}

// idAt is an id that was made then.
func idAt(at time.Time) uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(id[:6], ms[2:])
	return id
}

// fillPosted posts one batch, at that time. What the tables check row by row is left out for the
// time of filling, and is seen by the check of the whole book in the end.
func fillPosted(ctx context.Context, pool *pg.Pool, at time.Time, batch []ledger.Posting) error {
	return pg.InTx(ctx, pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL session_replication_role = replica"); err != nil {
			return err
		}
		_, err := ledger.PostCredits(ctx, tx, at, batch)
		return err
	})
}

// beforeFill has entries begin as confirmed ones, which is what most of an old book are: confirming
// them one by one would leave the table twice as large. Indexes stay: one that is made of all rows
// has fuller pages than years of payments leave.
var beforeFill = []string{
	`CREATE FUNCTION fill_confirmed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.status := 'confirmed'; RETURN NEW; END $$`,
	`CREATE TRIGGER fill_confirmed BEFORE INSERT ON ledger_entries FOR EACH ROW EXECUTE FUNCTION fill_confirmed()`,
	`ALTER TABLE ledger_entries ENABLE REPLICA TRIGGER fill_confirmed`,
}

// afterFill writes the events behind the entries, and undoes beforeFill.
var afterFill = []string{
	`DROP TRIGGER fill_confirmed ON ledger_entries`,
	`DROP FUNCTION fill_confirmed`,
	`UPDATE ledger_balances SET provisional_credits = 0`,
	`INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, amount, fee, currency,
			alias, narration, occurred_at, digest, tenant_id, account_id, received_at, processed_at)
		SELECT transaction_group_id, 'webhook', true, true, md5(provider_txn_ref) || '-FILL', provider_txn_ref, 'payment_success', 'processed', 'payment', amount + fee, fee, currency,
			account_id::text, narration, created_at, sha256(provider_txn_ref::bytea), tenant_id, account_id, created_at, created_at
		FROM ledger_entries`,
	`INSERT INTO event_keys (request, transaction, event_id, event_type)
		SELECT event_key(request_id), event_key(provider_txn_ref), id, event_type FROM inbound_events`,
	`VACUUM ANALYZE`,
}

// keepFilled checks the database, and gives it the name under which it is kept.
func (r *run) keepFilled(ctx context.Context, w *world, name string) error {
	if err := w.verifyLedger(ctx); err != nil {
		return err
	}
	w.stopRoles()
	if err := r.dropDatabase(ctx, name); err != nil {
		return err
	}
	return patiently(ctx, r.admin, fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", w.name, name))
}

// copyOf is a world with the filled book.
func (r *run) copyOf(ctx context.Context, name string, f *filled) (*flow, error) {
	w, err := r.newWorld(ctx, name, worldOptions{template: f.Database, settings: postingSettings})
	if err != nil {
		return nil, err
	}
	for _, a := range f.Accounts {
		w.accounts = append(w.accounts, &account{ref: a.Ref, id: a.ID, key: a.Key, bankRef: a.ID, number: a.Number, filled: a.Entries, filledSum: a.Sum})
	}
	return &flow{world: w, tally: newTally()}, nil
}
