package invariant_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/config"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/invariant"
	"ajo/internal/metrics"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
	"ajo/internal/secret"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// world is a service that has lived a little: two confirmed payments, a provisional one with its
// delivery, one under review, one misdirected; a paid transfer, a refused one and one that waits.
type world struct {
	*testenv.Env
	ctx       context.Context
	bank      *fakebank.Bank
	payments  *payment.Service
	transfers *transfer.Service
	tenant    uuid.UUID
	account   uuid.UUID
	other     uuid.UUID
	resumed   bool // from a checkpoint of each account's first entry
}

// defaults are the settings' defaults.
var defaults = config.Defaults()

func setup(t *testing.T) *world { return setupFrom(t, false) }

func setupFrom(t *testing.T, resumed bool) *world {
	e := testenv.New(t)
	w := &world{Env: e, resumed: resumed, ctx: context.Background(), bank: e.Bank(fakebank.Options{})}
	client := testenv.BankClient(t, w.bank, e.Clock)
	log := slog.New(slog.DiscardHandler)
	w.payments = payment.New(payment.Options{
		Pool: e.Pool, Bank: client, Clock: e.Clock, Log: log, WebhookSecret: secret.Redact(fakebank.DefaultWebhookSecret),
		ConfirmDelays: defaults.ConfirmDelays, ConfirmMisses: 3, ConfirmMinAge: 30 * time.Minute, ConfirmDeadline: 24 * time.Hour,
	})
	t.Cleanup(w.payments.Close)
	w.transfers = transfer.New(transfer.Options{Pool: e.Pool, Bank: client, Clock: e.Clock, Log: log, Delays: defaults.SettleDelays, Rechecks: defaults.SettleRechecks})
	t.Cleanup(w.transfers.Close)
	w.tenant = e.Tenant()
	w.account, w.other = e.Account(w.tenant, "shop"), e.Account(e.Tenant(), "other")
	for _, id := range []uuid.UUID{w.account, w.other} {
		a, err := client.CreateAccount(w.ctx, provider.NewAccount{Ref: id.String(), Name: "Ada Obi Stores"})
		require.NoError(t, err)
		w.Exec(`UPDATE accounts SET bank_account_number = $2 WHERE id = $1`, id, a.Number)
	}
	w.live(client)
	return w
}

func (w *world) live(client *nomba.Client) {
	w.T.Helper()
	w.confirm(w.pay(w.account, nil))
	w.confirm(w.pay(w.other, nil))
	if w.resumed {
		require.Empty(w.T, w.resume().Findings)
	}
	w.confirm(w.pay(w.account, func(x *fakebank.Transaction) { x.Amount = money.Must("1.00") }))
	w.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook' WHERE id = $1`, w.tenant)
	w.pay(w.account, nil)
	stray := uuid.NewString()
	_, err := client.CreateAccount(w.ctx, provider.NewAccount{Ref: stray, Name: "Nobody We Know"})
	require.NoError(w.T, err)
	w.payRef(stray)

	w.advance(w.settle("100.00"), transfer.Success)
	w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Reject})
	w.advance(w.settle("200.00"), transfer.Failed)
	w.bank.Faults.Clear()
	w.settle("300.00")
}

func (w *world) pay(account uuid.UUID, change func(*fakebank.Transaction)) uuid.UUID {
	w.T.Helper()
	id, txn := w.payRef(account.String())
	if change != nil {
		w.bank.SetTransaction(txn.ID, change)
	}
	return id
}

func (w *world) payRef(ref string) (uuid.UUID, fakebank.Transaction) {
	w.T.Helper()
	txn, err := w.bank.Pay(w.ctx, fakebank.Payment{AccountRef: ref, Amount: money.Must("5000.00"), Silent: true})
	require.NoError(w.T, err)
	body := w.bank.EventFor(txn)
	h, err := w.bank.SignedHeaders(body)
	require.NoError(w.T, err)
	r, err := w.payments.Receive(w.ctx, payment.InboundRequest{Body: body, Signature: h.Get(fakebank.DefaultSignatureHeader), Timestamp: h.Get(fakebank.DefaultTimestampHeader)})
	require.NoError(w.T, err)
	_, err = w.payments.Post(w.ctx, r.ID)
	require.NoError(w.T, err)
	return r.ID, txn
}

