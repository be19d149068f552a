package transfer

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// Wallet is our account at the bank, which all payouts leave and all payments reach. Another
// account knows none of them: asked about a payout that this one has made, the bank would not find
// it, and it would be paid again.
type Wallet struct {
	AccountID string // AJO_PROVIDER_ACCOUNT_ID
	Host      string // of AJO_PROVIDER_URL: the bank's sandbox may know the same account
}

func (w Wallet) String() string { return fmt.Sprintf("account %q at %s", w.AccountID, w.Host) }

// Refusals of another wallet.
var (
	ErrWallet      = errs.New(errs.Conflict, "the books are of another account at the bank")
	ErrWalletWaits = errs.New(errs.Unprocessable, "payments or payouts still wait, or will wait, for the word of the account that the books are of")
)

// CheckWallet refuses a wallet other than the one that the books belong to, if they have one yet:
// [ErrWallet].
func CheckWallet(ctx context.Context, q pg.Querier, w Wallet) error {
	is, err := ReadWallet(ctx, q)
	if err == nil && is != (Wallet{}) && is != w {
		err = fmt.Errorf("%w: they are of %s, and this is %s; see ajo wallet move", ErrWallet, is, w)
	}
	return err
}

// ReadWallet returns the wallet that the books belong to; the zero value before the service first
// started.
func ReadWallet(ctx context.Context, q pg.Querier) (Wallet, error) {
	return pg.One(ctx, q, pgx.RowToStructByPos[Wallet], nil, `SELECT wallet_id, host FROM wallets ORDER BY seq DESC LIMIT 1`)
}

// WalletSince returns when the books came to the account at the bank that they are of, in whole
// seconds as its list has them; zero: they have been of no other.
func WalletSince(ctx context.Context, q pg.Querier) (at time.Time, err error) {
	var since *time.Time
	if err = q.QueryRow(ctx, `SELECT `+account.WalletSince).Scan(&since); since != nil {
		at = since.UTC().Add(time.Second - 1).Truncate(time.Second)
	}
	return at, err
}

// recordWalletSQL follows the settings as long as nothing is at the bank, so that a typing error at
// the first start does no harm.
const recordWalletSQL = `
	INSERT INTO wallets (seq, wallet_id, host, since)
	SELECT n.seq + 1, $1, $2, $3 FROM (SELECT coalesce(max(seq), 0) AS seq FROM wallets) n
	WHERE n.seq = 0 OR (NOT EXISTS (SELECT FROM accounts) AND NOT EXISTS (SELECT FROM wallets w WHERE w.seq = n.seq AND w.wallet_id = $1 AND w.host = $2))
	ON CONFLICT DO NOTHING`

// RecordWallet is [CheckWallet] for a role that starts. Until the first account is opened, each
// start records its wallet as the books'.
func RecordWallet(ctx context.Context, pool *pg.Pool, now time.Time, w Wallet) error {
	if _, err := pool.Exec(ctx, recordWalletSQL, w.AccountID, w.Host, now); err != nil {
		return err
	}
	return CheckWallet(ctx, pool, w)
}

// endStands is how long after a payout has ended the books may move although it is still asked
// about: by then, the schedule of those questions is over, unless the bank does not answer them, as
// after it has closed the account, or finds the payout no more.
const endStands = 48 * time.Hour

// suspendedSQL sums up what is in suspense of the account $1's payments, each by itself: what was
// paid back twice of one hides no other. A payment that was assigned has left by a debit of its own
// group.
const suspendedSQL = `
	SELECT coalesce(sum(l.amount - b.back), 0)
	FROM ledger_entries l CROSS JOIN LATERAL (
		SELECT coalesce(sum(coalesce(t.paid_amount, t.amount)), 0) AS back FROM transfers t WHERE t.refund_of = l.id AND t.` + notMoved + `) b
	WHERE l.account_id = $1 AND l.tenant_id = l.account_id AND l.kind = 'suspense' AND l.direction = 'credit' AND l.reversal_of IS NULL AND l.amount > b.back
		AND NOT EXISTS (SELECT FROM ledger_entries d WHERE d.transaction_group_id = l.transaction_group_id AND d.direction = 'debit')`

// MoveWallet moves the books to another wallet. If that is another account, nothing may still wait
// for an answer about the previous one, or come to wait for it: a payment that is posted or
// assigned later would be reversed, as the other account does not know it, and the refund of a
// misdirected payment would never be submitted ([Service.atBank]). [ErrWalletWaits]. For operators,
// who have stopped all roles before.
func MoveWallet(ctx context.Context, pool *pg.Pool, now time.Time, w Wallet, by audit.By) error {
	return pg.InTx(ctx, pool, func(tx pg.Tx) error {
		is, err := ReadWallet(ctx, tx)
		if err != nil {
			return err
		}
		if is.AccountID != "" && is.AccountID != w.AccountID {
			var payments, payouts int
			var misdirected money.Amount
			if err := tx.QueryRow(ctx, `
				SELECT (SELECT count(*) FROM work WHERE kind IN ('ingest', 'confirm')),
					(SELECT count(*) FROM work w JOIN transfers t ON t.id = w.id WHERE w.kind = 'settle' AND (t.attempt_count > 0 OR t.account_id = $1)
						AND NOT (t.status NOT IN ('pending', 'processing') AND t.differs_since IS NULL AND t.updated_at < $2)),
					(`+suspendedSQL+`)`, suspense.ID, now.Add(-endStands)).Scan(&payments, &payouts, &misdirected); err != nil {
				return err
			}
			if payments+payouts > 0 || misdirected.IsPositive() {
				return fmt.Errorf("%w: %d payments and %d payouts (ajo work list), and NGN %s in suspense (ajo events list --category misdirected)", ErrWalletWaits, payments, payouts, misdirected)
			}
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO wallets (seq, wallet_id, host, since) SELECT coalesce(max(seq), 0) + 1, $1, $2, $3 FROM wallets`, w.AccountID, w.Host, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("wallet.move", "wallet:"+w.AccountID, struct{ From, To Wallet }{is, w}))
	})
}
