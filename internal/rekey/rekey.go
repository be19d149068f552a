// Package rekey seals every sealed value anew under the key that seals now, so that an older key
// can be taken away.
//
// What always holds: a value is replaced only while it is the one that was opened
// (compare-and-set), so the service may run beside it; what is sealed under the current key already
// is left alone, so a run that was ended midway goes on where it was; a value that does not open is
// left as it is and named. It changes no text, and so no updated_at.
package rekey

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// Column is a column of sealed values; the primary key of its table is id, a uuid.
type Column struct{ Table, Name string }

func (c Column) String() string { return c.Table + "." + c.Name }

// Columns are all of them. A test compares them with the schema.
var Columns = []Column{
	{"tenants", "webhook_secret"},
	{"tenants", "webhook_secret_previous"},
	{"webhook_endpoints", "secret"},
	{"webhook_endpoints", "secret_previous"},
	{"pending_registrations", "code_hash"},
	{"members", "totp_secret"},
	{"operators", "totp_secret"},
	{"customers", "bvn"},
	{"customers", "nin"},
	{"hash_keys", "key"},
}

// headSize is enough of a sealed value to read its key's id: version, length, the longest id, and
// what every value has then.
const headSize = 2 + 32 + 12 + 16

// NotSealed stands for the key's id of a value that is no sealed one.
const NotSealed = "(not sealed)"

// Service reads and replaces sealed values.
type Service struct {
	Pool  *pg.Pool
	Clock clock.Clock
	Box   *secret.Box
	Batch int // rows of one statement and one transaction, 1 to 10,000
	// Progress is called after each batch: column, rows looked at and the values sealed anew
	// in it so far. It may be nil.
	Progress func(c Column, looked, sealed int)
}

const maxBatch = 10_000 // rows

// ErrBatch refuses a size of batches.
var ErrBatch = errors.New("the batch must be from 1 to 10000 rows")

// Usage is how many values each key has sealed, by the key's id.
type Usage map[string]int

