package transfer

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
	"ajo/internal/work"
)

// The bank takes a few payouts a minute to one account ([Options.RecipientRate]), and answers 429
// to more. A tenant that sweeps many accounts into one would use up all attempts of most of its
// payouts that way. So a submission takes a turn first, before it is counted. Turns are taken in
// Postgres, because all workers share them.

// turnsFor is a minute, and what the bank's clock may differ from ours.
const turnsFor = time.Minute + 5*time.Second

var errCrowded = errors.New("waits for its turn: the bank takes only a few payouts a minute to one account")

// recipient is an account that payouts go to.
type recipient struct {
	BankCode      string `pg:"bank_code"`
	AccountNumber string `pg:"account_number"`
}

// wanting are the turns that a batch wants at one recipient.
type wanting struct {
	recipient
	Asked int `pg:"asked"`
}

// turnsSQL counts the turns that were asked for since the first one of the minute, and begins a new
// minute when that one is over.
var turnsSQL = `
	INSERT INTO payout_turns AS p (bank_code, account_number, since, asked)
	SELECT bank_code, account_number, $1::timestamptz, asked FROM ` + pg.Unnest[wanting](3, "m") + ` ORDER BY bank_code, account_number
	ON CONFLICT (bank_code, account_number) DO UPDATE
	SET since = CASE WHEN p.since <= $2::timestamptz THEN excluded.since ELSE p.since END, asked = CASE WHEN p.since <= $2 THEN 0 ELSE p.asked END + excluded.asked
	RETURNING bank_code, account_number, since, asked`

// takeTurns says which transfers may be submitted now: those that are leased and whose turn has
// come. It gives back the others until their turn.
func (s *Service) takeTurns(ctx context.Context, tx pg.Tx, now time.Time, transfers []*claimed, leased []*work.Claim) ([]submitted, error) {
	out := make([]submitted, len(transfers))
	places := map[recipient][]int{}
	for i, st := range transfers {
		if out[i] = (submitted{claim: leased[i], at: now}); leased[i] != nil && s.RecipientRate > 0 {
			to := recipient{st.BankCode, st.AccountNumber}
			places[to] = append(places[to], i)
		}
	}
	var wanted []wanting
	for to, at := range places {
		wanted = append(wanted, wanting{to, len(at)})
	}
	if len(wanted) == 0 {
		return out, nil
	}
	rows := pg.Rows(ctx, tx, turnsSQL, pg.Columns(wanted, now, now.Add(-turnsFor))...)
	var to recipient
	var since time.Time
	var asked int
	var later []postponement
	if _, err := pgx.ForEachRow(rows, []any{&to.BankCode, &to.AccountNumber, &since, &asked}, func() error {
		at := places[to]
		for i, place := range at {
			before := asked - len(at) + i // those that asked before it in this minute
			if minutes := before / s.RecipientRate; minutes > 0 {
				turn := since.Add(time.Duration(minutes) * turnsFor)
				st := *transfers[place]
				st.Claim = *leased[place]
				later = append(later, postponement{claimed: &st, next: &turn, asks: st.Asks, unknown: st.Unknown, why: errCrowded.Error()})
				out[place] = submitted{refused: errCrowded, at: turn}
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	_, err := s.postponeAll(ctx, tx, later)
	return out, err
}