func (w *world) confirm(id uuid.UUID) {
	w.T.Helper()
	w.Clock.Advance(time.Minute)
	require.NoError(w.T, w.payments.Confirm(w.ctx, id))
}

func (w *world) settle(amount string) uuid.UUID {
	w.T.Helper()
	s, err := w.transfers.Settle(w.ctx, w.tenant, "shop", transfer.Order{Amount: amount, BankCode: "058", AccountNumber: "0123456789"}, idempotency.Request{})
	require.NoError(w.T, err)
	return s.TransferID
}

// advance lets a transfer come to the end that is wanted.
func (w *world) advance(id uuid.UUID, to transfer.Status) {
	w.T.Helper()
	for range 20 {
		_ = w.transfers.Advance(w.ctx, id)
		if testenv.Value[transfer.Status](w.Env, `SELECT status FROM transfers WHERE id = $1`, id) == to {
			return
		}
		w.Clock.Advance(time.Hour)
	}
	w.T.Fatalf("the transfer did not become %s", to)
}

func (w *world) verify() []ledger.Finding {
	w.T.Helper()
	found, err := invariant.Verify(w.ctx, w.Pool)
	require.NoError(w.T, err)
	return found
}

func (w *world) resume() *ledger.Report {
	w.T.Helper()
	r, err := invariant.Resume(w.ctx, w.Pool, ledger.Reading{})
	require.NoError(w.T, err)
	return r
}

func (w *world) light() invariant.State {
	w.T.Helper()
	s, err := invariant.Light(w.ctx, w.Pool, w.Clock.Now())
	require.NoError(w.T, err)
	return s
}

// A delivery that tells of what did not happen: the start of its statement, and its id.
const (
	toldSettlement = `INSERT INTO deliveries (id, tenant_id, account_id, callback_url, status, delivered_at, created_at, transaction_group_id, event_type, body)
		SELECT '0fffffff-0000-7000-8000-000000000001', tenant_id, account_id, 'https://tenant.example/hook', 'delivered', now(), now(), `
	toldID = `SELECT '0fffffff-0000-7000-8000-000000000001'`
)

