package transfer

// decider is whose word an end is.
type decider string

const (
	byBank decider = "bank" // its record, or its refusal of the first submission
	// five submissions, none acknowledged, and the bank knows of none
	bySilence  decider = "silence"
	byBooks    decider = "books"    // the money that it is paid from proved false
	byOperator decider = "operator" // resolved or cancelled
)

// outcome is what ends a transfer, or moves it on from an end.
type outcome struct {
	event Event
	by    decider
	why   string // for operators; it may quote the bank
	// for the tenant: the API's failureReason. It never has the bank's own words; empty for a
	// success
	reason string
}

// The reasons that a tenant reads.
const (
	reasonNoAccount   = "the destination account does not exist"
	reasonRefused     = "the bank refused the transfer"
	reasonFailed      = "the bank could not complete the transfer"
	reasonNotMade     = "the bank did not carry out the transfer"
	reasonReturned    = "the bank returned the money"
	reasonNotCovered  = "the money that it was to be paid from was taken back"
	reasonCancelled   = "the transfer was cancelled before it was sent to the bank"
	reasonResolvedNot = "the bank did not pay the transfer"
)

// The outcomes that the bank's record or the ledger states.
var (
	paid         = outcome{event: EventPaid, by: byBank}
	failed       = outcome{event: EventReject, by: byBank, why: "the bank says that it failed", reason: reasonFailed}
	givenBack    = outcome{event: EventRefund, by: byBank, why: "the bank gave it back", reason: reasonReturned}
	neverCovered = outcome{event: EventReject, by: byBooks, why: "the money that it pays out proved false", reason: reasonNotCovered}
)
