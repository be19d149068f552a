package fakebank

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Group is a set of endpoints that a [Rule] strikes, with the references that its Match is compared
// to.
type Group string

// The groups.
const (
	OnAll          Group = "all"           // every group but webhooks
	OnToken        Group = "token"         // matches nothing
	OnAccounts     Group = "accounts"      // virtual accounts: accountRef
	OnTransactions Group = "transactions"  // records: transactionRef
	OnPayoutStatus Group = "payout_status" // the single record by merchantTxRef
	OnBanks        Group = "banks"         // matches nothing
	OnLookup       Group = "lookup"        // accountNumber
	OnPayouts      Group = "payouts"       // merchantTxRef, accountNumber
	OnNIN          Group = "nin"           // the NIN
	OnWebhooks     Group = "webhooks"      // transaction id, merchantTxRef, event type
)

// Groups lists all groups.
var Groups = []Group{
	OnAll, OnToken, OnAccounts, OnTransactions, OnPayoutStatus, OnBanks, OnLookup, OnPayouts, OnNIN, OnWebhooks,
}

// Action is what a [Rule] does to a call.
type Action string

// Actions of every group but webhooks.
const (
	Normal Action = "normal" // nothing: takes its place in a script
	// waits Delay, then acts; if the caller has gone by then, it does not act
	Slow      Action = "slow"
	SlowAfter Action = "slow_after" // acts, then waits Delay before it answers
	Fail      Action = "fail"       // HTTP Status (500), without acting
	FailAfter Action = "fail_after" // acts, then HTTP Status (500)
	Drop      Action = "drop"       // cuts the connection, without acting
	DropAfter Action = "drop_after" // acts, then cuts the connection
	Refuse    Action = "code"       // HTTP 200 with Code ("01": may be retried), without acting
	Garbage   Action = "garbage"    // HTTP 200 with a page of HTML, without acting
	// the 404 of a gateway before the bank, without acting; Value names its body: see GatewayBodies
	Gateway Action = "gateway404"
)

// Actions on records: transactions, and where it says so the record of a payout.
const (
	// 404; also payout_status, accounts, lookup, nin. On every call of a group: its index is empty
	NotFound     Action = "not_found"
	NotFoundCode Action = "not_found_code" // HTTP 200 with code 01; also payout_status, lookup
	// code 00 without data; also payout_status, accounts, lookup
	Empty       Action = "empty"
	WrongRecord Action = "wrong_record" // somebody else's record; also payout_status, payouts
	AlterStatus Action = "status"       // the record with the status Value; also payout_status
	// the record with the amount Value, or one naira more; also payout_status
	AlterAmount Action = "amount"
	// the record with the fee Value, or one naira more; also payout_status
	AlterFee      Action = "fee"
	AlterCurrency Action = "currency" // the record with the currency Value, or USD
	AlterAccount  Action = "account"  // the record with the NUBAN Value, or another
)

// Other groups' own actions.
const (
	NoNumber Action = "no_number" // accounts: code 00, data without an account number
	// accounts: a new one gets the number Value, or the oldest number of a closed one if there is
	// any
	Reissue Action = "reissue"
	Results Action = "results" // banks: data.results instead of an array
)

// Outcomes of payouts. Those that end later do so after Delay, or after the bank's payout delay
// when Delay is zero; if that is zero too, the payout has ended by the time its first answer, which
// says otherwise, is read.
const (
	Paid       Action = "paid"       // paid at once, whatever the payout delay
	Reject     Action = "reject"     // a definite refusal with Code (06); nothing is recorded
	Pending    Action = "pending"    // PENDING_BILLING, paid later
	Processing Action = "processing" // code 201 PROCESSING, paid later
	FailLater  Action = "fail_later" // PENDING_BILLING, then PAYMENT_FAILED and the money back
	Refund     Action = "refund"     // paid at once, then REFUND and the money back
	// acts, and answers that the reference is a duplicate (Code, 06)
	Duplicate Action = "duplicate"

	// Code 201 PROCESSING, paid after the bank's payout delay; resubmissions are refused as
	// duplicates (Code, 06), and for Delay no question and no list finds it: the bank's index lags.
	Lagging Action = "lagging"
	// PAYMENT_FAILED and the money back, then paid after all
	PaidLate   Action = "paid_late"
	FailedLate Action = "failed_late" // paid at once, then PAYMENT_FAILED and the money back
	// paid at once, then REFUND of Value, or of one naira, and so much back
	PartialRefund Action = "partial_refund"
	FailKept      Action = "fail_kept"   // as FailLater, and the bank keeps its fee, VAT and duty
	RefundKept    Action = "refund_kept" // as Refund, and the bank keeps them
	// no record names its fee, VAT and duty, until [Bank.SetPayout] changes that
	NoFee Action = "no_fee"
)

