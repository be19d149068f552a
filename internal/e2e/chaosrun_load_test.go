package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"ajo/internal/fakebank"
	"ajo/internal/money"
)

func naira(text string) money.Amount { return money.Must(text) }

// signedNaira reads a sum that may be below zero.
func signedNaira(text string) (money.Amount, error) {
	digits, below := strings.CutPrefix(text, "-")
	a, err := money.Parse(digits)
	if below {
		a = a.Neg()
	}
	return a, err
}

// payerBank is the bank of all payers.
const payerBank = "Wema Bank"

// altering is by how much the bank's record of an altered payment differs.
var altering = money.Must("1.00")

// patience is how long the bank, and a tenant, wait for an answer.
const patience = 10 * time.Second

// request sends one request to one of the two APIs; status 0: there was no answer.
func (s *chaosRun) request(rng *rand.Rand, method, path string, body []byte, header http.Header) (int, []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.addrs[rng.IntN(len(s.addrs))]+path, bytes.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0, nil
	}
	req.Header = header.Clone()
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	return resp.StatusCode, text
}

// pause waits before a request is sent again: longer after each try, and never the same.
func pause(rng *rand.Rand, try int) {
	most := min(50<<min(try, 5), 1500)
	time.Sleep(time.Duration(20+rng.IntN(most)) * time.Millisecond)
}