// damage is one way to break the rows between the capabilities, and the check that must name it.
// The subject is what the query reads before the damage is done. light reports whether the light
// check must see it too, under the same name.
var damage = map[string]struct {
	sql, check, subject string
	light               bool
}{
	"event without its keys": {
		`DELETE FROM event_keys WHERE event_id = (SELECT id FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1)`,
		invariant.CheckEventKeys, `SELECT id::text FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1`, false,
	},
	"event without the key of its transaction": {
		`UPDATE event_keys SET transaction = NULL WHERE event_id = (SELECT id FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1)`,
		invariant.CheckEventKeys, `SELECT id::text FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1`, false,
	},
	"keys of another event": {
		`UPDATE event_keys SET event_id = '0fffffff-0000-7000-8000-000000000001' WHERE event_id = (SELECT id FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1)`,
		invariant.CheckEventKeys, `SELECT id::text FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1`, false,
	},
	"transfer without debit": {
		`DELETE FROM ledger_entries WHERE transaction_group_id = (SELECT id FROM transfers WHERE status = 'pending')`,
		invariant.CheckTransferDebit, `SELECT merchant_tx_ref FROM transfers WHERE status = 'pending'`, true,
	},
	"transfer in another's place": {
		`UPDATE transfers SET debit_seq = debit_seq + 1 WHERE status = 'pending'`,
		invariant.CheckTransferDebit, `SELECT merchant_tx_ref FROM transfers WHERE status = 'pending'`, false,
	},
	"transfer of another sum": {
		`UPDATE transfers SET amount = amount + 1 WHERE status = 'success'`,
		invariant.CheckTransferDebit, `SELECT merchant_tx_ref FROM transfers WHERE status = 'success'`, false,
	},
	"debit of another account": {
		`UPDATE transfers SET account_id = (SELECT account_id FROM ledger_balances WHERE account_id <> transfers.account_id LIMIT 1) WHERE status = 'success'`,
		invariant.CheckTransferDebit, `SELECT merchant_tx_ref FROM transfers WHERE status = 'success'`, false,
	},
	"transfer under another reference": {
		`UPDATE transfers SET merchant_tx_ref = 'X' WHERE status = 'success'`, invariant.CheckTransferDebit, `SELECT 'X'`, false,
	},
	"paid, but not confirmed": {
		`UPDATE ledger_entries SET status = 'provisional' WHERE transaction_group_id = (SELECT id FROM transfers WHERE status = 'success')`,
		invariant.CheckTransferDebit, `SELECT merchant_tx_ref FROM transfers WHERE status = 'success'`, true,
	},
	"failed, but not given back": {
		`UPDATE transfers SET status = 'failed' WHERE status = 'success'`,
		invariant.CheckTransferDebit, `SELECT merchant_tx_ref FROM transfers WHERE status = 'success'`, true,
	},
	"given back, but under way": {
		`UPDATE transfers SET status = 'processing' WHERE status = 'failed'`,
		invariant.CheckTransferDebit, `SELECT merchant_tx_ref FROM transfers WHERE status = 'failed'`, true,
	},
	"debit without transfer": {
		`DELETE FROM transfers WHERE status = 'pending'`,
		invariant.CheckDebitTransfer, `SELECT id::text FROM ledger_entries WHERE transaction_group_id = (SELECT id FROM transfers WHERE status = 'pending')`, true,
	},
	"event without credit": {
		`DELETE FROM ledger_entries WHERE transaction_group_id = (SELECT max(transaction_group_id::text)::uuid FROM ledger_entries WHERE direction = 'credit' AND status = 'provisional')`,
		invariant.CheckEventCredit, `SELECT max(transaction_group_id::text) FROM ledger_entries WHERE direction = 'credit' AND status = 'provisional'`, true,
	},
	"event of another sum": {
		`UPDATE inbound_events SET amount = amount + 1 WHERE id = (SELECT id FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1)`,
		invariant.CheckEventCredit, `SELECT id::text FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1`, false,
	},
	"event of another fee": {
		`UPDATE inbound_events SET fee = fee + 1, amount = amount + 1 WHERE id = (SELECT id FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1)`,
		invariant.CheckEventCredit, `SELECT id::text FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1`, false,
	},
	"event to another account": {
		`UPDATE inbound_events SET account_id = (SELECT account_id FROM ledger_balances WHERE account_id <> inbound_events.account_id LIMIT 1)
			WHERE id = (SELECT id FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1)`,
		invariant.CheckEventCredit, `SELECT id::text FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1`, false,
	},
	"a forged event is posted": {
		`UPDATE inbound_events SET authentic = false WHERE id = (SELECT id FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1)`,
		invariant.CheckEventCredit, `SELECT id::text FROM inbound_events WHERE status = 'processed' ORDER BY id LIMIT 1`, false,
	},
	"credit without event": {
		`UPDATE ledger_entries SET transaction_group_id = gen_random_uuid() WHERE seq = 1 AND direction = 'credit'`,
		invariant.CheckCreditEvent, `SELECT id::text FROM ledger_entries WHERE seq = 1 ORDER BY id LIMIT 1`, true,
	},
	"credit of a misdirected event": {
		`UPDATE inbound_events SET status = 'failed', category = 'misdirected' WHERE id = (SELECT transaction_group_id FROM ledger_entries ORDER BY id LIMIT 1)`,
		invariant.CheckCreditEvent, `SELECT id::text FROM ledger_entries ORDER BY id LIMIT 1`, true,
	},
	"posted twice": {
		`UPDATE ledger_entries SET provider_txn_ref = (SELECT min(provider_txn_ref) FROM ledger_entries WHERE provider_txn_ref <> '') WHERE provider_txn_ref <> ''`,
		invariant.CheckPostedOnce, `SELECT min(provider_txn_ref) FROM ledger_entries WHERE provider_txn_ref <> ''`, false,
	},
	"nobody confirms it": {
		`DELETE FROM work WHERE kind = 'confirm'`,
		invariant.CheckConfirmation, `SELECT id::text FROM ledger_entries WHERE direction = 'credit' AND status = 'provisional'`, false,
	},
	"nobody delivers it": {
		`DELETE FROM work WHERE kind = 'deliver'`, invariant.CheckWork, `SELECT id::text FROM deliveries`, false,
	},
	"nobody submits it": {
		`DELETE FROM work WHERE kind = 'settle'`, invariant.CheckWork, `SELECT id::text FROM transfers WHERE status = 'pending'`, false,
	},
	"nobody closes it": {
		`UPDATE accounts SET status = 'expired', expired_at = now() WHERE account_ref = 'shop'`,
		invariant.CheckWork, `SELECT id::text FROM accounts WHERE account_ref = 'shop'`, false,
	},
	"delivery of nothing": {
		`UPDATE deliveries SET transaction_group_id = gen_random_uuid()`, invariant.CheckDeliveryEvent, `SELECT id::text FROM deliveries`, false,
	},
	"delivery of another sum": {
		`UPDATE deliveries SET body = convert_to(replace(convert_from(body, 'UTF8'), E'\n4975.00\n', E'\n9975.00\n'), 'UTF8')`,
		invariant.CheckDeliveryEvent, `SELECT id::text FROM deliveries`, false,
	},
	"delivery with a damaged body": {
		`UPDATE deliveries SET body = '\xff00'`, invariant.CheckDeliveryEvent, `SELECT id::text FROM deliveries`, false,
	},
	"delivery to another tenant": {
		`UPDATE deliveries SET tenant_id = gen_random_uuid()`, invariant.CheckDeliveryEvent, `SELECT id::text FROM deliveries`, false,
	},
	"delivery of a misdirected payment": {
		`UPDATE deliveries SET transaction_group_id = (SELECT id FROM inbound_events WHERE category = 'misdirected')`,
		invariant.CheckDeliveryEvent, `SELECT id::text FROM deliveries`, false,
	},
	"told of a settlement that is none": {
		toldSettlement + `gen_random_uuid(), 'settlement.succeeded', '{"amount":"100.00"}' FROM transfers WHERE status = 'success'`,
		invariant.CheckDeliveryTransfer, toldID, false,
	},
	"told of a settlement of another sum": {
		toldSettlement + `id, 'settlement.succeeded', '{"amount":"101.00"}' FROM transfers WHERE status = 'success'`, invariant.CheckDeliveryTransfer, toldID, false,
	},
	"told of a settlement that has not failed": {
		toldSettlement + `id, 'settlement.failed', '{"amount":"100.00"}' FROM transfers WHERE status = 'success'`, invariant.CheckDeliveryTransfer, toldID, false,
	},
	"told of nothing that there is": {
		toldSettlement + `id, 'settlement.lost', '{"amount":"100.00"}' FROM transfers WHERE status = 'success'`, invariant.CheckDeliveryTransfer, toldID, false,
	},
	"told that a payment is confirmed, which is not": {
		toldSettlement + `transaction_group_id, 'payment.confirmed', '{"amount":"4975.00"}' FROM ledger_entries
			WHERE status = 'provisional' AND direction = 'credit'`, invariant.CheckDeliveryEnd, toldID, false,
	},
	"told that a payment is reversed, which is confirmed": {
		toldSettlement + `transaction_group_id, 'payment.reversed', '{"amount":"4975.00"}' FROM ledger_entries
			WHERE status = 'confirmed' AND direction = 'credit' LIMIT 1`, invariant.CheckDeliveryEnd, toldID, false,
	},
	"misdirected and not in suspense": {
		`DELETE FROM ledger_entries WHERE kind = 'suspense'`,
		invariant.CheckSuspense, `SELECT id::text FROM inbound_events WHERE misdirected`, false,
	},
	"a fee that was not booked": {
		`UPDATE transfers SET booked_fee = 20 WHERE status = 'success'`,
		invariant.CheckCharges, `SELECT merchant_tx_ref FROM transfers WHERE status = 'success'`, false,
	},
	"a fee that no tenant was debited": {
		`UPDATE transfers SET fee_by_tenant = true, tenant_fee = 20 WHERE status = 'success'`,
		invariant.CheckCharges, `SELECT merchant_tx_ref FROM transfers WHERE status = 'success'`, false,
	},
	"a reservation without a debit": {
		`UPDATE transfers SET fee_by_tenant = true, reserved_fee = 10 WHERE status = 'success'`,
		invariant.CheckCharges, `SELECT merchant_tx_ref FROM transfers WHERE status = 'success'`, false,
	},
	"a payment without the fee of the price that held": {
		listPrice + `SELECT 1`, invariant.CheckPaymentFees, `SELECT id::text FROM ledger_entries WHERE direction = 'credit' AND kind = '' ORDER BY id LIMIT 1`, false,
	},
	"a payment with a price and no fee": {
		listPrice + `UPDATE ledger_entries SET price_id = (SELECT id FROM p) WHERE direction = 'credit' AND kind = '' AND reversal_of IS NULL`,
		invariant.CheckPaymentFees, `SELECT id::text FROM ledger_entries WHERE direction = 'credit' AND kind = '' ORDER BY id LIMIT 1`, false,
	},
	"a payout's fee that was not debited": {
		`UPDATE transfers SET platform_fee = 10, platform_vat = 0 WHERE status = 'success'`,
		invariant.CheckPayoutFees, `SELECT merchant_tx_ref FROM transfers WHERE status = 'success'`, false,
	},
	"a book transfer of one side": {
		`UPDATE ledger_entries SET kind = 'book_transfer' WHERE id = (SELECT id FROM ledger_entries WHERE kind = '' ORDER BY id LIMIT 1)`,
		invariant.CheckBookTransfer, `SELECT id::text FROM ledger_entries WHERE kind = '' ORDER BY id LIMIT 1`, false,
	},
	"a refund of what is no payment": {
		`UPDATE transfers SET refund_of = (SELECT id FROM ledger_entries WHERE direction = 'debit' ORDER BY id LIMIT 1), refund_name = 'A B' WHERE status = 'success'`,
		invariant.CheckRefunds, `SELECT merchant_tx_ref FROM transfers WHERE status = 'success'`, false,
	},
	"a refund of another's payment": {
		`UPDATE transfers t SET refund_of = e.id, refund_name = 'A B' FROM ledger_entries e
			WHERE t.status = 'success' AND e.direction = 'credit' AND e.kind = '' AND e.tenant_id <> t.tenant_id`,
		invariant.CheckRefunds, `SELECT merchant_tx_ref FROM transfers WHERE status = 'success'`, false,
	},
	"more refunded than was paid": {
		`WITH e AS (UPDATE ledger_entries SET amount = 1 WHERE id = (
				SELECT id FROM ledger_entries WHERE direction = 'credit' AND account_id = (SELECT account_id FROM transfers LIMIT 1) ORDER BY id LIMIT 1) RETURNING id)
			UPDATE transfers SET refund_of = (SELECT id FROM e), refund_name = 'A B' WHERE status = 'success'`,
		invariant.CheckRefunds, `SELECT merchant_tx_ref FROM transfers WHERE status = 'success'`, false,
	},
	"account without balance": {
		`DELETE FROM ledger_balances WHERE account_id = (SELECT id FROM accounts ORDER BY id LIMIT 1)`,
		invariant.CheckAccountBalance, `SELECT id::text FROM accounts ORDER BY id LIMIT 1`, false,
	},
	"within the ledger": {
		`UPDATE ledger_entries SET running_balance = running_balance + 1 WHERE id = (SELECT id FROM ledger_entries ORDER BY id DESC LIMIT 1)`,
		ledger.CheckRunning, `SELECT id::text FROM ledger_entries ORDER BY id DESC LIMIT 1`, true,
	},
	"a gap": {
		`DELETE FROM ledger_entries WHERE seq = 3 AND account_id = (SELECT account_id FROM transfers LIMIT 1)`,
		ledger.CheckSequence, `SELECT id::text FROM ledger_entries WHERE seq = 4 AND account_id = (SELECT account_id FROM transfers LIMIT 1)`, true,
	},
	"the head": {
		`UPDATE ledger_balances SET chain_head = sha256('') WHERE account_id = (SELECT account_id FROM transfers LIMIT 1)`,
		ledger.CheckChain, `SELECT account_id::text FROM transfers LIMIT 1`, true,
	},
	"odd sums": {
		`UPDATE ledger_balances SET provisional_credits = total_credits + 1 WHERE account_id = (SELECT account_id FROM transfers LIMIT 1)`,
		ledger.CheckTotals, `SELECT account_id::text FROM transfers LIMIT 1`, false,
	},
}

