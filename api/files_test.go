package api

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/statement"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// One file has the statements of all accounts that have lines, and of no other tenant.
func TestStatementsOfAllAccounts(t *testing.T) {
	w := setup(t)
	m := w.filtered()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-9","name":"Chidi Eze"}`, m.withKey()...).ok(201, nil)
	w.pay(event{"r-9", "t-9", w.accountID(m, "shop-9"), "77.00", "0"})
	w.do("POST", "/v1/accounts", `{"externalRef":"unused","name":"Zainab Musa"}`, m.withKey()...).ok(201, nil)
	other := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"of-another","name":"Bola Ade"}`, other.withKey()...).ok(201, nil)
	w.pay(event{"r-10", "t-10", w.accountID(other, "of-another"), "7.00", "0"})

	r := w.do("GET", "/auth/statement.csv", "", m.withSession()...).ok(200, nil)
	require.Equal(t, "attachment; filename=statements-2026-03-04.csv", r.Header.Get("Content-Disposition"))
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(r.Body, "\uFEFF"))).ReadAll()
	require.NoError(t, err)
	of := map[string]int{}
	for _, row := range rows[1:] {
		require.Len(t, row, len(rows[0]))
		of[row[len(row)-2]]++
	}
	require.Equal(t, map[string]int{"shop-1": 5, "shop-9": 1}, of)
	require.Equal(t, []string{"accountRef", "accountNumber"}, rows[0][len(rows[0])-2:])

	body := w.do("GET", "/auth/statement.xml", "", m.withSession()...).ok(200, nil).Body
	require.Equal(t, 2, strings.Count(body, "<Stmt>"))
	require.NotContains(t, body, "Bola Ade")
	require.True(t, strings.HasPrefix(w.do("GET", "/auth/statement.pdf", "", m.withSession()...).ok(200, nil).Body, "%PDF-"))
	require.True(t, strings.HasPrefix(w.do("GET", "/auth/statement.pdf?from=2090-01-01", "", m.withSession()...).ok(200, nil).Body, "%PDF-"))
	const empty = "no account has lines in this period: a camt.053 file needs at least one statement"
	w.do("GET", "/auth/statement.xml?from=2090-01-01", "", m.withSession()...).refused(422, empty)
	w.do("GET", "/auth/statement.xml?to=2026-01-01", "", m.withSession()...).refused(422, empty)
	w.do("GET", "/auth/statement.xml", "", w.onboard().withSession()...).refused(422, empty)
	w.Exec(`INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_number, bank_account_name, status, type, created_at, updated_at)
		SELECT gen_random_uuid(), tenant_id, customer_id, 'n' || n, 'nomba', (9000000000 + n)::text, '', 'active', 'onetime', now(), now()
		FROM generate_series(1, 1000) n, (SELECT tenant_id, customer_id FROM accounts WHERE account_ref = 'unused') u`)
	w.do("GET", "/auth/statement.csv", "", m.withSession()...).refused(422, "there are more than 1000 accounts: export them one by one")
}

// What moves between two accounts while the file of all accounts is made is in both, or in none.
func TestAFileOfAllAccountsIsOfOneMoment(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-2","name":"Chidi Eze"}`, key...).ok(201, nil)
	pool, asked := w.BeforeTheSecond("FROM ledger_entries e\n\t\tWHERE e.account_id = $1 AND e.seq > $2", func() {
		w.do("POST", "/v1/accounts/shop-1/transfer", `{"toAccountRef":"shop-2","amount":"100.00"}`, key...).ok(201, nil)
	})
	w.opts.Accounts.Pool = pool
	w.serve()
	meanwhile := w.do("GET", "/auth/statement.csv", "", m.withSession()...).ok(200, nil)
	require.EqualValues(t, 2, asked.Load())
	require.Zero(t, strings.Count(meanwhile.Body, ",book_transfer,"), meanwhile.Body)
	file := w.do("GET", "/auth/statement.csv", "", m.withSession()...).ok(200, nil)
	require.Equal(t, 2, strings.Count(file.Body, ",book_transfer,"))
}

