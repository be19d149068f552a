package fakebank

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"ajo/internal/money"
)

// payoutRequest is the body of POST /v2/transfers/bank.
type payoutRequest struct {
	Amount        json.RawMessage `json:"amount"`
	AccountNumber string          `json:"accountNumber"`
	AccountName   string          `json:"accountName"`
	BankCode      string          `json:"bankCode"`
	MerchantTxRef string          `json:"merchantTxRef"`
	SenderName    string          `json:"senderName"`
	Narration     string          `json:"narration"`
}

// wirePayout is a payout as its submission answers it.
type wirePayout struct {
	ID          string          `json:"id"`
	Status      string          `json:"status"`
	Amount      json.RawMessage `json:"amount"`
	Fee         json.RawMessage `json:"fee,omitempty"`
	VAT         json.RawMessage `json:"vat,omitempty"`
	StampDuty   json.RawMessage `json:"stampDuty,omitempty"`
	Type        string          `json:"type"`
	Source      string          `json:"source"`
	Meta        wireMeta        `json:"meta"`
	TimeCreated string          `json:"timeCreated"`
}

// submitPayout serves POST /v2/transfers/bank. Its merchantTxRef is the idempotency key: a repeat
// is answered with the original, or refused as a duplicate when it asks for something else or a
// rule wants it so.
func (b *Bank) submitPayout(c *call) answer {
	var in payoutRequest
	if a, ok := c.decode(&in); !ok {
		return a
	}
	amount, complaint := in.check()
	if complaint != "" {
		return refused("02", complaint)
	}
	if b.crowded(in) {
		return failed(http.StatusTooManyRequests, "429", "Too many transfers to this account")
	}
	rule := c.plan.rule
	p, known, ok := b.acceptPayout(in, amount, rule)
	switch {
	case !ok && rule.Do == Reject:
		return refused(cmp.Or(rule.Code, "06"), "Transfer was rejected")
	case !ok:
		return refused("05", "Insufficient funds")
	case rule.Do == Duplicate || known && (p.ShownAt != nil || !p.same(in, amount)):
		return refused(cmp.Or(rule.Code, "06"), "Duplicate transaction: merchantTxRef has been used")
	case (rule.Do == Processing || rule.Do == Lagging) && !known:
		return answer{http.StatusCreated, envelope{Code: "201", Description: "PROCESSING"}}
	case rule.Do == WrongRecord:
		p.ID, p.Ref = "API-TRANSFER-STRANGER", "somebody-elses-reference"
	}
	w := p.wire(asNumber)
	return good(wirePayout{
		ID: p.ID, Status: p.Status, Amount: asNumber(p.Amount), Fee: w.FixedCharge, VAT: w.VAT, StampDuty: w.StampDuty, Type: TypePayout, Source: "api",
		Meta: wireMeta{MerchantTxRef: p.Ref, Narration: p.Narration, BankCode: p.BankCode}, TimeCreated: wireTime(p.CreatedAt),
	})
}

// check refuses a malformed payout; the complaint is empty when there is none.
func (r payoutRequest) check() (amount money.Amount, complaint string) {
	amount, err := money.ParseNumber(json.Number(r.Amount))
	switch _, known := bankIndex[r.BankCode]; {
	case err != nil || !amount.IsPositive():
		return amount, "amount must be a number above zero with at most two decimals"
	case len(r.AccountNumber) != 10 || !allDigits(r.AccountNumber):
		return amount, "accountNumber must be 10 digits"
	case r.AccountName == "":
		return amount, "accountName is required"
	case !known:
		return amount, "Unknown bank code"
	case r.MerchantTxRef == "":
		return amount, "merchantTxRef is required"
	case r.SenderName == "":
		return amount, "senderName is required"
	}
	return amount, ""
}

// crowded reports whether a new payout's recipient has had all that it may get in a minute.
func (b *Bank) crowded(in payoutRequest) bool {
	if b.opt.RecipientRate <= 0 {
		return false
	}
	b.books.mu.Lock()
	defer b.books.mu.Unlock()
	if b.books.payouts[in.MerchantTxRef] != nil {
		return false
	}
	since, got := b.clock.Now().Add(-time.Minute), 0
	for _, p := range b.books.payouts {
		if p.BankCode == in.BankCode && p.AccountNumber == in.AccountNumber && p.CreatedAt.After(since) {
			got++
		}
	}
	return got >= b.opt.RecipientRate
}

func (p *Payout) same(r payoutRequest, amount money.Amount) bool {
	return p.Amount.Equal(amount) && p.AccountNumber == r.AccountNumber && p.BankCode == r.BankCode
}