// listPrice sets a price for all payments there are.
const listPrice = `
	WITH p AS (INSERT INTO prices (id, tenant_id, charged_on, percent, flat, minimum, valid_from, created_at, actor, reason)
		VALUES (gen_random_uuid(), '00000000-0000-0000-0000-000000000000', 'payment', 1, 0, 0, '2020-01-02', '2020-01-01', 'cli:ada', 'list 7') RETURNING id) `

// A check that cannot fail shows nothing: each kind of damage is named by its row, and by the check
// that is meant for it.
func TestVerifyNamesDamage(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, d := range damage {
		seen[d.check] = true
	}
	for _, c := range []string{
		invariant.CheckTransferDebit, invariant.CheckDebitTransfer, invariant.CheckEventCredit, invariant.CheckCreditEvent, invariant.CheckPostedOnce,
		invariant.CheckConfirmation, invariant.CheckDeliveryEvent, invariant.CheckDeliveryEnd, invariant.CheckDeliveryTransfer,
		invariant.CheckAccountBalance, invariant.CheckSuspense, invariant.CheckCharges, invariant.CheckBookTransfer, invariant.CheckWork, invariant.CheckEventKeys,
		invariant.CheckPaymentFees, invariant.CheckPayoutFees,
	} {
		require.True(t, seen[c], "nothing shows that %q can fail", c)
	}
	for name, d := range damage {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			require.Empty(t, w.verify())
			require.Empty(t, w.light().Findings)
			subject := testenv.Value[string](w.Env, d.subject)
			for _, table := range []string{"ledger_entries", "ledger_balances", "inbound_events", "event_keys", "transfers", "deliveries"} {
				w.Exec(`ALTER TABLE ` + table + ` DISABLE TRIGGER ALL`)
			}
			w.Exec(d.sql)
			named := func(f ledger.Finding) bool { return f.Check == d.check && f.Subject == subject }
			found := w.verify()
			require.True(t, slices.ContainsFunc(found, named), "%s at %s: %v", d.check, subject, found)
			first := w.resume()
			require.True(t, first.All)
			require.ElementsMatch(t, found, first.Findings)
			if light := w.light().Findings; d.light {
				require.True(t, slices.ContainsFunc(light, named), "light: %s at %s: %v", d.check, subject, light)
			}
		})
	}
}

