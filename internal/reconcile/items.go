package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/failpoint"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
)

const (
	aboutPayment = "payment" // by the bank's transaction id
	aboutPayout  = "payout"  // by its merchantTxRef
	aboutList    = "list"    // a part of the bank's list: a time, or a record without a usable id

	// maxItems bounds the items that one run reads, starting with those that were asked about
	// longest ago; and those that are never asked about.
	maxItems = 10_000
	// dismissedFor is how long a dismissed item about the list stays: by then no run reads its time
	// by itself any more, and finds it again.
	dismissedFor = 2 * maxWindow
	// itemGap bounds how long an item waits between two questions; a new one waits an eighth of its
	// age.
	itemGap = time.Hour
	// pendingTooLong is how long the bank's record may be in progress before a person must ask why.
	pendingTooLong = 24 * time.Hour
	// takenBackFor is for how long runs ask for the record of a payment that the bank says it took
	// back: of a misdirected one, and of one that was reversed because of it.
	takenBackFor = 14 * 24 * time.Hour
)

// subject is what an item is about.
type subject struct{ kind, ref string }

// item is a record of the bank or of the books that is not settled: bank and books disagree, or the
// bank's record is not final. Every run asks about it until it is settled, however long that takes.
type item struct {
	subject
	exception *Exception // nil: it only waits, or only the float needs it
	effect    money.Amount
	since     *time.Time
	foundAt   time.Time
	dueAt     time.Time
	dismissed bool
	kept      bool // not asked about in this run
}

const itemColumns = `kind, ref, exception, effect, since, found_at, due_at, dismissed_at IS NOT NULL`

// loadItemsSQL has a bound for each of two sorts, so that none takes the other's turn: what the
// bank is asked about; and what it is not, which is the oldest for ever: parts of its list, and
// what was found when the books were of another account at the bank.
const loadItemsSQL = `
	(SELECT ` + itemColumns + ` FROM reconcile_items WHERE kind <> 'list' AND found_at >= $2 ORDER BY due_at LIMIT $1)
	UNION ALL
	(SELECT ` + itemColumns + ` FROM reconcile_items WHERE kind = 'list' OR found_at < $2 ORDER BY dismissed_at IS NOT NULL, due_at LIMIT $1)`

// loadItems reads what earlier runs have left open.
func (r *comparison) loadItems(ctx context.Context) error {
	var err error
	r.open, err = pg.Collect(ctx, r.pool, func(row pgx.CollectableRow) (*item, error) {
		var it item
		return &it, row.Scan(&it.kind, &it.ref, &it.exception, &it.effect, &it.since, &it.foundAt, &it.dueAt, &it.dismissed)
	}, loadItemsSQL, maxItems, r.since)
	for _, it := range r.open {
		r.before[it.subject] = it
	}
	if err != nil {
		return err
	}
	if err := r.loadDecided(ctx); err != nil {
		return err
	}
	return r.loadTakenBack(ctx)
}

// loadDecided makes the run ask about the payments that operators have decided, and whose recalls
// have ended without a reversal, in the time that it reads: their places in the list are long past,
// and the bank's record may say otherwise.
func (r *comparison) loadDecided(ctx context.Context) error {
	refs, err := pg.Collect(ctx, r.pool, pgx.RowTo[string], `
		SELECT e.provider_txn_ref FROM audit_log a JOIN inbound_events e ON e.id = ANY(ARRAY[substr(a.target, 7)::uuid])
		WHERE a.action LIKE 'review.%' AND a.at >= $1 AND a.at < $2 AND e.provider_txn_ref <> ''
		UNION
		SELECT e.provider_txn_ref FROM recalls r JOIN inbound_events e ON e.id = ANY(ARRAY[r.event_id])
		WHERE r.status = 'kept' AND r.closed_at >= $1 AND r.closed_at < $2 AND e.provider_txn_ref <> ''`, r.report.From, r.report.To)
	r.askAbout(refs)
	return err
}

// loadTakenBack makes the run ask about misdirected payments that an event of the bank reports as
// taken back: the list of their days may not be read again, and the bank's record may lag. A posted
// payment has a recall that asks. Once the recall has reversed it, the bank may pay it after all,
// so each day's run asks. What a run has no question left for is remembered for the next.
func (r *comparison) loadTakenBack(ctx context.Context) error {
	since := r.report.StartedAt.Add(-takenBackFor)
	if since.Before(r.since) { // nobody can be asked about what ended before
		since = r.since
	}
	refs, err := r.payments.MisdirectedTakenBack(ctx, since, maxItems)
	r.askAbout(refs)
	if err == nil && r.report.Kind == kindDaily {
		refs, err = r.payments.TakenBack(ctx, since, maxItems)
		r.askAbout(refs)
	}
	return err
}

