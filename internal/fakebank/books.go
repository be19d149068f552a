package fakebank

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ajo/internal/money"
)

// The statuses on the wire.
const (
	StatusSuccess = "SUCCESS"
	StatusPending = "PENDING_BILLING"
	StatusFailed  = "PAYMENT_FAILED"
	StatusRefund  = "REFUND" // of an inbound transfer: reversed
)

// Account is a virtual account.
type Account struct {
	Ref            string        `json:"accountRef"`
	NUBAN          string        `json:"bankAccountNumber"`
	Name           string        `json:"accountName"`
	BVN            string        `json:"bvn,omitempty"`
	ExpectedAmount *money.Amount `json:"expectedAmount,omitempty"`
	ExpiresAt      *time.Time    `json:"expiresAt,omitempty"`
	Closed         bool          `json:"closed"` // by DELETE
	CreatedAt      time.Time     `json:"createdAt"`
}

// Expired reports whether the account takes no payments at that time: closed, or past its expiry.
func (a Account) Expired(now time.Time) bool {
	return a.Closed || a.ExpiresAt != nil && now.After(*a.ExpiresAt)
}

// Transaction is an inbound transfer in the bank's own record. Tests alter it with
// [Bank.SetTransaction].
type Transaction struct {
	ID             string       `json:"id"`
	RequestID      string       `json:"requestId"` // of its event
	SessionID      string       `json:"sessionId"`
	Status         string       `json:"status"`
	AccountRef     string       `json:"accountRef"`
	NUBAN          string       `json:"nuban"` // the virtual account that received it
	Amount         money.Amount `json:"amount"`
	Fee            money.Amount `json:"fee"`
	Currency       string       `json:"currency"`
	SenderName     string       `json:"senderName"`
	SenderAccount  string       `json:"senderAccount"`
	SenderBank     string       `json:"senderBank"`
	SenderBankCode string       `json:"senderBankCode,omitempty"`
	Narration      string       `json:"narration"`
	ResponseCode   string       `json:"responseCode,omitempty"` // in the event: text, ResponseCodeNull or ResponseCodeAbsent
	Time           time.Time    `json:"time"`                   // whole seconds, as on the wire
	ReversedAt     *time.Time   `json:"reversedAt,omitempty"`
	// the bank says that it does not know it, and does not list it
	Hidden bool `json:"hidden,omitempty"`
	// asked for it, the bank answers with somebody else's record
	Wrong bool `json:"wrong,omitempty"`
	// the list spells the id so; asked for either, the bank answers with that one
	ListedAs string `json:"listedAs,omitempty"`
}

// from is the account that it came from: bank code and number.
func (t *Transaction) from() [2]string { return [2]string{t.SenderBankCode, t.SenderAccount} }

// Payout is a transfer out of the wallet, in the bank's own record.
type Payout struct {
	ID            string       `json:"id"`
	Ref           string       `json:"merchantTxRef"`
	Status        string       `json:"status"`
	Amount        money.Amount `json:"amount"`
	Fee           money.Amount `json:"fee"`
	BankCode      string       `json:"bankCode"`
	AccountNumber string       `json:"accountNumber"`
	AccountName   string       `json:"accountName"`
	SenderName    string       `json:"senderName"`
	Narration     string       `json:"narration"`
	CreatedAt     time.Time    `json:"createdAt"`
	EndedAt       *time.Time   `json:"endedAt,omitempty"`
	// how often its reference was submitted; it was paid once at most
	Submissions int `json:"submissions"`

	NextStatus string     `json:"nextStatus,omitempty"` // what it becomes, at NextAt
	NextAt     *time.Time `json:"nextAt,omitempty"`

	// until then no question and no list finds it, and resubmissions are duplicates
	ShownAt   *time.Time   `json:"shownAt,omitempty"`
	VAT       money.Amount `json:"vat"`
	StampDuty money.Amount `json:"stampDuty"`
	// failed or refunded, it gives the amount back alone
	FeeKept bool `json:"feeKept,omitempty"`
	// its records do not name fee, VAT and duty
	FeeUnsaid bool `json:"feeUnsaid,omitempty"`

	// of a refund: the sum that came back, where it was not all
	Back *money.Amount `json:"back,omitempty"`
}

// charges are what left the wallet beside the amount.
func (p *Payout) charges() money.Amount { return p.Fee.Add(p.VAT).Add(p.StampDuty) }

// hidden reports whether the bank's index does not have the payout yet.
func (p *Payout) hidden(now time.Time) bool { return p.ShownAt != nil && now.Before(*p.ShownAt) }

