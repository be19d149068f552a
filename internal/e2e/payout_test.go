package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

// settler is a world with a tenant that pays out. Schedules and leases are as short as they go, and
// the bank is asked again about a payout soon after it has ended.
type settler struct {
	*world
	tenant   uuid.UUID
	key      string
	resolved []string // references of transfers that the operator has resolved
	bears    bool     // the tenant bears what the bank takes for its payouts
}

func newSettler(t *testing.T) *settler {
	t.Helper()
	t.Parallel()
	env := testenv.New(t)
	return newSettlerIn(worldOn(env, env.Redis(), fakebank.Options{
		RetryDelays: repeat(200*time.Millisecond, 5000), PayoutFee: money.Must("20.00"), PayoutVAT: money.Must("1.50"), PayoutStampDuty: money.Must("50.00"),
	}))
}

func newSettlerIn(w *world) *settler {
	for name, value := range map[string]string{
		"AJO_SETTLE_DELAYS": "50ms,100ms,200ms", "AJO_SETTLE_RECHECKS": "1s,2s,3s,4s", "AJO_SETTLE_LEASE": "3s",
	} {
		w.settings[name] = value
	}
	s := &settler{world: w, tenant: w.Tenant()}
	key := secret.LiveKey.New()
	s.key = key.Reveal()
	s.keepSecret("API key", s.key)
	hash := secret.Hash(s.key)
	s.Exec(`INSERT INTO api_keys (id, tenant_id, main, name, hash, suffix, created_at) VALUES (gen_random_uuid(), $1, true, 'Main key', $2, $3, now())`, s.tenant, hash[:], key.Suffix())
	return s
}

// bearsFees has the tenant bear what the bank takes for its payouts. Its accounts need money for
// that: [settler.checkPayouts] wants all of it borne.
func (s *settler) bearsFees() {
	s.bears = true
	s.Exec(`UPDATE tenants SET payout_fee_by = 'tenant' WHERE id = $1`, s.tenant)
}

// credit posts a payment to an account, with its event, and returns its group. Nobody asks the bank
// about it yet.
func (s *settler) credit(account uuid.UUID, amount money.Amount) uuid.UUID {
	s.t.Helper()
	return s.creditOf(account, amount, "")
}

// creditOf is credit of a payment that the bank has under the id; empty: it does not know it.
func (s *settler) creditOf(account uuid.UUID, amount money.Amount, id string) uuid.UUID {
	s.t.Helper()
	ctx, group, now := context.Background(), uuid.Must(uuid.NewV7()), time.Now()
	id = cmp.Or(id, group.String())
	require.NoError(s.t, pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(ctx, `
			INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, amount, fee, currency,
				occurred_at, digest, tenant_id, account_id, received_at, processed_at)
			VALUES ($1::text::uuid, 'webhook', true, true, $1::text, $6, 'payment_success', 'processed', 'payment', $2::numeric, 0, 'NGN', $3, sha256($1::text::bytea), $4, $5, $3, $3)`,
			group.String(), amount, now, s.tenant, account, id); err != nil {
			return err
		}
		if err := work.Schedule(ctx, tx, work.Item{Kind: work.Confirm, ID: group, TenantID: s.tenant, DueAt: now.Add(24 * time.Hour)}); err != nil {
			return err
		}
		_, err := ledger.PostCredits(ctx, tx, now, []ledger.Posting{{
			AccountID: account, Amount: amount, TransactionGroupID: group, ProviderTxnRef: id,
		}})
		return err
	}))
	s.KeyEvents()
	return group
}

// move moves a credit, as the confirmation of its payment would.
func (s *settler) move(group uuid.UUID, event ledger.Event) {
	s.t.Helper()
	ctx := context.Background()
	require.NoError(s.t, pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		if err := work.Cancel(ctx, tx, work.Confirm, group); err != nil {
			return err
		}
		_, err := ledger.MoveEntries(ctx, tx, time.Now(), []ledger.Move{{TransactionGroupID: group, Direction: ledger.Credit, Event: event}})
		return err
	}))
}

// fund opens an account with confirmed money.
func (s *settler) fund(ref string, amount money.Amount) uuid.UUID {
	s.t.Helper()
	id := s.Account(s.tenant, ref)
	s.move(s.credit(id, amount), ledger.EventConfirm)
	return id
}

// payout is one settlement that the tenant asks for.
type payout struct {
	account       string // the reference of the account that pays
	accountNumber string // of the destination; each payout has its own
	amount        money.Amount
	ref           string // the merchantTxRef that it was given
}

// order asks for the settlement, and reports whether it was accepted. What has no answer, or one
// that does not settle it, may be asked for again: each time it has the same key, which makes it
// safe.
func (s *settler) order(p *payout) (bool, error) {
	body := map[string]string{"amount": p.amount.String(), "bankCode": "058", "accountNumber": p.accountNumber, "narration": "rent"}
	header := http.Header{"X-Api-Key": {s.key}, "Idempotency-Key": {"pay " + p.accountNumber}}
	a, err := request("POST", s.apiURL+"/v1/accounts/"+p.account+"/settle", body, header)
	if err != nil || a.status == http.StatusConflict || a.status >= 500 {
		return false, nil
	}
	if a.status != http.StatusAccepted {
		return false, fmt.Errorf("settle: %d %s", a.status, a.body)
	}
	var accepted struct{ MerchantTxRef string }
	err = json.Unmarshal(a.body, &accepted)
	p.ref = accepted.MerchantTxRef
	return err == nil, err
}