// askAbout makes the run ask about payments, as if earlier runs had left them open.
func (r *comparison) askAbout(refs []string) {
	for _, ref := range refs {
		if s := (subject{aboutPayment, ref}); r.before[s] == nil {
			r.open = append(r.open, &item{subject: s, foundAt: r.report.StartedAt, dueAt: r.report.StartedAt})
		}
	}
}

// unsettled reports what is not settled, unless an operator has dismissed exactly that, and
// remembers it.
func (r *comparison) unsettled(it item) {
	it.foundAt = r.report.StartedAt
	if it.exception != nil {
		it.exception = new(it.exception.clean())
		it.dismissed = r.isDismissed(it.subject, *it.exception)
	}
	if old := r.before[it.subject]; old != nil {
		it.foundAt = old.foundAt
	}
	r.keepOpen(&it)
}

// isDismissed reports whether an operator has dismissed exactly this exception.
func (r *comparison) isDismissed(s subject, x Exception) bool {
	old := r.before[s]
	return old != nil && old.dismissed && sameException(old.exception, new(x.clean()))
}

func (r *comparison) keepOpen(it *item) {
	if it.exception != nil && !it.dismissed {
		r.part.except(*it.exception)
	}
	r.items[it.subject] = it
	delete(r.settled, it.subject)
	if r.before[it.subject] != nil || it.exception != nil && it.exception.Kind == LookAlike {
		r.done[it.subject] = struct{}{}
	}
}

// settle notes that bank and books agree.
func (r *comparison) settle(kind, ref string) {
	if s := (subject{kind, ref}); r.before[s] != nil && r.items[s] == nil {
		r.settled[s], r.done[s] = struct{}{}, struct{}{}
	}
}

func sameException(a, b *Exception) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// judged reports whether this run has come to a conclusion about what an earlier one left open.
func (r *comparison) judged(s subject) bool {
	_, done := r.done[s]
	return done || r.items[s] != nil
}

