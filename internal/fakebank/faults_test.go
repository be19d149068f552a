package fakebank_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/testenv"
)

func TestRulesChooseTheirCalls(t *testing.T) {
	b := setup(t, fakebank.Options{})
	statuses := func(n int, path string) (list []int) {
		for range n {
			list = append(list, b.do("GET", path, "").status)
		}
		return list
	}
	const banks, one, other = "/v1/transfers/banks", "/v1/accounts/virtual/0000000000000001", "/v1/accounts/virtual/0000000000000002"
	b.Faults.Set(fakebank.Rule{On: fakebank.OnBanks, Do: fakebank.Fail, Skip: 1, Next: 2, Status: 429})
	require.Equal(t, []int{200, 429, 429, 200}, statuses(4, banks))
	require.Equal(t, []int{404}, statuses(1, one), "another group is left alone")
	require.Equal(t, 2, b.Faults.Rules()[0].Struck)

	b.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Fail, Match: "0000000000000001"})
	require.Equal(t, []int{500}, statuses(1, one))
	require.Equal(t, []int{404}, statuses(1, other))

	b.Faults.Add(fakebank.Rule{On: fakebank.OnAll, Do: fakebank.Fail, Status: 502})
	require.Equal(t, []int{502}, statuses(1, banks))
	require.Equal(t, []int{500}, statuses(1, one), "the first rule decides")
	b.Faults.Remove(b.Faults.Rules()[1].ID)
	require.Equal(t, []int{200}, statuses(1, banks))
	b.Faults.Clear()
	require.Empty(t, b.Faults.Rules())
	require.Equal(t, []int{404}, statuses(1, one))
}

func TestPercentIsReproducible(t *testing.T) {
	draw := func(t *testing.T, seed uint64) (struck []bool) {
		t.Helper()
		b := fakebank.New(fakebank.Options{Seed: seed})
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		url, err := b.Start("")
		require.NoError(t, err)
		b.Faults.Set(fakebank.Rule{On: fakebank.OnNIN, Do: fakebank.Fail, Percent: 30})
		for range 200 {
			req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/api/v1/kyc/nin?nin="+fakebank.SandboxNIN, nil)
			require.NoError(t, err)
			req.Header.Set("AppId", "a")
			req.Header.Set("Authorization", "k")
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			struck = append(struck, resp.StatusCode == 500)
		}
		return struck
	}
	t.Parallel()
	first := draw(t, 42)
	require.Equal(t, first, draw(t, 42))
	require.NotEqual(t, first, draw(t, 43))
	n := 0
	for _, s := range first {
		if s {
			n++
		}
	}
	require.InDelta(t, 60, n, 25)
}

func TestRuleValidation(t *testing.T) {
	t.Parallel()
	for _, r := range []fakebank.Rule{
		{On: "payout", Do: fakebank.Fail},
		{On: fakebank.OnPayouts, Do: "explode"},
		{On: fakebank.OnAccounts, Do: fakebank.Reject},
		{On: fakebank.OnWebhooks, Do: fakebank.Fail},
		{On: fakebank.OnAll, Do: fakebank.Missing},
		{On: fakebank.OnAll, Do: fakebank.Fail, Percent: 101},
		{On: fakebank.OnAll, Do: fakebank.Fail, Next: -1},
		{On: fakebank.OnAll, Do: fakebank.Fail, Status: 99},
	} {
		require.Error(t, r.Validate())
	}
	b := fakebank.New(fakebank.Options{})
	require.Panics(t, func() { b.Faults.Set(fakebank.Rule{On: "nowhere", Do: fakebank.Fail}) })
	require.NoError(t, b.Close())

	r := fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Pending, Delay: 1500 * time.Millisecond, Next: 2}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":0,"on":"payouts","do":"pending","next":2,"delay":"1.5s","struck":0}`, string(text))
	var back fakebank.Rule
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, r, back)
	require.Error(t, json.Unmarshal([]byte(`{"on":"payouts","do":"pending","delay":"soon"}`), &back))
}

func TestDroppedConnections(t *testing.T) {
	b := setup(t, fakebank.Options{})
	create := func(ref string) reply {
		return b.do("POST", "/v1/accounts/virtual", `{"accountRef":"`+ref+`","accountName":"Halima Stores"}`)
	}
	b.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Drop, Next: 1}, fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.DropAfter, Next: 1})
	require.Error(t, create("0000000000000001").err)
	require.Error(t, create("0000000000000002").err)
	_, ok := b.Account("0000000000000001")
	require.False(t, ok, "dropped before it acted")
	a, ok := b.Account("0000000000000002")
	require.True(t, ok, "dropped after it acted")
	require.Equal(t, a.NUBAN, b.do("GET", "/v1/accounts/virtual/0000000000000002", "").get("data", "bankAccountNumber"))

	b.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.NoNumber, Next: 1}, fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Empty, Next: 1})
	r := create("0000000000000003")
	require.Equal(t, "00", r.get("code"))
	require.Nil(t, r.get("data", "bankAccountNumber"))
	require.Nil(t, create("0000000000000004").get("data"))
}