// statusOf is the transfer's status; empty when there is none.
func (s *settler) statusOf(ref string) string {
	s.t.Helper()
	return testenv.Value[string](s.Env, `SELECT coalesce((SELECT status FROM transfers WHERE merchant_tx_ref = $1), '')`, ref)
}

func (s *settler) attempts(ref string) int {
	return s.count(`SELECT attempt_count FROM transfers WHERE merchant_tx_ref = $1`, ref)
}

// checkPayouts compares the transfers with the bank's payouts, and the books with themselves: no
// transfer is unended, each destination was paid once at most, the bank's payouts are the transfers
// by status, sum and destination, each debit is as its transfer says, every balance is what was put
// in less what was paid and the tenant's part of what the bank took, which is booked.
func (s *settler) checkPayouts() {
	s.t.Helper()
	ctx := context.Background()
	testenv.FindsNothing(s.t, s.Pool, invariant.Verify)
	var bank, refs []string
	total, charges := money.Zero, money.Zero
	destinations := map[string]string{}
	for _, p := range s.bank.Payouts() {
		require.Empty(s.t, destinations[p.AccountNumber], "a second payout to %s: %s", p.AccountNumber, p.Ref)
		destinations[p.AccountNumber] = p.Ref
		end, left := booked(p, slices.Contains(s.resolved, p.Ref))
		bank, refs = append(bank, fmt.Sprintf("%s to %s of %s, %s, %s left", p.Ref, p.AccountNumber, p.Amount, end, left)), append(refs, p.Ref)
		total = total.Add(left)
		if p.FeeKept || left.IsPositive() {
			charges = charges.Add(p.Fee).Add(p.VAT).Add(p.StampDuty)
		}
	}
	// What the bank never had is no transfer, or one that failed.
	books, err := pg.Collect(ctx, s.Pool, pgx.RowTo[string], `
		SELECT format('%s to %s of %s, %s, %s left', merchant_tx_ref, account_number, amount, status, CASE status WHEN 'success' THEN coalesce(paid_amount, amount) ELSE 0.00 END)
		FROM transfers WHERE status <> 'failed' OR merchant_tx_ref = ANY($1)`, refs)
	require.NoError(s.t, err)
	require.ElementsMatch(s.t, books, bank, "the bank's list is the transfers, by status and sum")
	for _, tx := range s.bank.Transactions() {
		if tx.Status == fakebank.StatusSuccess {
			total = total.Sub(tx.Amount).Add(tx.Fee)
		}
	}
	require.Equal(s.t, total.Add(charges).Neg().String(), s.bank.Wallet().String(), "the bank's wallet began at zero")
	trial, err := ledger.ReadTrialBalance(ctx, s.Pool, "9999-12-30")
	require.NoError(s.t, err)
	require.Equal(s.t, "0.00", trial.Total.String())
	require.Equal(s.t, charges.Neg().String(), testenv.Value[money.Amount](s.Env, `
		SELECT coalesce(sum(b.balance), 0) FROM ledger_balances b JOIN system_accounts s ON s.id = b.account_id WHERE s.name IN ('bank_fees', 'taxes')`).String())
	require.Zero(s.t, s.count(`SELECT count(*) FROM transfers WHERE status IN ('pending', 'processing')`), s.unended())
	borne := money.Zero // whatever the service says of itself
	if s.bears {
		borne = charges
	}
	require.Equal(s.t, borne.String(), testenv.Value[money.Amount](s.Env, `
		SELECT coalesce(sum(CASE direction WHEN 'debit' THEN amount ELSE -amount END), 0) FROM ledger_entries WHERE kind = 'fee' AND status = 'confirmed' AND tenant_id <> account_id`).String())
	require.Zero(s.t, s.count(`
		SELECT count(*) FROM transfers t LEFT JOIN ledger_entries e ON e.transaction_group_id = coalesce(t.debit_group, t.id) AND e.direction = 'debit'
		WHERE e.status IS DISTINCT FROM CASE t.status WHEN 'success' THEN 'confirmed' ELSE 'reversed' END OR e.amount <> coalesce(t.paid_amount, t.amount) OR e.account_id <> t.account_id`))
	require.Zero(s.t, s.count(`
		SELECT count(*) FROM ledger_balances b WHERE tenant_id <> account_id AND balance <>
			(SELECT coalesce(sum(amount), 0) FROM ledger_entries WHERE account_id = b.account_id AND direction = 'credit' AND status = 'confirmed' AND kind = '')
			- (SELECT coalesce(sum(coalesce(paid_amount, amount)), 0) FROM transfers WHERE account_id = b.account_id AND status = 'success')
			- (SELECT coalesce(sum(coalesce(tenant_fee, 0) + coalesce(tenant_taxes, 0) + coalesce(platform_fee, 0) + coalesce(platform_vat, 0)), 0)
				FROM transfers WHERE account_id = b.account_id)`))
}

// unended shows the transfers that still have a way to go.
func (s *settler) unended() string {
	return testenv.Value[string](s.Env, `
		SELECT coalesce(string_agg(line, E'\n'), '') FROM (
			SELECT format('%s to %s %s attempts %s asks %s unknown %s next %s lease %s error %s', merchant_tx_ref, account_number, status, attempt_count, ask_count,
				unknown_count, due_at, leased_until, t.last_error) AS line
			FROM transfers t LEFT JOIN work w ON w.kind = 'settle' AND w.id = t.id WHERE status IN ('pending', 'processing') LIMIT 20) l`)
}
