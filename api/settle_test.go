package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/ledger"
)

const orderOf1000 = `{"amount":"1000.00","bankCode":"058","accountNumber":"0123456789","narration":"rent & <more>"}`

// funded is a tenant with confirmed money on its account shop-1.
func (w *world) funded(amount string) (member, header) {
	w.T.Helper()
	m := w.onboard()
	key := m.withKey()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, key...).ok(201, nil)
	w.fund(m, amount)
	return m, key
}

// fund gives the member's shop-1 confirmed money.
func (w *world) fund(m member, amount string) {
	w.T.Helper()
	request := uuid.NewString()
	w.pay(event{request, "t-" + request, w.accountID(m, "shop-1"), amount, "0"})
	w.moveEntry(request, ledger.EventConfirm)
}

func (w *world) accountID(m member, ref string) string {
	w.T.Helper()
	return testenv.Value[string](w.Env, `SELECT id::text FROM accounts WHERE tenant_id = $1 AND account_ref = $2`, m.id, ref)
}

// advance does a step of the transfer, as the worker would.
func (w *world) advance(ref string) {
	w.T.Helper()
	id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM transfers WHERE merchant_tx_ref = $1`, ref)
	_ = w.opts.Transfers.Advance(context.Background(), id)
}

// settle asks for a settlement, which must be accepted, and returns its merchantTxRef.
func (w *world) settle(key header, body string, more ...string) string {
	w.T.Helper()
	var got struct{ MerchantTxRef string }
	w.do("POST", "/v1/accounts/shop-1/settle", body, append(key, more...)...).ok(202, &got)
	return got.MerchantTxRef
}

func TestGoldenSettlement(t *testing.T) {
	spec.Shows(t, "field.entry.debit", "field.entry.status.confirmed", "field.transfer.status", "field.transfer.amount", "field.transfer.currency",
		"field.transfer.account", "field.transfer.bank", "field.transfer.number", "field.transfer.attempts", "field.case.transfer",
		"state.transfer.accepted", "endpoint.settle.202", "endpoint.settle.amount", "endpoint.settle.narration", "endpoint.statement.debits",
		"endpoint.statement.closing", "endpoint.transfers.get")
	spec.Shows(t, "error.202")
	w := setup(t)
	_, key := w.funded("5000.00")
	golden(t, "transfers-none", w.do("GET", "/v1/transfers", "", key...).ok(200, nil))
	settled := w.do("POST", "/v1/accounts/shop-1/settle", orderOf1000, key...)
	golden(t, "settle", settled.ok(202, nil))
	require.Equal(t, "application/json", settled.Header.Get("Content-Type"))
	require.Empty(t, settled.Header.Get("Idempotent-Replayed"))
	var accepted struct{ MerchantTxRef string }
	settled.ok(202, &accepted)
	path := "/v1/transfers/" + accepted.MerchantTxRef
	golden(t, "transfer-pending", w.do("GET", path, "", key...).ok(200, nil))
	w.advance(accepted.MerchantTxRef)
	golden(t, "transfer-success", w.do("GET", path, "", key...).ok(200, nil))
	golden(t, "statement-settled", w.do("GET", "/v1/accounts/shop-1/statement", "", key...).ok(200, nil))
	failed := w.settle(key, `{"amount":"2","bankCode":"058","accountNumber":"0001234567"}`)
	w.advance(failed)
	golden(t, "transfers", w.do("GET", "/v1/transfers?limit=1", "", key...).ok(200, nil))
	golden(t, "transfers-filtered", w.do("GET", "/v1/transfers?accountRef=shop-1&status=success", "", key...).ok(200, nil))
	require.Len(t, w.bank.Paid(), 1)
}

func TestGoldenBanksFeesAndAccounts(t *testing.T) {
	spec.Shows(t, "field.account.status.expired", "field.history.id", "field.history.from", "field.history.from.null", "field.history.to",
		"field.history.reason", "field.bank.code", "field.bank.name", "field.lookup.number", "field.lookup.name", "field.case.fee",
		"field.case.banks", "state.account.expire", "state.account.expire.history", "endpoint.accounts.patch", "endpoint.accounts.history.order",
		"state.account.expired.others", "endpoint.accounts.expire", "endpoint.fees.amount", "endpoint.fees.amount.sum", "endpoint.fees.net",
		"endpoint.lookup", "endpoint.banks")
	w := setup(t)
	_, key := w.funded("5000.00")
	golden(t, "banks", w.do("GET", "/v1/transfers/banks", "", key...).ok(200, nil))
	golden(t, "lookup", w.do("POST", "/v1/transfers/lookup", `{"accountNumber":"0123456789","bankCode":"058"}`, key...).ok(200, nil))
	golden(t, "fee-amount", w.do("GET", "/v1/fees/calculate?amount=4990", "", key...).ok(200, nil))
	golden(t, "fee-net", w.do("GET", "/v1/fees/calculate?net=49975.01", "", key...).ok(200, nil))
	golden(t, "fee-net", w.do("GET", "/v1/fees/calculate?amount=&net=49975.01", "", key...).ok(200, nil)) // a form with both fields
	golden(t, "fee-amount", w.do("GET", "/v1/fees/calculate?amount=4990&net=", "", key...).ok(200, nil))
	golden(t, "account-changed", w.do("PATCH", "/v1/accounts/shop-1",
		`{"name":"Ada N. Obi","callbackUrl":"https://example.com/cb","expectedAmount":12.5}`, key...).ok(200, nil))
	golden(t, "account-changed-back", w.do("PATCH", "/v1/accounts/shop-1", `{"callbackUrl":""}`, key...).ok(200, nil))
	golden(t, "account-expired", w.do("POST", "/v1/accounts/shop-1/expire", "", key...).ok(200, nil))
	golden(t, "history-expired", w.do("GET", "/v1/accounts/shop-1/history", "", key...).ok(200, nil))
	w.settle(key, orderOf1000) // from an expired account, too
}

func TestRefusalsOfSettlements(t *testing.T) {
	spec.Shows(t, "error.400.rule", "error.404.other", "error.422.transition", "error.422.amount", "error.message.account.settle",
		"error.message.not-active", "endpoint.settle.account-name", "error.message.amount-number", "error.message.funds", "error.message.amount", "error.message.name-mismatch",
		"error.other.bank-code", "error.other.account-number", "error.other.transfer", "error.other.patch", "limit.settle.amount",
		"state.account.expired.expire", "state.account.expired.others", "state.transfer.naming", "endpoint.accounts.patch.one",
		"endpoint.accounts.expire.active", "endpoint.settle.amount", "endpoint.settle.amount.number", "endpoint.settle.amount.invalid",
		"endpoint.settle.bank-code", "endpoint.settle.account-number", "endpoint.settle.balance", "endpoint.fees.one",
		"endpoint.lookup.account-number", "endpoint.lookup.bank-code", "endpoint.lookup.404")
	w := setup(t)
	_, key := w.funded("5000.00")
	_, theirs := w.funded("5000.00")
	ref := w.settle(theirs, orderOf1000)
	body := func(change string) string {
		return strings.Replace(`{"amount":"1000.00","bankCode":"058","accountNumber":"0123456789"}`, "{", "{"+change, 1)
	}
	settle := func(amount, more string) string {
		return fmt.Sprintf(`{"amount":%s,"bankCode":"058","accountNumber":"0123456789"%s}`, amount, more)
	}
	const numbers = "amount must be a decimal string, not a number"
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"POST", "/v1/accounts/nobody/settle", settle(`1000`, ""), 422, numbers},
		{"POST", "/v1/accounts/nobody/settle", settle(`1e3`, ""), 422, numbers},
		{"POST", "/v1/accounts/nobody/settle", settle(`-0.0`, ""), 422, numbers},
		{"POST", "/v1/accounts/nobody/settle", settle(`1000`, `,"AMOUNT":"1"`), 422, numbers},
		{"POST", "/v1/accounts/shop-1/settle", settle(`"1"`, `,"AMOUNT":"2"`), 400, `duplicate field "AMOUNT"`},
		{"POST", "/v1/accounts/shop-1/settle", settle(`"1"`, `,"amount":"2"`), 400, `duplicate field "amount"`},
		{"POST", "/v1/accounts/nobody/settle", settle(`"0.00"`, ""), 400, "invalid amount"},
		{"POST", "/v1/accounts/nobody/settle", settle(`"-1"`, ""), 400, "invalid amount"},
		{"POST", "/v1/accounts/nobody/settle", settle(`"1.001"`, ""), 400, "invalid amount"},
		{"POST", "/v1/accounts/nobody/settle", settle(`""`, ""), 400, "invalid amount"},
		{"POST", "/v1/accounts/nobody/settle", settle(`null`, ""), 400, "invalid amount"},
		{"POST", "/v1/accounts/nobody/settle", `{}`, 400, "invalid amount"},
		{"POST", "/v1/accounts/nobody/settle", settle(`true`, ""), 400, "invalid amount"},
		{"POST", "/v1/accounts/nobody/settle", settle(`false`, ""), 400, "invalid amount"},
		{"POST", "/v1/accounts/nobody/settle", settle(`[]`, ""), 400, "invalid amount"},
		{"POST", "/v1/accounts/nobody/settle", settle(`["1000.00"]`, ""), 400, "invalid amount"},
		{"POST", "/v1/accounts/nobody/settle", settle(`{}`, ""), 400, "invalid amount"},
		{"POST", "/v1/accounts/nobody/settle", settle(`{"amount":"1000.00"}`, ""), 400, "invalid amount"},
		{"POST", "/v1/accounts/nobody/settle", `{"amount":"1"}`, 400, "bankCode must be 3 to 6 digits"},
		{"POST", "/v1/accounts/nobody/settle", `{"amount":"1","bankCode":"058"}`, 400, "accountNumber must be exactly 10 digits"},
		{"POST", "/v1/accounts/nobody/settle", `{"amount":"1","bankCode":58,"accountNumber":"0123456789"}`, 400, "bankCode must be a string"},
		{"POST", "/v1/accounts/nobody/settle", body(`"narration":"` + strings.Repeat("é", 141) + `",`), 400, "narration must be at most 140 characters, without control characters"},
		{"POST", "/v1/accounts/nobody/settle", body(`"narration":"Rent\nMay",`), 400, "narration must be at most 140 characters, without control characters"},
		{"POST", "/v1/accounts/nobody/settle", body(`"accountName":"Somebody",`), 404, "account not found"},
		{"POST", "/v1/accounts/nobody/settle", `{"amount":"1.00","bankCode":"999","accountNumber":"0123456789"}`, 404, "account not found"},
		{"POST", "/v1/accounts/shop-1/settle", `{"amount":"5000.01","bankCode":"999","accountNumber":"0123456789"}`, 404, "bank not found"},
		{"POST", "/v1/accounts/shop-1/settle", `{"amount":"1.00","bankCode":"999","accountNumber":"0123456789","accountName":"Somebody"}`, 404, "bank not found"},
		{"POST", "/v1/accounts/shop-1/settle", settle(`"5000.01"`, `,"accountName":"Somebody"`), 400, "account name mismatch"},
		{"POST", "/v1/accounts/shop-1/settle", settle(`"1.00"`, `,"accountName":""`), 400, "account name mismatch"},
		{"POST", "/v1/accounts/shop-1/settle", settle(`"5000.01"`, `,"accountName":null`), 400, "insufficient funds"},
		{"POST", "/v1/accounts/shop-1/settle", settle(`"5000.01"`, `,"accountName":"amina bello"`), 400, "insufficient funds"},
		{"POST", "/v1/accounts/shop-1/settle", settle(`"5000.01"`, ""), 400, "insufficient funds"},

		{"GET", "/v1/transfers/" + ref, "", 404, "transfer not found"},
		{"GET", "/v1/transfers/AJOnone", "", 404, "transfer not found"},
		{"GET", "/v1/transfers?status=successful", "", 400, "status must be pending, processing, success, failed or refunded"},
		{"GET", "/v1/transfers?accountRef=nobody", "", 404, "account not found"},
		{"GET", "/v1/transfers?after=x", "", 400, "invalid cursor"},
		{"GET", "/v1/transfers?limit=101", "", 400, "limit must be a whole number from 1 to 100"},

		{"POST", "/v1/transfers/lookup", `{"bankCode":"058","accountNumber":"123"}`, 400, "accountNumber must be exactly 10 digits"},
		{"POST", "/v1/transfers/lookup", `{"bankCode":"058"}`, 400, "accountNumber must be exactly 10 digits"},
		{"POST", "/v1/transfers/lookup", `{"accountNumber":"0123456789"}`, 400, "bankCode must be 3 to 6 digits"},
		{"POST", "/v1/transfers/lookup", `{"bankCode":"xyz","accountNumber":"0123456789"}`, 404, "destination account not found"},
		{"POST", "/v1/transfers/lookup", `{"bankCode":"999","accountNumber":"0123456789"}`, 404, "destination account not found"},
		{"POST", "/v1/transfers/lookup", `{"bankCode":"058","accountNumber":"0001234567"}`, 404, "destination account not found"},

		{"GET", "/v1/fees/calculate", "", 400, "exactly one of amount and net is required"},
		{"GET", "/v1/fees/calculate?amount=1&net=1", "", 400, "exactly one of amount and net is required"},
		{"GET", "/v1/fees/calculate?amount=", "", 400, "exactly one of amount and net is required"},
		{"GET", "/v1/fees/calculate?amount=&net=", "", 400, "exactly one of amount and net is required"},
		{"GET", "/v1/fees/calculate?amount=&net=x", "", 400, "invalid amount"},
		{"GET", "/v1/fees/calculate?net=" + url.QueryEscape("1e3"), "", 400, "invalid amount"},

		{"PATCH", "/v1/accounts/shop-1", `{}`, 400, "no fields to update"},
		{"PATCH", "/v1/accounts/shop-1", `{"externalRef":"x"}`, 400, "no fields to update"},
		{"PATCH", "/v1/accounts/shop-1", `{"name":""}`, 400, "name is required"},
		{"PATCH", "/v1/accounts/shop-1", `{"expectedAmount":0}`, 400, "expectedAmount must be above zero"},
		{"PATCH", "/v1/accounts/nobody", `{"name":"x"}`, 404, "account not found"},
		{"POST", "/v1/accounts/nobody/expire", "", 404, "account not found"},
	} {
		w.do(c.method, c.path, c.body, key...).refused(c.status, c.text)
	}
	require.NoError(t, w.Redis().FlushDB(context.Background()).Err(), "no list is kept")
	w.bank.Faults.SetDown(fakebank.DownAnswer)
	w.Clock.Advance(5 * time.Minute) // what was looked up before is asked again
	w.do("GET", "/v1/transfers/banks", "", key...).refused(502, "provider error: the bank did not answer")
	w.do("POST", "/v1/transfers/lookup", `{"bankCode":"058","accountNumber":"0123456789"}`, key...).refused(502, "provider error: the bank did not answer")
	w.do("POST", "/v1/accounts/shop-1/settle", body(`"accountName":"Amina Bello",`), key...).refused(502, "provider error: the bank did not answer")
	w.do("POST", "/v1/accounts/shop-1/expire", "", key...).ok(200, nil)
	w.do("POST", "/v1/accounts/shop-1/expire", "", key...).refused(422, "account is not active")
	w.do("PATCH", "/v1/accounts/shop-1", `{"name":"x"}`, key...).refused(422, "account is not active")
	require.Equal(t, 1, testenv.Value[int](w.Env, `SELECT count(*) FROM transfers`), "the other tenant's")
}

// The first answer is given again, byte by byte and with the header that says so: from Redis, and
// from Postgres when Redis was emptied. Another body, path or method under the key is refused;
// refusals are not kept.
func TestIdempotencyKeys(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	keyed := func(name string) []string { return append(append([]string{}, key...), "Idempotency-Key", name) }
	const path = "/v1/accounts/shop-1/settle"
	first := w.do("POST", path, orderOf1000, keyed("k")...).ok(202, nil)
	replay := func() {
		t.Helper()
		again := w.do("POST", path, orderOf1000, keyed("k")...).ok(202, nil)
		require.Equal(t, first.Body, again.Body)
		require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
		require.Equal(t, first.Header.Get("Content-Type"), again.Header.Get("Content-Type"))
	}
	replay()
	w.Exec(`UPDATE idempotency_keys SET response = '{}'`)
	replay() // so it came from Redis
	w.Exec(`UPDATE idempotency_keys SET response = $1`, []byte(first.Body))
	require.NoError(t, w.Redis().FlushDB(context.Background()).Err())
	replay()
	require.Equal(t, 1, testenv.Value[int](w.Env, `SELECT count(*) FROM transfers`))

	const reused = "Idempotency-Key was already used with a different request"
	w.do("POST", path, strings.Replace(orderOf1000, "1000.00", "1000.01", 1), keyed("k")...).refused(422, reused)
	require.Equal(t, "true", w.do("POST", path, " "+orderOf1000, keyed("k")...).ok(202, nil).Header.Get("Idempotent-Replayed"), "the same JSON")
	w.do("POST", "/v1/accounts/"+w.accountID(m, "shop-1")+"/settle", orderOf1000, keyed("k")...).refused(422, reused)
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-2","name":"Ada Obi"}`, keyed("k")...).refused(422, reused)
	for _, bad := range []string{strings.Repeat("k", 256), "tab\tbed", " "} { // a space is sent as an empty value
		w.do("POST", path, orderOf1000, keyed(bad)...).refused(400, "Idempotency-Key must have 1 to 255 printable characters")
	}

	big := strings.Replace(orderOf1000, "1000.00", "4500.00", 1)
	w.do("POST", path, big, keyed("big")...).refused(400, "insufficient funds")
	w.pay(event{"more", "t-more", w.accountID(m, "shop-1"), "1000.00", "0"})
	require.Empty(t, w.do("POST", path, big, keyed("big")...).ok(202, nil).Header.Get("Idempotent-Replayed"), "a refusal was not kept")

	w.Exec(`INSERT INTO idempotency_keys (tenant_id, key, request_hash, leased_until, created_at)
		SELECT tenant_id, 'running', request_hash, $1, $1 FROM idempotency_keys WHERE key = 'k'`, w.Clock.Now().Add(1e9))
	w.do("POST", path, orderOf1000, keyed("running")...).refused(409, "a request with this Idempotency-Key is still running")

	_, theirs := w.funded("5000.00")
	stranger := w.do("POST", path, orderOf1000, append(theirs, "Idempotency-Key", "k")...).ok(202, nil)
	require.Empty(t, stranger.Header.Get("Idempotent-Replayed"), "another tenant's key")
	require.NotEqual(t, first.Body, stranger.Body)

	account := w.do("POST", "/v1/accounts", `{"externalRef":"o","name":"Ada Obi","mode":"onetime"}`, keyed("account")...).ok(201, nil)
	repeat := w.do("POST", "/v1/accounts", `{"externalRef":"o","name":"Ada Obi","mode":"onetime"}`, keyed("account")...).ok(201, nil)
	require.Equal(t, account.Body, repeat.Body)
	require.Equal(t, "true", repeat.Header.Get("Idempotent-Replayed"))
}