// A run from checkpoints names the same of what is newer, and moves no checkpoint.
func TestResumeNamesDamage(t *testing.T) {
	t.Parallel()
	for name, d := range damage {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setupFrom(t, true)
			subject := testenv.Value[string](w.Env, d.subject)
			for _, table := range []string{"ledger_entries", "ledger_balances", "inbound_events", "event_keys", "transfers", "deliveries"} {
				w.Exec(`ALTER TABLE ` + table + ` DISABLE TRIGGER ALL`)
			}
			w.Exec(d.sql)
			seqs := `SELECT array_agg(seq ORDER BY account_id) FROM ledger_checkpoints`
			require.Equal(t, []int64{1, 1}, testenv.Value[[]int64](w.Env, seqs))
			for range 2 {
				r := w.resume()
				require.False(t, r.All)
				require.True(t, slices.ContainsFunc(r.Findings, func(f ledger.Finding) bool {
					return f.Check == d.check && f.Subject == subject ||
						f.Check == ledger.CheckCheckpoint // the entry of a checkpoint was damaged
				}), "%s at %s: %v", d.check, subject, r.Findings)
				require.Equal(t, []int64{1, 1}, testenv.Value[[]int64](w.Env, seqs))
			}
		})
	}
	w := setupFrom(t, true)
	r := w.resume()
	require.Empty(t, r.Findings)
	require.False(t, r.All)
	require.Empty(t, w.resume().Findings)
	require.Empty(t, w.verify())
}

