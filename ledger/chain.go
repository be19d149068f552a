package ledger

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"
)

// The entries of an account form a chain: each one's hash covers the hash before it and all of its
// own fields except the status. So an entry cannot be altered, removed, added or moved without
// changing every later hash, and the head. The statement shows the head: whoever keeps a statement
// can check later whether the history up to it is unchanged.
//
// The form is fixed: a text is its length in bytes (32 bits, big-endian) and its UTF-8; an id its
// 16 bytes; a number 64 bits, big-endian; a sum its decimal text, as on the wire; a time
// microseconds since 1970; an optional field has a byte before it, 1 if it is present and 0 if not;
// the kind, which most entries lack, comes last. A change of the form needs a new tag; old entries
// keep theirs.
const (
	chainTag = "ajo.ledger.chain.v1"
	entryTag = "ajo.ledger.entry.v1"
)

// form holds the bytes that are hashed.
type form []byte

func (f *form) number32(n uint32) { *f = binary.BigEndian.AppendUint32(*f, n) }
func (f *form) number64(n int64)  { *f = binary.BigEndian.AppendUint64(*f, uint64(n)) }
func (f *form) id(id uuid.UUID)   { *f = append(*f, id[:]...) }

func (f *form) text(s string) {
	f.number32(uint32(len(s)))
	*f = append(*f, s...)
}

func (f *form) present(is bool) bool {
	if is {
		*f = append(*f, 1)
	} else {
		*f = append(*f, 0)
	}
	return is
}

func (f *form) sum() []byte {
	h := sha256.Sum256(*f)
	return h[:]
}

// genesis is the hash that precedes the first entry of an account's chain. It binds the chain to
// the account.
func genesis(account uuid.UUID) []byte {
	var f form
	f.text(chainTag)
	f.id(account)
	f.number64(1) // the first entry's number
	return f.sum()
}

// link is the hash of an entry that follows the one with the hash before.
func link(before []byte, r *row) []byte {
	f := make(form, 0, 512)
	f.text(entryTag)
	f = append(f, before...)
	f.id(r.TenantID)
	f.id(r.AccountID)
	f.number64(r.Seq)
	f.id(r.ID)
	f.text(string(r.contra()))
	f.text(string(r.Direction))
	f.text(r.Amount.String())
	f.text(r.Fee.String())
	f.text(r.Currency)
	f.text(r.Narration)
	f.text(r.ProviderTxnRef)
	f.text(r.SenderName)
	f.text(r.SenderBank)
	f.id(r.TransactionGroupID)
	if f.present(r.TransferRef != nil) {
		f.text(*r.TransferRef)
	}
	if f.present(r.ReversalOf != nil) {
		f.id(*r.ReversalOf)
	}
	f.text(r.Running.String())
	f.number64(r.CreatedAt.UnixMicro())
	if r.Kind != "" {
		f.text(string(r.Kind))
	}
	return f.sum()
}

// chain gives a new entry its place in the chain. The account must be locked.
func (t *totals) chain(r *row) {
	if t.Head == nil {
		t.Head = genesis(t.AccountID)
	}
	t.Head = link(t.Head, r)
	r.Hash = t.Head
}