// A request to end an account that is repeated after its answer was lost ends no other account of
// the reference, which names the next one by then.
func TestExpireIsRepeatedUnderItsKey(t *testing.T) {
	w := setup(t)
	_, key := w.funded("1.00")
	const invoice = `{"externalRef":"customer-1","name":"Ada Obi","mode":"onetime"}`
	first, second := w.ask("POST", "/v1/accounts", invoice, 201, key), w.ask("POST", "/v1/accounts", invoice, 201, key)
	keyed := append(append(header{}, key...), "Idempotency-Key", "cancel-2")
	const path = "/v1/accounts/customer-1/expire"
	ended := w.do("POST", path, "", keyed...).ok(200, nil)
	for range 2 { // from Redis, and from Postgres
		again := w.do("POST", path, "", keyed...).ok(200, nil)
		require.JSONEq(t, ended.Body, again.Body)
		require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
		require.NoError(t, w.Redis().FlushDB(context.Background()).Err())
	}
	w.ask("GET", "/v1/accounts/"+second["ID"].(string), "", 200, key).has(t, fields{"Status": "expired"})
	w.ask("GET", "/v1/accounts/"+first["ID"].(string), "", 200, key).has(t, fields{"Status": "active"})
	w.do("POST", path, "", append(append(header{}, key...), "Idempotency-Key", " ")...).refused(400, "Idempotency-Key must have 1 to 255 printable characters")
	w.do("POST", "/v1/accounts/"+first["ID"].(string)+"/expire", "", keyed...).refused(422, "Idempotency-Key was already used with a different request")
}