// askItems asks the bank about what earlier runs left open and this window does not contain. An
// item that is not due yet, or gets no answer, stays as it was.
func (r *comparison) askItems(ctx context.Context, s *slice) error {
	for _, it := range r.open {
		switch {
		case r.judged(it.subject):
			continue
		case it.kind == aboutList:
			r.reread(it)
			continue
		case it.foundAt.Before(r.since):
			r.leaveOpen(it)
			continue
		}
		due := r.report.Kind == kindManual || !it.dueAt.After(r.report.StartedAt)
		var err error
		switch {
		case !due || !r.mayAsk("items"):
			it.kept = r.before[it.subject] != nil // what only this run knows of is remembered for the next
			r.keepOpen(it)
			continue
		case it.kind == aboutPayout:
			err = r.askPayout(ctx, it)
		default:
			err = r.askPayment(ctx, s, it)
		}
		if err != nil {
			return err
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reread closes an item about a part of the bank's list that this run has read without finding it
// again, and one that was dismissed long ago. Other runs leave it as it was.
func (r *comparison) reread(it *item) {
	x := it.exception
	if read := !x.From.Before(r.began) && !x.To.After(r.report.To); read || it.dismissed && r.report.StartedAt.Sub(it.foundAt) > dismissedFor {
		r.settle(it.kind, it.ref)
		return
	}
	it.kept = true
	r.keepOpen(it)
}

// leaveOpen leaves an item as it was that only another account at the bank could settle, which the
// books were of then: only a person can close it.
func (r *comparison) leaveOpen(it *item) {
	if it.exception != nil {
		it.kept = true
		r.keepOpen(it)
		return
	}
	x := Exception{Kind: Unreadable, Detail: provider.ErrOtherAccount.Error()}
	if it.kind == aboutPayout {
		x.MerchantTxRef = it.ref
	} else {
		x.ProviderTxnRef = it.ref
	}
	r.unsettled(item{subject: it.subject, exception: &x, effect: it.effect, since: it.since})
}

// unanswered leaves an item as it was until its next time, if there is one. What was not asked
// about stays due, so that the next run begins with it: else the same few records that the bank
// never answers for, first among those that are due together, would keep all others from being
// asked about.
func (r *comparison) unanswered(ctx context.Context, it *item, why error) error {
	if errors.Is(why, provider.ErrOtherAccount) {
		r.leaveOpen(it)
	} else {
		it.kept = errors.Is(why, errUnheard) && r.before[it.subject] != nil
		r.keepOpen(it)
	}
	return ctx.Err()
}

// maxUnheard is after how many questions in a row without a usable answer a run stops asking,
// because the bank is away. What it has not asked about stays open for the next run.
const maxUnheard = 5

var errUnheard = errors.New("not asked: the bank did not answer the questions before it")

// heard counts the questions in a row without a usable answer.
func (r *comparison) heard(err error) {
	if r.unheard++; err == nil || errors.Is(err, provider.ErrUnknown) {
		r.unheard = 0
	}
}

// unclear reports a record of the books that the bank does not list, and about which it gave no
// usable answer. Each run asks about it again.
func (r *comparison) unclear(ctx context.Context, s subject, x Exception, why error) error {
	if old := r.before[s]; old != nil {
		return r.unanswered(ctx, old, why)
	}
	x.Detail = "the bank does not list it, and gave no answer about it that can be used: " + why.Error()
	r.unsettled(item{subject: s, exception: &x})
	return ctx.Err()
}

// leave reports a record of the books that the bank does not list, and for which the run has no
// question left. A run of the day is the last one that reads its time: the next runs ask, within
// bounds.
func (r *comparison) leave(s subject, x Exception) {
	r.part.except(x)
	if r.report.Kind == kindDaily && r.before[s] == nil && r.items[s] == nil && r.left < maxItems {
		r.left++
		r.unsettled(item{subject: s})
	}
}

// itemRow is an item in the table.
type itemRow struct {
	ID        uuid.UUID    `pg:"id"`
	Kind      string       `pg:"kind"`
	Ref       string       `pg:"ref"`
	Exception *string      `pg:"exception"`
	Effect    money.Amount `pg:"effect,numeric"`
	Since     *time.Time   `pg:"since"`
	FoundAt   time.Time    `pg:"found_at"`
	DueAt     time.Time    `pg:"due_at"`
}

// settledRow is an item that is settled.
type settledRow struct {
	Kind string `pg:"kind"`
	Ref  string `pg:"ref"`
}

var keepItemsSQL = `
		INSERT INTO reconcile_items AS i (id, kind, ref, exception, effect, since, found_at, due_at, ask_count)
		SELECT id, kind, ref, exception::jsonb, effect, since, found_at, due_at, 1
		FROM ` + pg.Unnest[itemRow](1, "n") + `
		ORDER BY kind, ref
		ON CONFLICT (kind, ref) DO UPDATE SET exception = excluded.exception, effect = excluded.effect, since = excluded.since, due_at = excluded.due_at,
			ask_count = i.ask_count + 1, dismissed_at = CASE WHEN i.exception IS NOT DISTINCT FROM excluded.exception THEN i.dismissed_at END`

// sameMoneySQL: a payment that looks like a reversed one, which is open itself, is the same money
// in the wallet.
const sameMoneySQL = `
		UPDATE reconcile_items i SET effect = 0
		FROM inbound_events e JOIN inbound_events o ON o.id = ANY(ARRAY[e.look_alike_of])
		JOIN reconcile_items x ON x.kind = $1 AND x.ref = o.provider_txn_ref AND x.effect <> 0
		WHERE i.kind = $1 AND i.effect <> 0 AND i.exception ->> 'kind' = $2 AND e.id = ANY(ARRAY[(i.exception ->> 'eventId')::uuid])`

// storeItems remembers what is open and forgets what is settled.
func (r *comparison) storeItems(ctx context.Context) error {
	var open []itemRow
	var done []settledRow
	for s, it := range r.items {
		if it.kept {
			continue
		}
		row := itemRow{ID: uuid.Must(uuid.NewV7()), Kind: s.kind, Ref: s.ref, Effect: it.effect, Since: it.since, FoundAt: it.foundAt}
		row.DueAt = r.report.StartedAt.Add(max(0, min(r.report.StartedAt.Sub(it.foundAt)/8, itemGap)))
		if it.exception != nil {
			body, err := json.Marshal(it.exception)
			if err != nil {
				return err
			}
			row.Exception = new(string(body))
		}
		open = append(open, row)
	}
	for s := range r.settled {
		done = append(done, settledRow{s.kind, s.ref})
	}
	clear(r.items)
	clear(r.settled)
	if len(open)+len(done) == 0 {
		return nil
	}
	failpoint.At("reconcile/before-items-commit")
	err := pg.InTx(ctx, r.pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(ctx, keepItemsSQL, pg.Columns(open)...); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
		DELETE FROM reconcile_items i USING `+pg.Unnest[settledRow](1, "d")+` WHERE i.kind = d.kind AND i.ref = d.ref`, pg.Columns(done)...); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sameMoneySQL, aboutPayment, string(LookAlike))
		return err
	})
	failpoint.At("reconcile/after-items-commit")
	return err
}