// pays is one payer: it makes payments to a tenant and sends their events, as the bank would, until
// ctx ends. An event that is being sent then is sent to the end.
func (s *chaosRun) pays(ctx context.Context, h *testTenant, rng *rand.Rand) {
	for ctx.Err() == nil {
		if s.crowded(h) {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		s.payOnce(ctx, h, rng)
	}
}

// crowded reports whether the service is behind: payments wait until it is not, so that the rate is
// that of the whole chain.
func (s *chaosRun) crowded(h *testTenant) bool {
	return s.record.backlog(h.name) >= s.size.waiting || int(s.due.Load()) >= s.size.due
}

func (s *chaosRun) payOnce(ctx context.Context, h *testTenant, rng *rand.Rand) {
	a := h.accounts[0] // the hot one
	if rng.IntN(100) >= 40 {
		a = h.accounts[rng.IntN(len(h.accounts))]
	}
	gross := money.FromKobo(100_00 + rng.Int64N(60_000_00))
	c := arrives
	switch draw := rng.IntN(1000); {
	case draw < 15:
		c = silence
	case draw < 25:
		c = falsely
	case draw < 35:
		c = altered
	case draw < 40:
		c = recalled
	case draw < 45:
		c = withdrawn
	case draw < 50:
		c = lingers
	}
	p, tx := s.makes(a, gross, c)
	if p == nil {
		return
	}
	if !p.unannounced() {
		tx.Status = fakebank.StatusSuccess
		s.deliver(rng, p, s.bank.EventFor(tx))
	}
	s.contradicts(ctx, rng, p)
}

// makes has the bank take a payment, of which it says nothing yet. The payment is nil when the bank
// refuses it.
func (s *chaosRun) makes(a testAccount, gross money.Amount, c course) (*sent, fakebank.Transaction) {
	p := s.record.draft(a.ref, gross, s.bank.Fee(gross), c)
	pay := fakebank.Payment{
		NUBAN: a.nuban, Amount: gross, Fee: &p.fee, SenderName: "Bola Ade", SenderAccount: p.payer(), SenderBank: payerBank, Narration: p.narration(), Silent: true,
	}
	switch c {
	case altered:
		pay.Amount = gross.Add(altering)
	case falsely:
		pay.Status = fakebank.StatusFailed
	case lingers:
		pay.Status = fakebank.StatusPending
	}
	tx, err := s.bank.Pay(context.Background(), pay)
	if err != nil {
		s.t.Error(err)
		return nil, tx
	}
	p.txID = tx.ID
	tx.Amount = gross // which the event says
	return p, tx
}

// deliver sends an event until it is answered 200. Before that a forged one is sent now and then,
// and after it another copy.
func (s *chaosRun) deliver(rng *rand.Rand, p *sent, body []byte) {
	if rng.IntN(100) == 0 {
		forged := bytes.Replace(body, []byte(p.txID), []byte(p.txID+"-forged"), 1)
		status, _ := s.request(rng, "POST", "/webhooks/provider", forged, s.signed(body))
		s.record.answered("forged event", status)
	}
	for try := 1; ; try++ {
		begin := time.Now()
		status, _ := s.request(rng, "POST", "/webhooks/provider", body, s.signed(body))
		s.record.answered("event", status)
		if status == http.StatusOK {
			s.record.accept(p, try, time.Since(begin))
			break
		}
		if status != 0 && status != http.StatusServiceUnavailable {
			s.record.mishears("an event was answered %d", status)
		}
		if s.over.Load() {
			return
		}
		pause(rng, try)
	}
	if rng.IntN(100) < 4 {
		status, _ := s.request(rng, "POST", "/webhooks/provider", body, s.signed(body))
		s.record.answered("copy of an event", status)
	}
}

// signed are the headers of an event that is sent now.
func (s *chaosRun) signed(body []byte) http.Header {
	h, err := s.bank.SignedHeaders(body)
	if err != nil {
		s.t.Error(err)
	}
	return h
}

// settles is one of a tenant's clerks: it pays out, follows the transfer for a while, and pays out
// again until ctx ends.
func (s *chaosRun) settles(ctx context.Context, h *testTenant, rng *rand.Rand) {
	for ctx.Err() == nil {
		a := h.accounts[rng.IntN(len(h.accounts))]
		balance, ok := s.readBalance(rng, h, a.ref)
		if !ok || balance.Cmp(naira("500.00")) < 0 {
			time.Sleep(time.Duration(100+rng.IntN(200)) * time.Millisecond)
			continue
		}
		o := s.record.order(a.ref, money.FromKobo(100+rng.Int64N(30_000_00)))
		s.order(rng, h, o)
		for range 10 {
			if o.ref == "" || ctx.Err() != nil || s.hasEnded(rng, h, o) {
				break
			}
			time.Sleep(300 * time.Millisecond)
		}
	}
}

// order asks for a settlement, under one key, until the answer is definite.
func (s *chaosRun) order(rng *rand.Rand, h *testTenant, o *ordered) {
	body := fmt.Appendf(nil, `{"amount":%q,"bankCode":"058","accountNumber":%q,"narration":"rent"}`, o.amount, o.destination)
	header := http.Header{"X-Api-Key": {h.key}, "Content-Type": {"application/json"}, "Idempotency-Key": {"order " + o.destination}}
	for o.tries = 1; ; o.tries++ {
		status, text := s.request(rng, "POST", "/v1/accounts/"+o.account+"/settle", body, header)
		s.record.answered("settlement", status)
		switch {
		case status == http.StatusAccepted:
			var accepted struct{ MerchantTxRef, AccountRef, Amount string }
			if err := json.Unmarshal(text, &accepted); err != nil || accepted.MerchantTxRef == "" || accepted.AccountRef != o.account || accepted.Amount != o.amount.String() {
				s.record.mishears("settlement %d was accepted with %s", o.no, text)
			}
			o.ref = accepted.MerchantTxRef
			return
		case status == http.StatusBadRequest && strings.Contains(string(text), "insufficient funds"):
			o.refusal = string(text)
			return
		case status == http.StatusBadRequest && h.limited && strings.Contains(string(text), "above the limit"):
			o.refusal = string(text)
			s.record.does(aboveLimit)
			return
		case status != 0 && status != http.StatusConflict && status < 500:
			s.record.mishears("settlement %d was answered %d %s", o.no, status, text)
			o.refusal = string(text)
			return
		}
		if s.over.Load() {
			return
		}
		pause(rng, o.tries)
	}
}

func (s *chaosRun) hasEnded(rng *rand.Rand, h *testTenant, o *ordered) bool {
	status, text := s.request(rng, "GET", "/v1/transfers/"+o.ref, nil, http.Header{"X-Api-Key": {h.key}})
	s.record.answered("transfer", status)
	var t struct{ Status, Amount, AccountNumber string }
	switch {
	case status == http.StatusOK && json.Unmarshal(text, &t) == nil:
		if t.Amount != o.amount.String() || t.AccountNumber != o.destination {
			s.record.mishears("transfer %s is shown as %s", o.ref, text)
		}
		return t.Status != "pending" && t.Status != "processing"
	case status != 0 && status < 500:
		s.record.mishears("transfer %s was answered %d %s", o.ref, status, text)
	}
	return false
}

// readBalance asks for a balance, which can be no more than all that was sent and no less than what
// proved false.
func (s *chaosRun) readBalance(rng *rand.Rand, h *testTenant, account string) (money.Amount, bool) {
	status, text := s.request(rng, "GET", "/v1/accounts/"+account+"/balance", nil, http.Header{"X-Api-Key": {h.key}})
	s.record.answered("balance", status)
	if status != http.StatusOK {
		if status != 0 && status < 500 {
			s.record.mishears("a balance was answered %d %s", status, text)
		}
		return money.Zero, false
	}
	var b struct{ Balance string }
	err := json.Unmarshal(text, &b)
	balance, parsed := signedNaira(b.Balance)
	least, most := s.record.bounds(account)
	if err != nil || parsed != nil || balance.Cmp(most) > 0 || balance.Cmp(least) < 0 {
		s.record.mishears("the balance of %s was read as %s; it can be %s to %s", account, text, least, most)
	}
	s.record.mu.Lock()
	s.record.reads++
	s.record.mu.Unlock()
	return balance, true
}