// A payment that is reversed while the file of its account is made was under review in all of it,
// or in none: a closing balance that has the reversal and not the payment never was.
func TestAFileOfOneAccountIsOfOneMoment(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, m.withKey()...).ok(201, nil)
	w.pay(event{"r-1", "t-1", w.accountID(m, "shop-1"), "100.00", "0"})
	w.moveEntry("r-1", ledger.EventHold)
	w.Clock.Advance(24 * time.Hour)
	pool, asked := w.BeforeTheSecond("created_at >= $5 AND", func() { w.moveEntry("r-1", ledger.EventReverse) })
	w.opts.Accounts.Pool = pool
	w.serve()
	require.Equal(t, "0.00 0.00", w.camtBalances(m, "from=2026-03-03"))
	require.EqualValues(t, 2, asked.Load())
	require.Equal(t, "100.00 0.00", w.camtBalances(m, "from=2026-03-03"))
}

// camtBalances are the opening and the closing balance in the camt.053 file of shop-1.
func (w *world) camtBalances(m member, query string) string {
	w.T.Helper()
	body := w.do("GET", "/auth/accounts/shop-1/statement.xml?"+query, "", m.withSession()...).ok(200, nil).Body
	var got []string
	for _, part := range strings.Split(body, "<Bal>")[1:] {
		_, amount, _ := strings.Cut(part, `<Amt Ccy="NGN">`)
		amount, _, _ = strings.Cut(amount, "<")
		got = append(got, amount)
	}
	return strings.Join(got, " ")
}

// A destination that is not known, as that of an adopted payout may be, is named nowhere.
func TestUnknownDestination(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	ref := w.settle(key, orderOf1000)
	named := func() string {
		x, err := w.opts.Transfers.Get(t.Context(), testenv.Value[uuid.UUID](w.Env, `SELECT tenant_id FROM transfers`), ref)
		require.NoError(t, err)
		of := map[string]string{}
		for _, f := range payoutReceipt("Ada Stores", x, statement.Made{}).Facts {
			of[f[0]] = f[1]
		}
		got := w.read(key, "/v1/transfers/"+ref)
		same := w.read(m.withSession(), "/auth/transfers").list("transfers")[0]
		require.Equal(t, []any{got["bankCode"], got["accountNumber"]}, []any{same["bankCode"], same["accountNumber"]})
		return fmt.Sprintf("%s, %s; %s, %s", got["accountNumber"], got["bankCode"], of["To account number"], of["Bank"])
	}
	w.ExecUnguarded(`UPDATE transfers SET bank_name = ''`)
	require.Equal(t, "0123456789, 058; 0123456789, 058", named())
	w.ExecUnguarded(`UPDATE transfers SET bank_code = '000', account_number = '0000000000'`)
	require.Equal(t, ", ; , ", named())
}

// A payout that was adopted was ordered before the books were restored, and nobody knows when: its
// receipt does not say the time of the adoption. One that the books had says when it was ordered.
func TestReceiptOfAnAdoptedPayout(t *testing.T) {
	w := setup(t)
	_, key := w.funded("5000.00")
	ref := w.settle(key, orderOf1000)
	ordered := func() (at string) {
		x, err := w.opts.Transfers.Get(t.Context(), testenv.Value[uuid.UUID](w.Env, `SELECT tenant_id FROM transfers`), ref)
		require.NoError(t, err)
		for _, f := range payoutReceipt("Ada Stores", x, statement.Made{}).Facts {
			if f[0] == "Ordered" {
				at = f[1]
			}
		}
		return at
	}
	w.ExecUnguarded(`UPDATE transfers SET status = 'success', attempt_count = 1, submitted_at = created_at`)
	require.Equal(t, "2 Mar 2026 10:00", ordered())
	w.ExecUnguarded(`UPDATE transfers SET adopted = true`)
	require.Empty(t, ordered())
	w.ExecUnguarded(`UPDATE transfers SET submitted_at = created_at + interval '2 days'`)
	require.Equal(t, "2 Mar 2026 10:00", ordered())
}