// An event about a payout expedites its transfer, whatever it says, and decides nothing.
func TestPayoutEventsOnlyWake(t *testing.T) {
	spec.Shows(t, "state.transfer.submitted")
	w := setup(t)
	_, key := w.funded("5000.00")
	w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.DropAfter})
	ref := w.settle(key, orderOf1000)
	w.advance(ref)
	due := func() bool {
		return testenv.Value[bool](w.Env, `SELECT due_at <= $2 FROM work WHERE id = (SELECT id FROM transfers WHERE merchant_tx_ref = $1)`, ref, w.Clock.Now())
	}
	status := func() string {
		return testenv.Value[string](w.Env, `SELECT status FROM transfers WHERE merchant_tx_ref = $1`, ref)
	}
	require.False(t, due())
	p, ok := w.bank.Payout(ref)
	require.True(t, ok)
	w.sendEvent(fakebank.PayoutFailed, p)
	require.True(t, due())
	require.Equal(t, "processing", status(), "the event says that it failed")
	w.advance(ref)
	require.Equal(t, "success", status(), "the bank, asked, says that it was paid")
}

// sendEvent sends a signed event about a payout.
func (w *world) sendEvent(kind string, p fakebank.Payout) {
	w.T.Helper()
	w.bank.SetWebhookURL(w.url + "/webhooks/provider")
	e := w.bank.Event(kind, fakebank.Transaction{ID: p.ID, Amount: p.Amount, Fee: p.Fee, Currency: "NGN", Time: w.Clock.Now()})
	e.Data.Transaction.MerchantTxRef = p.Ref
	body, err := json.Marshal(e)
	require.NoError(w.T, err)
	status, said, err := w.bank.SendEvent(context.Background(), body, nil)
	require.NoError(w.T, err)
	require.Equal(w.T, 200, status, "%s", said)
}