// record is one line of the bank's book: a transaction or a payout. at and seq place it, and never
// change.
type record struct {
	at  time.Time
	seq int64
	tx  *Transaction
	out *Payout
}

func (r *record) compare(o *record) int {
	return cmp.Or(r.at.Compare(o.at), cmp.Compare(r.seq, o.seq))
}

// lastPayer is a payer's name, with the transaction that it is of.
type lastPayer struct {
	name string
	tx   *Transaction
}

// books is all that the bank remembers. Its lock is held for map work only: never while a rule is
// asked, an answer is written or an event is sent.
type books struct {
	mu       sync.RWMutex
	wallet   money.Amount
	accounts map[string]*Account // by reference
	numbers  map[string]*Account // by NUBAN, the last that got it
	opened   []*Account          // in order of creation
	txs      map[string]*Transaction
	payouts  map[string]*Payout      // by merchantTxRef
	outIDs   map[string]*Payout      // by id
	lines    []*record               // of the whole bank, by time
	people   map[string]Person       // by NIN
	senders  map[[2]string]lastPayer // who last paid in, by bank code and account number
	serial   int                     // of the next account number
	seq      int64

	changes atomic.Int64 // counts changes, for the saver
}

func newBooks(opening money.Amount, seed uint64) *books {
	start := rand.IntN(serials)
	if seed != 0 {
		start = int(mix(seed) % serials)
	}
	return &books{
		wallet: opening, serial: start,
		accounts: make(map[string]*Account), numbers: make(map[string]*Account),
		txs: make(map[string]*Transaction), payouts: make(map[string]*Payout), outIDs: make(map[string]*Payout),
		people: sandboxPeople(), senders: make(map[[2]string]lastPayer),
	}
}

// serials is how many account numbers a bank has.
const serials = 1_000_000_000

// number takes the next account number that is not in use. The lock is held.
func (k *books) number() string {
	for {
		n := NUBAN(BankCode, k.serial)
		k.serial = (k.serial + 1) % serials
		if _, used := k.numbers[n]; !used && !strings.HasPrefix(n, unknownPrefix) {
			return n
		}
	}
}

// closedNumber is the oldest number that no open account has; empty when there is none. The lock is
// held.
func (k *books) closedNumber(now time.Time) string {
	for _, a := range k.opened {
		if k.numbers[a.NUBAN] == a && a.Expired(now) {
			return a.NUBAN
		}
	}
	return ""
}

func (k *books) balance() money.Amount {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.wallet
}

// open adds an account. The lock is held.
func (k *books) open(a *Account) {
	k.accounts[a.Ref], k.numbers[a.NUBAN] = a, a
	k.opened = append(k.opened, a)
	k.changes.Add(1)
}

// enter adds a transaction to the book. The lock is held. The wallet is the caller's business.
func (k *books) enter(tx *Transaction, at time.Time) {
	k.seq++
	k.txs[tx.ID] = tx
	k.insert(&record{at: at, seq: k.seq, tx: tx})
	if tx.SenderBankCode != "" {
		k.senders[tx.from()] = lastPayer{tx.SenderName, tx}
	}
	k.changes.Add(1)
}

// lastPayer is the name of who last paid in from an account.
func (k *books) lastPayer(bankCode, number string) (name string, ok bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	s, ok := k.senders[[2]string{bankCode, number}]
	return s.name, ok
}

// enterPayout adds a payout to the book. The lock is held.
func (k *books) enterPayout(p *Payout) {
	k.seq++
	k.payouts[p.Ref], k.outIDs[p.ID] = p, p
	k.insert(&record{at: p.CreatedAt, seq: k.seq, out: p})
	k.changes.Add(1)
}

// forget removes the payments and payouts that are older.
func (k *books) forget(before time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old, _ := slices.BinarySearchFunc(k.lines, before, func(r *record, at time.Time) int { return r.at.Compare(at) })
	if old == 0 {
		return
	}
	for _, r := range k.lines[:old] {
		if r.tx != nil {
			delete(k.txs, r.tx.ID)
			delete(k.txs, r.tx.ListedAs)
			if k.senders[r.tx.from()].tx == r.tx { // who has not paid in again since
				delete(k.senders, r.tx.from())
			}
		} else {
			delete(k.payouts, r.out.Ref)
			delete(k.outIDs, r.out.ID)
		}
	}
	k.lines = slices.Delete(k.lines, 0, old)
	k.changes.Add(1)
}

// insert keeps the lines ordered.
func (k *books) insert(r *record) {
	i, _ := slices.BinarySearchFunc(k.lines, r, (*record).compare)
	k.lines = slices.Insert(k.lines, i, r)
}