// Usage counts the values of all columns by their key. It opens none.
func (s *Service) Usage(ctx context.Context) (Usage, error) {
	used := Usage{}
	for _, c := range Columns {
		err := s.walk(ctx, c, headSize, func(_ context.Context, rows []row) error {
			for _, r := range rows {
				used[keyOf(s.Box, r.value)]++
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return used, nil
}

// Others is how many values keys other than current have sealed.
func (u Usage) Others(current string) (n int) {
	for id, count := range u {
		if id != current {
			n += count
		}
	}
	return n
}

// String lists the keys with their counts, by id.
func (u Usage) String() string {
	if len(u) == 0 {
		return "none"
	}
	var out []string
	for _, id := range slices.Sorted(maps.Keys(u)) {
		out = append(out, fmt.Sprintf("%s: %d", id, u[id]))
	}
	return strings.Join(out, ", ")
}

// Problem is what kept values of one column and key from being sealed anew.
type Problem struct {
	Column string
	Key    string    // the id that the values name
	Row    uuid.UUID // the first of them
	Values int
	Why    string
}

// Result is what a run did, or would do.
type Result struct {
	Current  string // the key that seals
	Looked   int    // values under other keys
	Sealed   int    // of them sealed anew ([Service.Check]: that can be)
	Changed  int    // of them changed by somebody else in the moment between
	Problems []Problem
}

// Check opens every value that another key than the current one has sealed, and changes nothing:
// Sealed is what [Service.Seal] would seal anew, Problems what stands in its way.
func (s *Service) Check(ctx context.Context) (Result, error) {
	return s.run(ctx, func(_ context.Context, _ Column, todo []resealed) (int, error) { return len(todo), nil })
}

// Seal seals anew what keys other than the current one have sealed, batch by batch. The first batch
// that changes something writes by into the audit log, with before, in its transaction. An error
// ends the run; what was done before it stands, and the next run goes on from there.
func (s *Service) Seal(ctx context.Context, before Usage, by audit.By) (Result, error) {
	entry := by.Entry("rekey", "key:"+s.Box.Current(), struct{ Before Usage }{before})
	recorded := false
	return s.run(ctx, func(ctx context.Context, c Column, todo []resealed) (done int, err error) {
		err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
			if done, err = replace(ctx, tx, c, todo); err != nil || done == 0 || recorded {
				return err
			}
			return audit.Write(ctx, tx, s.Clock.Now(), entry)
		})
		recorded = recorded || (err == nil && done > 0)
		return done, err
	})
}

// run gives do what must be sealed anew, a batch of a column at a time; do answers how much of it
// was.
func (s *Service) run(ctx context.Context, do func(context.Context, Column, []resealed) (int, error)) (Result, error) {
	out := Result{Current: s.Box.Current()}
	for _, c := range Columns {
		looked, sealed := 0, 0
		err := s.walk(ctx, c, 0, func(ctx context.Context, rows []row) error {
			todo := s.reseal(c, rows, &out)
			done := 0
			if len(todo) > 0 {
				var err error
				if done, err = do(ctx, c, todo); err != nil {
					return err
				}
			}
			out.Sealed += done
			out.Changed += len(todo) - done
			looked, sealed = looked+len(rows), sealed+done
			if s.Progress != nil {
				s.Progress(c, looked, sealed)
			}
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// row is a sealed value, or its head.
type row struct {
	id    uuid.UUID
	value []byte
}

// walk gives fn the values of a column that are not null, a batch at a time, in the order of the
// rows' ids; only their first bytes when head is not 0. Rows that come meanwhile are seen when
// their id is above the place where the walk is: what is written now is sealed with the writer's
// key, and Usage shows it afterwards.
func (s *Service) walk(ctx context.Context, c Column, head int, fn func(context.Context, []row) error) error {
	if s.Batch < 1 || s.Batch > maxBatch {
		return ErrBatch
	}
	value := pgx.Identifier{c.Name}.Sanitize()
	if head > 0 {
		value = fmt.Sprintf("substr(%s, 1, %d)", value, head)
	}
	// The limit counts rows, with a value or without: so each statement is short, however rare the
	// values are.
	sql := fmt.Sprintf(`SELECT id, %s FROM %s WHERE id > $1 ORDER BY id LIMIT $2`, value, pgx.Identifier{c.Table}.Sanitize())
	after := uuid.Nil
	for {
		rows, err := pg.Collect(ctx, s.Pool, func(r pgx.CollectableRow) (out row, err error) {
			return out, r.Scan(&out.id, &out.value)
		}, sql, after, s.Batch)
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		if len(rows) == 0 {
			return nil
		}
		after = rows[len(rows)-1].id
		if err := fn(ctx, slices.DeleteFunc(rows, func(r row) bool { return r.value == nil })); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
}

// resealed is a value that a batch replaces.
type resealed struct {
	ID  uuid.UUID `pg:"id"`
	Old []byte    `pg:"old"`
	New []byte    `pg:"new"`
}

// reseal opens what other keys have sealed, and seals it under the current one; what does not open
// is noted in out.
func (s *Service) reseal(c Column, rows []row, out *Result) (todo []resealed) {
	for _, r := range rows {
		key := keyOf(s.Box, r.value)
		if key == s.Box.Current() {
			continue
		}
		out.Looked++
		place := secret.Place{Table: c.Table, Column: c.Name, Row: r.id.String()}
		plain, err := s.Box.Open(place, r.value)
		if err != nil {
			out.addProblem(c, key, r.id, err)
			continue
		}
		todo = append(todo, resealed{r.id, r.value, s.Box.Seal(place, plain)})
	}
	return todo
}

// replace writes a batch, and returns how many values were still the ones that were opened. It
// locks those rows.
func replace(ctx context.Context, tx pg.Tx, c Column, todo []resealed) (int, error) {
	sql := fmt.Sprintf(`UPDATE %[1]s t SET %[2]s = v.new FROM %[3]s WHERE t.id = v.id AND t.%[2]s = v.old`,
		pgx.Identifier{c.Table}.Sanitize(), pgx.Identifier{c.Name}.Sanitize(), pg.Unnest[resealed](1, "v"))
	tag, err := tx.Exec(ctx, sql, pg.Columns(todo)...)
	return int(tag.RowsAffected()), err
}

func (r *Result) addProblem(c Column, key string, id uuid.UUID, err error) {
	why := err.Error()
	switch {
	case errors.Is(err, secret.ErrUnknownKey):
		why = fmt.Sprintf("the key %q is not in AJO_ENCRYPTION_KEYS", key)
	case errors.Is(err, secret.ErrSealed) && key == NotSealed:
		why = "the value is not a sealed one"
	case errors.Is(err, secret.ErrSealed):
		why = fmt.Sprintf("the key given as %q is not the one that sealed it, or the value was damaged or copied here", key)
	}
	for i := range r.Problems {
		if p := &r.Problems[i]; p.Column == c.String() && p.Key == key {
			p.Values++
			return
		}
	}
	r.Problems = append(r.Problems, Problem{Column: c.String(), Key: key, Row: id, Values: 1, Why: why})
}

// keyOf is the id of the key that sealed a value, of which the head is enough.
func keyOf(box *secret.Box, value []byte) string {
	if id := box.KeyID(value); id != "" {
		return id
	}
	return NotSealed
}