// A tenant that bears what the bank takes sees it as lines of its own, and in the file.
func TestFeeInTheStatement(t *testing.T) {
	w := setup(t)
	m, key := w.funded("1010.00")
	w.Exec(`UPDATE tenants SET payout_fee_by = 'tenant' WHERE id = $1`, m.id)
	w.do("POST", "/v1/accounts/shop-1/settle", strings.Replace(orderOf1000, "1000.00", "1000.01", 1), key...).refused(400, "insufficient funds")
	ref := w.settle(key, orderOf1000)
	lines := func() (list []string) {
		var s struct {
			Lines []struct {
				Entry struct{ Direction, Amount, Status, Narration, Kind, TransferRef string }
			}
		}
		w.do("GET", "/v1/accounts/shop-1/statement", "", key...).ok(200, &s)
		for _, l := range s.Lines[1:] {
			require.Equal(t, ref, l.Entry.TransferRef)
			list = append(list, fmt.Sprintf("%s %s %s %s %s", l.Entry.Direction, l.Entry.Amount, l.Entry.Status, l.Entry.Kind, l.Entry.Narration))
		}
		return list
	}
	require.Equal(t, []string{"debit 1000.00 provisional  rent & <more>", "debit 10.00 provisional fee Payout fee"}, lines())
	w.advance(ref)
	require.Equal(t, []string{
		"debit 1000.00 confirmed  rent & <more>", "debit 10.00 reversed fee Payout fee", "credit 10.00 reversed fee Reversal: Payout fee",
	}, lines(), "this bank takes no fee")
	file := w.do("GET", "/auth/accounts/shop-1/statement.csv", "", m.withSession()...).ok(200, nil)
	require.Contains(t, file.Body, ",Payout fee,")
	require.Contains(t, file.Body, ",fee\r\n")
}