// acceptPayout finds the payout of a reference (known), or enters it and takes its money from the
// wallet; it is not ok when the rule or the wallet refuses a new one. What it returns is a copy.
func (b *Bank) acceptPayout(in payoutRequest, amount money.Amount, rule Rule) (p Payout, known, ok bool) {
	now := b.clock.Now()
	first, then, delay := course(rule, time.Duration(b.delay.Load()))

	b.books.mu.Lock()
	if old := b.books.payouts[in.MerchantTxRef]; old != nil {
		old.Submissions++
		p = *old
		b.books.mu.Unlock()
		return p, true, true
	}
	if rule.Do == Reject {
		b.books.mu.Unlock()
		return Payout{}, false, false
	}
	kept := &Payout{
		ID: newID("API-TRANSFER"), Ref: in.MerchantTxRef, Status: StatusPending, Amount: amount, Fee: b.opt.PayoutFee,
		BankCode: in.BankCode, AccountNumber: in.AccountNumber, AccountName: in.AccountName, SenderName: in.SenderName,
		Narration: in.Narration, CreatedAt: now, Submissions: 1, VAT: b.opt.PayoutVAT, StampDuty: b.opt.PayoutStampDuty,
		FeeKept: rule.Do == FailKept || rule.Do == RefundKept, FeeUnsaid: rule.Do == NoFee,
	}
	switch rule.Do {
	case Lagging:
		kept.ShownAt = new(now.Add(rule.Delay))
	case PartialRefund:
		kept.Back = new(partOf(amount, rule.Value))
	}
	b.books.wallet = b.books.wallet.Sub(amount).Sub(kept.charges())
	b.books.enterPayout(kept)
	if first != StatusPending {
		b.books.move(kept, first, now)
	}
	if then != "" {
		at := now.Add(delay)
		kept.NextStatus, kept.NextAt = then, &at
	}
	p = *kept
	b.books.mu.Unlock()

	if first != StatusPending {
		b.announcePayout(p)
	}
	if then != "" {
		b.due.at(*p.NextAt, func() { b.advance(p.Ref) })
		if delay <= 0 {
			b.due.run() // the copy keeps what the answer says
		}
	}
	return p, false, true
}

// course is the fate of a payout: its first status, and a later one after a delay ("": the
// first is the last).
func course(rule Rule, usual time.Duration) (first, then string, delay time.Duration) {
	delay = usual
	switch rule.Do {
	case Paid, Refund, Pending, Processing, FailLater, PaidLate, FailedLate, PartialRefund, FailKept, RefundKept, NoFee:
		if rule.Delay > 0 {
			delay = rule.Delay
		}
	}
	switch rule.Do {
	case Paid:
		return StatusSuccess, "", 0
	case Refund, PartialRefund, RefundKept:
		return StatusSuccess, StatusRefund, delay
	case PaidLate:
		return StatusFailed, StatusSuccess, delay
	case FailedLate:
		return StatusSuccess, StatusFailed, delay
	case FailLater, FailKept:
		return StatusPending, StatusFailed, delay
	case Pending, Processing, Lagging:
		return StatusPending, StatusSuccess, delay
	}
	if delay <= 0 {
		return StatusSuccess, "", 0
	}
	return StatusPending, StatusSuccess, delay
}

// partOf is the part of a payout that a partial refund gives back: what value says, or one naira.
func partOf(amount money.Amount, value string) money.Amount {
	part, err := money.Parse(value)
	if err != nil || !part.IsPositive() || part.Cmp(amount) >= 0 {
		return money.FromKobo(1_00)
	}
	return part
}

// move gives a payout its next status, and the money back where it failed or was refunded; a part
// of it where that is all that comes back, and without the charges where it keeps them. The money
// of one that is paid after it failed leaves again. The lock is held.
func (k *books) move(p *Payout, status string, now time.Time) {
	whole := p.Amount
	if !p.FeeKept {
		whole = whole.Add(p.charges())
	}
	switch {
	case status == StatusRefund && p.Back != nil:
		k.wallet = k.wallet.Add(*p.Back)
	case status == StatusFailed || status == StatusRefund:
		k.wallet = k.wallet.Add(whole)
	case p.Status == StatusFailed:
		k.wallet = k.wallet.Sub(whole)
	}
	p.Status, p.EndedAt, p.NextStatus, p.NextAt = status, &now, "", nil
	k.changes.Add(1)
}

// advance does what is due on a payout.
func (b *Bank) advance(ref string) {
	b.books.mu.Lock()
	p := b.books.payouts[ref]
	if p == nil || p.NextAt == nil || p.NextAt.After(b.clock.Now()) {
		b.books.mu.Unlock()
		return
	}
	b.books.move(p, p.NextStatus, *p.NextAt)
	ended := *p
	b.books.mu.Unlock()
	b.announcePayout(ended)
}

// EndPayout ends a payout by hand: one under way as SUCCESS or PAYMENT_FAILED, a successful one as
// REFUND. Its errors are [ErrNoRecord] and [ErrState].
func (b *Bank) EndPayout(ref, status string) (Payout, error) {
	now := b.now()
	b.books.mu.Lock()
	p := b.books.payouts[ref]
	if p == nil {
		b.books.mu.Unlock()
		return Payout{}, ErrNoRecord
	}
	ends := p.Status == StatusPending && (status == StatusSuccess || status == StatusFailed)
	if !ends && (p.Status != StatusSuccess || status != StatusRefund) {
		b.books.mu.Unlock()
		return Payout{}, ErrState
	}
	b.books.move(p, status, now)
	ended := *p
	b.books.mu.Unlock()
	b.announcePayout(ended)
	return ended, nil
}

// SetPayout alters the record of a payout; the wallet stays as it is. It panics when there is none.
func (b *Bank) SetPayout(ref string, change func(*Payout)) {
	b.books.mu.Lock()
	defer b.books.mu.Unlock()
	p := b.books.payouts[ref]
	if p == nil {
		panic(fmt.Sprintf("fakebank: no payout %q", ref))
	}
	change(p)
	b.books.changes.Add(1)
}

func (b *Bank) announcePayout(p Payout) {
	kinds := map[string]string{StatusSuccess: PayoutSuccess, StatusFailed: PayoutFailed, StatusRefund: PayoutRefund}
	b.announce(context.Background(), b.payoutEvent(kinds[p.Status], p), false, p.ID, p.Ref)
}