// Actions on webhooks. A rule is asked once for each event, not for each attempt.
const (
	Late         Action = "late"          // first attempt after Delay
	Missing      Action = "missing"       // never sent
	Again        Action = "again"         // sent Copies more times, with the same requestId
	AgainNewID   Action = "again_new_id"  // sent Copies more times, each with another requestId
	BadSignature Action = "bad_signature" // signed with another secret, in every attempt
)

var (
	callGroups   = Groups[:len(Groups)-1]
	recordGroups = []Group{OnTransactions, OnPayoutStatus}
)

// actions says which groups have an action.
var actions = map[Action][]Group{
	Normal: Groups,
	Slow:   callGroups, SlowAfter: callGroups, Fail: callGroups, FailAfter: callGroups, Drop: callGroups, DropAfter: callGroups,
	Refuse: callGroups, Garbage: callGroups, Gateway: callGroups,

	NotFound:     {OnTransactions, OnPayoutStatus, OnAccounts, OnLookup, OnNIN},
	NotFoundCode: {OnTransactions, OnPayoutStatus, OnLookup},
	Empty:        {OnTransactions, OnPayoutStatus, OnAccounts, OnLookup},
	WrongRecord:  {OnTransactions, OnPayoutStatus, OnPayouts},
	AlterStatus:  recordGroups, AlterAmount: recordGroups,
	AlterFee: recordGroups, AlterCurrency: {OnTransactions}, AlterAccount: {OnTransactions},

	NoNumber: {OnAccounts}, Reissue: {OnAccounts}, Results: {OnBanks},

	Paid: {OnPayouts}, Reject: {OnPayouts}, Pending: {OnPayouts}, Processing: {OnPayouts},
	FailLater: {OnPayouts}, Refund: {OnPayouts}, Duplicate: {OnPayouts},
	Lagging: {OnPayouts}, PaidLate: {OnPayouts}, FailedLate: {OnPayouts}, PartialRefund: {OnPayouts},
	FailKept: {OnPayouts}, RefundKept: {OnPayouts}, NoFee: {OnPayouts},

	Late: {OnWebhooks}, Missing: {OnWebhooks}, Again: {OnWebhooks}, AgainNewID: {OnWebhooks}, BadSignature: {OnWebhooks},
}

// actionsOf lists the actions of a group, in alphabetical order.
func actionsOf(g Group) []Action {
	var list []Action
	for a, groups := range actions {
		if slices.Contains(groups, g) {
			list = append(list, a)
		}
	}
	slices.Sort(list)
	return list
}

// ruleFields is Rule without its methods.
type ruleFields Rule

// ruleJSON is Rule with its delay as text.
type ruleJSON struct {
	ruleFields
	Delay string `json:"delay,omitempty"`
}

// MarshalJSON writes the rule with its delay as text: "1.5s".
func (r Rule) MarshalJSON() ([]byte, error) {
	w := ruleJSON{ruleFields: ruleFields(r)}
	if r.Delay != 0 {
		w.Delay = r.Delay.String()
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON writes, and refuses what [Rule.Validate] does.
func (r *Rule) UnmarshalJSON(b []byte) error {
	var w ruleJSON
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*r = Rule(w.ruleFields)
	if w.Delay != "" {
		d, err := time.ParseDuration(w.Delay)
		if err != nil {
			return fmt.Errorf("fakebank: delay: %w", err)
		}
		r.Delay = d
	}
	return r.Validate()
}