func TestRecordFaults(t *testing.T) {
	b := setup(t, fakebank.Options{})
	b.open()
	tx := b.pay("5000.00")
	ask := func(r fakebank.Rule) reply {
		r.On = fakebank.OnTransactions
		b.Faults.Set(r)
		return b.do("GET", "/v1/transactions/accounts/single?transactionRef="+tx.ID, "")
	}
	require.Equal(t, 404, ask(fakebank.Rule{Do: fakebank.NotFound}).status)
	require.Equal(t, "01", ask(fakebank.Rule{Do: fakebank.NotFoundCode}).get("code"))
	a := ask(fakebank.Rule{Do: fakebank.Empty})
	require.Equal(t, "00", a.get("code"))
	require.Nil(t, a.get("data"))
	a = ask(fakebank.Rule{Do: fakebank.WrongRecord})
	require.Equal(t, "5000.0", a.get("data", "amount"))
	require.NotEqual(t, tx.ID, a.get("data", "id"))
	require.Equal(t, "5001.0", ask(fakebank.Rule{Do: fakebank.AlterAmount}).get("data", "amount"))
	require.Equal(t, "4.5", ask(fakebank.Rule{Do: fakebank.AlterAmount, Value: "4.5"}).get("data", "amount"))
	require.Equal(t, "26.0", ask(fakebank.Rule{Do: fakebank.AlterFee}).get("data", "fixedCharge"))
	require.Equal(t, "USD", ask(fakebank.Rule{Do: fakebank.AlterCurrency}).get("data", "currency"))
	require.NotEqual(t, tx.NUBAN, ask(fakebank.Rule{Do: fakebank.AlterAccount}).get("data", "virtualAccount"))
	require.Equal(t, "REFUND", ask(fakebank.Rule{Do: fakebank.AlterStatus, Value: fakebank.StatusRefund}).get("data", "status"))
	kept, _ := b.Transaction(tx.ID)
	require.Equal(t, tx, kept, "answers are altered, the books are not")
}

func TestDownAndStopped(t *testing.T) {
	b := setup(t, fakebank.Options{})
	b.Faults.SetDown(fakebank.DownAnswer)
	require.Equal(t, 503, b.do("GET", "/v1/transfers/banks", "").status)
	require.Equal(t, 503, b.call("GET", "/api/v1/kyc/nin?nin="+fakebank.SandboxNIN, "").status)
	b.Faults.SetDown(fakebank.DownClose)
	require.Error(t, b.do("GET", "/v1/transfers/banks", "").err)
	require.Equal(t, 200, b.call("GET", "/control/state", "").status, "the controls stay up")
	b.Faults.SetDown(fakebank.Up)
	require.Equal(t, 200, b.do("GET", "/v1/transfers/banks", "").status)

	addr := b.url[len("http://"):]
	require.NoError(t, b.Stop())
	require.Error(t, b.do("GET", "/v1/transfers/banks", "").err)
	_, err := b.Start(addr)
	require.NoError(t, err)
	require.Equal(t, 200, b.do("GET", "/v1/transfers/banks", "").status, "the books and tokens stayed")
}

// A caller that gives up on a slow call finds nothing done; one that gives up on a slow answer
// finds it done.
func TestSlowness(t *testing.T) {
	b := setup(t, fakebank.Options{})
	give := func() error { // gives up once the rule has struck the call
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "DELETE", b.url+"/v1/accounts/virtual/"+ref, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+b.token)
		req.Header.Set("accountId", fakebank.DefaultAccountID)
		ended := make(chan error, 1)
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				err = resp.Body.Close()
			}
			ended <- err
		}()
		testenv.Eventually(t, 30*time.Second, "the call at the bank", func() bool { return b.Faults.Rules()[0].Struck == 1 })
		cancel()
		return <-ended
	}
	b.open()
	b.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Slow, Delay: time.Hour})
	require.Error(t, give())
	a, _ := b.Account(ref)
	require.False(t, a.Closed)
	b.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.SlowAfter, Delay: time.Hour})
	require.Error(t, give())
	testenv.Eventually(t, 30*time.Second, "the close whose answer was too slow", func() bool {
		a, _ = b.Account(ref)
		return a.Closed
	}, func() any { return a })
}
