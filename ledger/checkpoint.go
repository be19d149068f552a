package ledger

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// checkpoint is a row of ledger_checkpoints: what was verified of an account's entries up to one.
type checkpoint struct {
	AccountID       uuid.UUID    `pg:"account_id"`
	TenantID        uuid.UUID    `pg:"tenant_id"`
	Seq             int64        `pg:"seq"` // 0: nothing is verified
	Hash            []byte       `pg:"hash"`
	Credits         money.Amount `pg:"credits,numeric"`
	Debits          money.Amount `pg:"debits,numeric"`
	SettledCredits  money.Amount `pg:"settled_credits,numeric"`
	SettledDebits   money.Amount `pg:"settled_debits,numeric"`
	SettledReversed int64        `pg:"settled_reversed"`
	Open            seqs         `pg:"open_seqs,text"`
	VerifiedAt      time.Time    `pg:"verified_at"`
}

// seqs are numbers of entries in ascending order; as a text, a literal of an array.
type seqs []int64

func (s seqs) String() string {
	texts := make([]string, len(s))
	for i, n := range s {
		texts[i] = strconv.FormatInt(n, 10)
	}
	return "{" + strings.Join(texts, ",") + "}"
}

func (s seqs) has(n int64) bool {
	_, ok := slices.BinarySearch(s, n)
	return ok
}

// checkpointRows is how many checkpoints one statement stores.
const checkpointRows = 2000

var saveCheckpoints = `
		INSERT INTO ledger_checkpoints AS c (` + pg.Names[checkpoint]() + `)
		SELECT account_id, tenant_id, seq, hash, credits, debits, settled_credits, settled_debits, settled_reversed, open_seqs::bigint[], verified_at
		FROM ` + pg.Unnest[checkpoint](1, "m") + ` ORDER BY account_id
		ON CONFLICT (account_id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, credits = excluded.credits, debits = excluded.debits,
			settled_credits = excluded.settled_credits, settled_debits = excluded.settled_debits, settled_reversed = excluded.settled_reversed,
			open_seqs = excluded.open_seqs, verified_at = excluded.verified_at
		WHERE c.verified_at < excluded.verified_at`

// Save stores how far the report verified each account, if nothing was found. While anything is
// wrong, the next run reads the same entries again, so that no finding is forgotten. All
// checkpoints move in one transaction; one that a run with a later snapshot has moved stays.
func (r *Report) Save(ctx context.Context, pool *pg.Pool) error {
	if len(r.Findings) > 0 || len(r.moved) == 0 {
		return nil
	}
	return pg.InTx(ctx, pool, func(tx pg.Tx) error {
		for rows := range slices.Chunk(r.moved, checkpointRows) {
			if _, err := tx.Exec(ctx, saveCheckpoints, pg.Columns(rows)...); err != nil {
				return err
			}
		}
		return nil
	})
}