// The receipt of a payment that its account's policy is about to send back says so.
func TestReceiptOfWhatGoesBack(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	for action, held := range map[string]string{"refund": "99.00", "hold": "0.00"} {
		w.ask("POST", "/v1/accounts", `{"externalRef":"`+action+`","name":"Ada Obi","expectedAmount":100,"policy":{"under":"`+action+`"}}`, 201, m.withKey())
		w.pay(event{"r-" + action, "t-" + action, action, "99.00", "0"})
		w.moveEntry("r-"+action, ledger.EventConfirm)
		p, err := w.opts.Payments.Timeline(context.Background(), m.id, testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE request_id = $1`, "r-"+action))
		require.NoError(t, err)
		require.NotNil(t, p.Held)
		require.Equal(t, held, goneBack(p).Held.String(), action)
	}
}

// A file's name has the day in Lagos, as what is in it has, also in the hour in which UTC has
// another.
func TestAFilesNameHasItsDay(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 2, 22, 59, 59, 0, time.UTC)
	require.Equal(t, "attachment; filename=payments-2026-03-02.csv", attachment("payments", at, "csv"))
	require.Equal(t, "attachment; filename=payments-2026-03-03.csv", attachment("payments", at.Add(time.Second), "csv"))
}

// A payment that is under review is pending in the file, and in neither balance; what was posted
// before the file's time is as it stands now.
func TestCamtIsOfWhatIsKnownNow(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, m.withKey()...).ok(201, nil)
	id := w.accountID(m, "shop-1")
	w.pay(event{"r-1", "t-1", id, "100.00", "0"})
	w.pay(event{"r-2", "t-2", id, "20.00", "0"})
	w.moveEntry("r-1", ledger.EventHold) // under review before the next is posted
	w.Clock.Advance(24 * time.Hour)
	w.pay(event{"r-3", "t-3", id, "3.00", "0"})
	w.pay(event{"r-4", "t-4", id, "4.00", "0"})
	w.moveEntry("r-2", ledger.EventHold)
	w.moveEntry("r-4", ledger.EventHold)
	balances := func(query string) string { return w.camtBalances(m, query) }
	require.Equal(t, "3.00", w.read(m.withKey(), "/v1/accounts/shop-1/balance")["balance"])
	require.Equal(t, "0.00 3.00", balances(""))
	require.Equal(t, "0.00 3.00", balances("from=2026-03-03"), "both of the day before are under review")
	require.Equal(t, "0.00 0.00", balances("to=2026-03-02"))
	w.moveEntry("r-2", ledger.EventConfirm)
	require.Equal(t, "20.00 23.00", balances("from=2026-03-03"))
	require.Equal(t, "0.00 20.00", balances("to=2026-03-02"))
	w.moveEntry("r-4", ledger.EventConfirm)
	require.Equal(t, "20.00 27.00", balances("from=2026-03-03"))
	require.Equal(t, "27.00", w.read(m.withKey(), "/v1/accounts/shop-1/balance")["balance"])
	w.moveEntry("r-1", ledger.EventConfirm)
	require.Equal(t, "120.00 127.00", balances("from=2026-03-03"))
}

// A file of a period that is over is refused while an entry may still be posted into it.
func TestFileOfAPeriodThatIsNotComplete(t *testing.T) {
	w := setup(t)
	m, _ := w.funded("5000.00")
	posting, err := w.Pool.Begin(context.Background())
	require.NoError(t, err)
	defer func() { _ = posting.Rollback(context.Background()) }()
	_, err = posting.Exec(context.Background(), `SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	path := "/auth/payments.csv?to=" + url.QueryEscape(time.Now().UTC().Format(time.RFC3339Nano))
	r := w.do("GET", path, "", m.withSession()...)
	r.refused(503, "entries of this period are still being posted: try again")
	require.Equal(t, "5", r.Header.Get("Retry-After"))
	require.NoError(t, posting.Rollback(context.Background()))
	require.Contains(t, w.do("GET", path, "", m.withSession()...).ok(200, nil).Body, "5000.00")
}

// A file whose period ends while it is made is refused: it may lack the last entries of the period,
// and would be dated as if it had them. Asked for once more, it waits for them.
func TestFileOfAPeriodThatEndsMeanwhile(t *testing.T) {
	w := setup(t)
	m, _ := w.funded("5000.00")
	for _, path := range []string{
		"/auth/accounts/shop-1/statement.csv", "/auth/accounts/shop-1/statement.pdf", "/auth/accounts/shop-1/statement.xml",
		"/auth/statement.csv", "/auth/statement.pdf", "/auth/statement.xml", "/auth/payments.csv",
	} {
		pool, asked := w.BeforeTheSecond("", func() { w.Clock.Advance(time.Minute) })
		w.opts.Accounts.Pool, w.opts.Payments.Pool = pool, pool
		w.serve()
		to := func(after time.Duration) string {
			return path + "?to=" + url.QueryEscape(w.Clock.Now().Add(after).UTC().Format(time.RFC3339Nano))
		}
		ends := to(time.Minute)
		r := w.do("GET", ends, "", m.withSession()...)
		r.refused(503, "entries of this period are still being posted: try again")
		require.Equal(t, "5", r.Header.Get("Retry-After"), path)
		require.Greater(t, asked.Load(), int64(1), path)
		w.do("GET", ends, "", m.withSession()...).ok(200, nil)
		w.do("GET", to(time.Microsecond), "", m.withSession()...).ok(200, nil)
	}
}

// There is a receipt of what is final, and of nothing else.
func TestReceipts(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	paid := w.read(key, "/v1/payments").list("payments")[0]["id"].(string)
	ref := w.settle(key, orderOf1000)
	for path, ok := range map[string]bool{"/auth/payments/" + paid: true, "/auth/transfers/" + ref: false} {
		r := w.do("GET", path+"/receipt.pdf", "", m.withSession()...)
		if ok {
			r.ok(200, nil)
			require.True(t, strings.HasPrefix(r.Body, "%PDF-"))
			require.Equal(t, "attachment; filename=receipt-"+paid+"-2026-03-02.pdf", r.Header.Get("Content-Disposition"))
		} else {
			r.refused(422, "the transfer has not succeeded")
		}
		w.do("GET", path+"/receipt.pdf", "").refused(401, "unauthorized")
	}
	w.ExecUnguarded(`UPDATE transfers SET status = 'success', attempt_count = 1`)
	require.True(t, strings.HasPrefix(w.do("GET", "/auth/transfers/"+ref+"/receipt.pdf", "", m.withSession()...).ok(200, nil).Body, "%PDF-"))
	w.Exec(`UPDATE transfers SET difference = 'the bank says failed', differs_since = now()`)
	w.do("GET", "/auth/transfers/"+ref+"/receipt.pdf", "", m.withSession()...).refused(422, "the bank's record of the transfer says otherwise")
	require.Equal(t, true, w.read(key, "/v1/transfers/"+ref)["differs"], "so the dashboard offers none")
	w.Exec(`INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at)
		SELECT transaction_group_id, tenant_id, account_id, 'operator', 'open', 0, now() FROM ledger_entries WHERE id = $1`, paid)
	w.do("GET", "/auth/payments/"+paid+"/receipt.pdf", "", m.withSession()...).refused(422, "the bank may have taken the payment back")
	w.Exec(`UPDATE recalls SET status = 'watched', closed_at = now()`)
	w.do("GET", "/auth/payments/"+paid+"/receipt.pdf", "", m.withSession()...).refused(422, "the bank may have taken the payment back")
	w.pay(event{"r-9", "t-9", w.accountID(m, "shop-1"), "77.00", "0"})
	provisional := w.read(key, "/v1/payments?status=provisional").list("payments")[0]["id"].(string)
	w.do("GET", "/auth/payments/"+provisional+"/receipt.pdf", "", m.withSession()...).refused(422, "the payment is not confirmed")
	w.do("GET", "/auth/payments/nothing/receipt.pdf", "", m.withSession()...).refused(404, "payment not found")
}
