package transfer

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
	"ajo/internal/work"
)

// The bank takes a few payouts a minute to one account ([Options.RecipientRate]), and answers 429
// to more. A tenant that sweeps many accounts into one would use up all attempts of most of its
// payouts that way. So a submission takes a turn first, before it is counted. Turns are taken in
// Postgres, because all workers share them.

const (
	// turnsFor is a minute, and what the bank's clock may differ from ours.
	turnsFor = time.Minute + 5*time.Second
	// maxTurnWait is over how many such minutes those without a turn are spread.
	maxTurnWait = 15
)

var errCrowded = errors.New("waits for its turn: the bank takes only a few payouts a minute to one account")

// recipient is an account that payouts go to.
type recipient struct {
	BankCode      string `pg:"bank_code"`
	AccountNumber string `pg:"account_number"`
}

// turns are those of a recipient in one minute.
type turns struct {
	recipient
	Taken  int        `pg:"taken"`
	Put    int        `pg:"put_off"`
	Tenant *uuid.UUID `pg:"tenant_id"` // who has taken all of them; nil: nobody, or several
	since  time.Time
}

// minuteIsOver is, as SQL, the condition on the turns p that their minute is over. One that begins
// later than now by more than clocks differ was begun by a clock that has been corrected since.
const minuteIsOver = `(p.since <= $2::timestamptz OR p.since > $1::timestamptz + ($1::timestamptz - $2::timestamptz))`

var (
	// lockTurnsSQL locks the turns of recipients, and begins a new minute where the last is over.
	lockTurnsSQL = `
		INSERT INTO payout_turns AS p (bank_code, account_number, since, taken, put_off)
		SELECT bank_code, account_number, $1::timestamptz, 0, 0 FROM ` + pg.Unnest[recipient](3, "m") + ` ORDER BY bank_code, account_number
		ON CONFLICT (bank_code, account_number) DO UPDATE
		SET since = CASE WHEN ` + minuteIsOver + ` THEN excluded.since ELSE p.since END, taken = CASE WHEN ` + minuteIsOver + ` THEN 0 ELSE p.taken END,
			put_off = CASE WHEN ` + minuteIsOver + ` THEN 0 ELSE p.put_off END, tenant_id = CASE WHEN NOT ` + minuteIsOver + ` THEN p.tenant_id END
		RETURNING bank_code, account_number, taken, put_off, tenant_id, since`
	saveTurnsSQL = `
		UPDATE payout_turns p SET taken = m.taken, put_off = m.put_off, tenant_id = m.tenant_id FROM ` + pg.Unnest[turns](1, "m") + `
		WHERE p.bank_code = ANY(ARRAY[m.bank_code]) AND p.account_number = ANY(ARRAY[m.account_number])`
)

// take returns when a transfer of the tenant may be submitted; nil: now. One tenant alone does not
// get the last turn of a minute: however many it asks for, another one need not wait for them.
func (t *turns) take(tenant uuid.UUID, rate int) *time.Time {
	share := max(1, rate-1)
	switch alone := t.Taken == 0 || t.Tenant != nil && *t.Tenant == tenant; {
	case t.Taken < share && alone:
		t.Tenant = &tenant
	case t.Taken < rate && !alone:
		t.Tenant = nil
	default:
		minutes := 1 + t.Put/share%maxTurnWait
		t.Put++
		return new(t.since.Add(time.Duration(minutes) * turnsFor))
	}
	t.Taken++
	return nil
}

// takeTurns says which transfers may be submitted now: those that are leased and whose turn has
// come. It gives back the others until their turn.
func (s *Service) takeTurns(ctx context.Context, tx pg.Tx, now time.Time, transfers []*claimed, leased []*work.Claim) ([]submitted, error) {
	out := make([]submitted, len(transfers))
	wanted := map[recipient]*turns{}
	var recipients []recipient
	for i, st := range transfers {
		out[i] = submitted{claim: leased[i], at: now}
		to := recipient{st.BankCode, st.AccountNumber}
		if leased[i] != nil && s.RecipientRate > 0 && wanted[to] == nil {
			wanted[to] = &turns{}
			recipients = append(recipients, to)
		}
	}
	if len(recipients) == 0 {
		return out, nil
	}
	rows := pg.Rows(ctx, tx, lockTurnsSQL, pg.Columns(recipients, now, now.Add(-turnsFor))...)
	var all []*turns
	var row turns
	if _, err := pgx.ForEachRow(rows, []any{&row.BankCode, &row.AccountNumber, &row.Taken, &row.Put, &row.Tenant, &row.since}, func() error {
		t := row
		wanted[t.recipient] = &t
		all = append(all, &t)
		return nil
	}); err != nil {
		return nil, err
	}
	var later []postponement
	for i, st := range transfers {
		if leased[i] == nil {
			continue
		}
		if turn := wanted[recipient{st.BankCode, st.AccountNumber}].take(st.TenantID, s.RecipientRate); turn != nil {
			again := *st
			again.Claim = *leased[i]
			later = append(later, again.waitUntil(turn, errCrowded))
			out[i] = submitted{refused: errCrowded, at: *turn}
		}
	}
	if _, err := tx.Exec(ctx, saveTurnsSQL, pg.Columns(all)...); err != nil {
		return nil, err
	}
	_, err := s.postponeAll(ctx, tx, later)
	return out, err
}
