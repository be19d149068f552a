package fakebank_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/testenv"
)

func TestStateSurvives(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "deep", "bank.json")
	c := clock.NewFake(start)
	hooks := receive(t, func(n int) int { return map[bool]int{true: 200, false: 500}[n > 2] })
	options := fakebank.Options{StateFile: file, WebhookURL: hooks.url, PayoutDelay: time.Minute}
	one := run(t, options, c)
	number := one.open()
	tx := one.pay("5000.00")
	one.SetTransaction(tx.ID, func(t *fakebank.Transaction) { t.ResponseCode = "00" })
	one.submit("under-way", "6000")
	one.AddPerson("70000000000", fakebank.Person{FirstName: "EFE", LastName: "UMAR"})
	one.flush()
	require.NoError(t, one.Close())
	require.Len(t, hooks.all(), 1)

	two := run(t, options, c)
	require.JSONEq(t, string(mustJSON(t, one.Accounts())), string(mustJSON(t, two.Accounts())))
	require.JSONEq(t, string(mustJSON(t, one.Transactions())), string(mustJSON(t, two.Transactions())))
	require.JSONEq(t, string(mustJSON(t, one.Payouts())), string(mustJSON(t, two.Payouts())))
	require.Equal(t, "-1025.00", two.Wallet().String(), "a wallet below zero is kept too")
	require.Equal(t, number, two.do("GET", "/v1/accounts/virtual/"+ref, "").get("data", "bankAccountNumber"))
	a := two.do("POST", "/v1/accounts/virtual", `{"accountRef":"0000000000000002","accountName":"Halima Stores"}`)
	require.NotEqual(t, number, a.get("data", "bankAccountNumber"))
	require.Equal(t, "02", two.do("POST", "/v1/accounts/virtual", `{"accountRef":"`+ref+`","accountName":"Halima Stores"}`).get("code"))
	require.Equal(t, 200, two.call("GET", "/api/v1/kyc/nin?nin=70000000000", "", "AppId", "a", "Authorization", "k").status)

	// what was under way goes on: the payout ends, both webhooks are sent
	c.Advance(2 * time.Minute)
	require.Equal(t, "SUCCESS", two.status("under-way").get("data", "status"))
	two.flush()
	require.Len(t, hooks.all(), 3)
	require.Contains(t, string(hooks.all()[0].body), tx.ID)
	require.Len(t, two.Transactions(), 1)
}

func TestStateIsWrittenWhileRunning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bank.json")
	b := setup(t, fakebank.Options{StateFile: file})
	b.open()
	testenv.Eventually(t, 30*time.Second, "the file with the state", func() bool { _, err := os.Stat(file); return err == nil }, func() any {
		files, err := os.ReadDir(filepath.Dir(file))
		return fmt.Sprint(files, err)
	})
}

// A bank that keeps its records for a while forgets older ones, and no account and no money.
func TestOldRecordsAreForgotten(t *testing.T) {
	t.Parallel()
	options := fakebank.Options{StateFile: filepath.Join(t.TempDir(), "bank.json"), KeepFor: time.Hour}
	c := clock.NewFake(start)
	one := run(t, options, c)
	one.open()
	old := one.pay("5000.00")
	one.submit("old", "1000")
	c.Advance(time.Microsecond)
	young := one.pay("70.00")
	one.submit("young", "1000")
	c.Advance(time.Hour)
	testenv.Eventually(t, 30*time.Second, "the older records to be forgotten", func() bool { _, kept := one.Transaction(old.ID); return !kept })
	// both came from one account: a refund of the younger one asks whose it is
	one.login()
	payer := one.do("POST", "/v1/transfers/bank/lookup", `{"bankCode":"`+young.SenderBankCode+`","accountNumber":"`+young.SenderAccount+`"}`)
	require.Equal(t, young.SenderName, payer.get("data", "accountName"))
	require.NoError(t, one.Close())

	for _, b := range []*bundle{one, run(t, options, c)} {
		require.Len(t, b.Transactions(), 1)
		require.Equal(t, young.ID, b.Transactions()[0].ID)
		require.Len(t, b.Payouts(), 1)
		require.Equal(t, "young", b.Payouts()[0].Ref)
		require.Len(t, b.Accounts(), 1)
		require.Equal(t, "3035.00", b.Wallet().String())
	}
}