// Of some groups a check reads rows by their keys, and no table whole.
func TestGroupsAreReadByKeys(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	for _, sql := range invariant.GroupsSQL() {
		require.NotContains(t, e.BatchPlan(sql), "Seq Scan", sql)
	}
}

// An account that the bank has not answered for yet has no balance, and nothing is wrong with it:
// its caller may have died.
func TestAnAccountBeingProvisionedIsNoDamage(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.Exec(`
		INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_name, status, type, created_at, updated_at)
		SELECT gen_random_uuid(), tenant_id, customer_id, 'begun', provider, bank_account_name, 'provisioning', 'onetime', created_at, updated_at
		FROM accounts LIMIT 1`)
	require.Empty(t, w.verify())
	require.Empty(t, w.light().Findings)
}

func TestLightSeesWhatIsOpen(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.Clock.Advance(time.Hour)
	s := w.light()
	require.Empty(t, s.Findings)
	require.Equal(t, []int64{2, 0, 1, 1, 0, 1, 1, 0, 0}, []int64{
		s.Accounts, s.NegativeBalances, s.ProvisionalCount, s.ReviewCount, s.UnpostedCount, s.MisdirectedCount, s.PendingCount, s.ProcessingCount, s.DeadLetters,
	})
	require.Equal(t, time.Hour, s.PendingOldest)
	require.GreaterOrEqual(t, s.ProvisionalOldest, time.Hour)
	w.Exec(`UPDATE ledger_balances SET total_debits = total_credits + 1 WHERE account_id = $1`, w.other)
	require.Equal(t, int64(1), w.light().NegativeBalances)
}