// A bank that died after it had opened an account, and before it had written that down, does not
// issue its number again: the service has that account.
func TestNumbersAfterADeathAreOthers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bank.json")
	one := run(t, fakebank.Options{StateFile: file}, clock.NewFake(start))
	one.open()
	require.NoError(t, one.Close())
	two := run(t, fakebank.Options{StateFile: file}, clock.NewFake(start))
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	opened := two.do("POST", "/v1/accounts/virtual", `{"accountRef":"0000000000000002","accountName":"Halima Stores"}`)
	require.NoError(t, two.Close())
	require.NoError(t, os.WriteFile(file, before, 0o600))
	three := run(t, fakebank.Options{StateFile: file}, clock.NewFake(start))
	other := three.do("POST", "/v1/accounts/virtual", `{"accountRef":"0000000000000003","accountName":"Halima Stores"}`)
	require.NotEqual(t, opened.get("data", "bankAccountNumber"), other.get("data", "bankAccountNumber"))
}

func TestBadStateIsAnErrorAndIsLeftAlone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bank.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"wallet":`), 0o600))
	b := fakebank.New(fakebank.Options{StateFile: file})
	_, err := b.Start("")
	require.ErrorContains(t, err, file)
	b.AddPerson("70000000000", fakebank.Person{})
	require.NoError(t, b.Close())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, `{"wallet":`, string(text))
	_, err = b.Start("")
	require.Error(t, err)
}

// Under many callers at once and every payout fault, the wallet and the book agree, and no
// reference is paid twice.
func TestManyCallersAtOnce(t *testing.T) {
	hooks := receive(t, func(n int) int { return map[bool]int{true: 500, false: 200}[n%7 == 0] })
	b := setup(t, fakebank.Options{Seed: 11, WebhookURL: hooks.url, PayoutFee: money.Must("5"), TokenTTL: 24 * time.Hour})
	b.open()
	for _, do := range []fakebank.Action{
		fakebank.Drop, fakebank.DropAfter, fakebank.FailAfter, fakebank.Pending, fakebank.Processing, fakebank.FailLater, fakebank.Refund,
		fakebank.Reject, fakebank.Duplicate, fakebank.WrongRecord,
	} {
		b.Faults.Add(fakebank.Rule{On: fakebank.OnPayouts, Do: do, Percent: 15, Delay: time.Second})
	}
	b.Faults.Add(fakebank.Rule{On: fakebank.OnWebhooks, Do: fakebank.AgainNewID, Percent: 20})
	testenv.AtOnce(8, func(worker int) {
		for i := range 25 {
			_, _ = b.Pay(t.Context(), fakebank.Payment{AccountRef: ref, Amount: money.Must("100")})
			ref := fmt.Sprintf("transfer-%d", (worker*25+i)/2) // each from two sides or twice
			_ = b.submit(ref, "10")
			_ = b.status(ref)
			b.clock.Advance(time.Second)
			b.Webhooks()
		}
	})
	b.clock.Advance(time.Hour)
	b.flush()
	require.Len(t, b.Transactions(), 200)
	want := money.Zero
	for _, tx := range b.Transactions() {
		want = want.Add(tx.Amount).Sub(tx.Fee)
	}
	seen := map[string]bool{}
	for _, p := range b.Paid() {
		require.False(t, seen[p.Ref])
		seen[p.Ref] = true
		want = want.Sub(p.Amount).Sub(p.Fee)
	}
	require.NotEmpty(t, seen)
	require.Equal(t, want.String(), b.Wallet().String())
	for _, p := range b.Payouts() {
		require.NotEqual(t, fakebank.StatusPending, p.Status, "everything has ended")
	}
}

// What a load run asks most: confirmations, and payments with their webhooks.
func BenchmarkBank(b *testing.B) {
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer sink.Close()
	bank := fakebank.New(fakebank.Options{WebhookURL: sink.URL})
	defer func() { _ = bank.Close() }()
	url, err := bank.Start("")
	require.NoError(b, err)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	call := func(method, path, body, token string) string {
		req, _ := http.NewRequestWithContext(b.Context(), method, url+path, strings.NewReader(body))
		req.Header.Set("accountId", fakebank.DefaultAccountID)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(req)
		require.NoError(b, err)
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		require.NoError(b, err)
		return string(text)
	}
	token := reply{text: call("POST", "/v1/auth/token/issue",
		`{"grant_type":"client_credentials","client_id":"dev-client","client_secret":"dev-client-secret"}`, "")}.get("data", "access_token").(string)
	call("POST", "/v1/accounts/virtual", `{"accountRef":"`+ref+`","accountName":"Halima Stores"}`, token)
	tx, err := bank.Pay(b.Context(), fakebank.Payment{AccountRef: ref, Amount: money.Must("5000")})
	require.NoError(b, err)
	b.Run("single", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call("GET", "/v1/transactions/accounts/single?transactionRef="+tx.ID, "", token)
			}
		})
	})
	b.Run("pay", func(b *testing.B) {
		for b.Loop() {
			_, _ = bank.Pay(b.Context(), fakebank.Payment{AccountRef: ref, Amount: money.Must("5000")})
		}
		_ = bank.Flush(b.Context())
	})
}