// What a check has seen is published; that it has completed, only if it has missed nothing.
func TestStateIsPublished(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	published := func() map[string]int {
		families, err := metrics.Gatherer().Gather()
		require.NoError(t, err)
		got := map[string]int{}
		for _, f := range families {
			got[f.GetName()] = int(f.GetMetric()[0].GetGauge().GetValue())
		}
		return got
	}
	s := invariant.State{Accounts: 7, ProcessingOldest: 90 * time.Second, Findings: make([]ledger.Finding, 3)}
	s.Publish(now)
	got := published()
	require.Equal(t, 7, got["ajo_invariant_accounts"])
	require.Equal(t, 90, got["ajo_invariant_processing_oldest_seconds"])
	require.Equal(t, 3, got["ajo_invariant_violations"])
	require.Equal(t, 1_800_000_000, got["ajo_invariant_last_run_timestamp_seconds"])

	s.Accounts, s.PendingCount, s.StoppedCount = 8, invariant.NotRead, invariant.NotRead
	s.Missed = []invariant.Missed{{Part: "payouts to be submitted"}}
	s.Publish(now.Add(time.Minute))
	got = published()
	require.Equal(t, 8, got["ajo_invariant_accounts"])
	require.Equal(t, -1, got["ajo_invariant_pending_transfers"])
	require.Equal(t, 1_800_000_000, got["ajo_invariant_last_run_timestamp_seconds"])
}
