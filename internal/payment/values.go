package payment

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// field names a scalar of an event's JSON that is read.
type field int

// The fields.
const (
	eventType field = iota
	requestID
	merchantUser
	merchantWallet
	walletBalance
	transactionID
	transactionType
	transactionTime
	transactionAmount
	transactionFee
	transactionCurrency
	responseCode
	aliasReference
	aliasNumber
	narration
	merchantTxRef
	senderName
	senderBank
	sessionID
	fieldCount
	noField field = -1
)

// fieldPaths are where the fields stand. A new field that is stored also needs a column
// (migrations, eventRow), fill, replaceSQL, which copies it, fromBank, which has it from the bank's
// record (package provider), and the fake bank.
var fieldPaths = [fieldCount]string{
	eventType: "event_type", requestID: "requestId",
	merchantUser: "data.merchant.userId", merchantWallet: "data.merchant.walletId", walletBalance: "data.merchant.walletBalance",
	transactionID: "data.transaction.transactionId", transactionType: "data.transaction.type", transactionTime: "data.transaction.time",
	transactionAmount: "data.transaction.transactionAmount", transactionFee: "data.transaction.fee",
	transactionCurrency: "data.transaction.currency", responseCode: "data.transaction.responseCode",
	aliasReference: "data.transaction.aliasAccountReference", aliasNumber: "data.transaction.aliasAccountNumber",
	narration: "data.transaction.narration", merchantTxRef: "data.transaction.merchantTxRef", senderName: "data.customer.senderName",
	senderBank: "data.customer.bankName",
	sessionID:  "data.transaction.sessionId",
}

func (f field) String() string { return fieldPaths[f] }

// fieldTree is the tree of the keys that lead to fields. A node is a field, or an object whose keys
// lead to further nodes. A key that is not read has no node (nil).
type fieldTree struct {
	field field
	in    map[string]*fieldTree
}

var allFields = newFieldTree()

func newFieldTree() *fieldTree {
	root := &fieldTree{field: noField, in: map[string]*fieldTree{}}
	for f, path := range fieldPaths {
		at := root
		for _, key := range strings.Split(path, ".") {
			next := at.in[key]
			if next == nil {
				next = &fieldTree{field: noField, in: map[string]*fieldTree{}}
				at.in[key] = next
			}
			at = next
		}
		at.field = field(f)
	}
	return root
}

// child returns the node that a key of this object leads to; nil: nothing there is read.
func (t *fieldTree) child(key string) *fieldTree {
	if t == nil {
		return nil
	}
	return t.in[key]
}

// values are the fields of an event.
type values [fieldCount]value

// value is one scalar. Of true, false and null only the kind is kept.
type value struct {
	// '"' or '0' for a string or a number, whose text is kept; 0 for what is not there
	kind jsontext.Kind
	text string
}

// find returns the text of a field if it is of the given kind.
func (v *values) find(f field, kind jsontext.Kind) (string, bool) {
	return v[f].text, v[f].kind == kind
}

// text returns a string value; absent, null and any other type are empty.
func (v *values) text(f field) string {
	if v[f].kind != '"' {
		return ""
	}
	return v[f].text
}

// fewNames is up to how many keys of an object are compared pairwise; an object with thousands of
// keys must not be.
const fewNames = 32

// reader reads one event. It keeps the keys of the enclosing objects, to find those that occur
// twice.
type reader struct {
	decoder *jsontext.Decoder
	body    string // a copy, of which all texts are parts
	keys    []string
	values  *values
}

// readers are pooled: a decoder's buffers are most of the cost of reading an event.
var readers = sync.Pool{New: func() any {
	return &reader{decoder: jsontext.NewDecoder(bytes.NewBuffer(nil)), keys: make([]string, 0, 48)}
}}

// parseValues reads the body's fields. Keys are matched exactly, and a key that occurs twice in an
// object, or twice but for its case, is refused: encoding/json would let the second one win, and
// the signature would still hold.
func parseValues(body []byte) (*values, error) {
	if !utf8.Valid(body) {
		return nil, errNotJSON
	}
	r := readers.Get().(*reader)
	r.body, r.values = string(body), new(values)
	// An escape for half a surrogate pair becomes U+FFFD, as with encoding/json: a bank may cut a
	// narration there.
	r.decoder.Reset(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := r.values, r.readAll()
	clear(r.keys[:cap(r.keys)])
	r.body, r.values, r.keys = "", nil, r.keys[:0]
	r.decoder.Reset(bytes.NewBuffer(nil))
	readers.Put(r)
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (r *reader) readAll() error {
	if r.decoder.PeekKind() != '{' {
		return errNotJSON
	}
	if err := r.readObject(allFields, 1); err != nil {
		return err
	}
	if _, err := r.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return errNotJSON
	}
	return nil
}

func (r *reader) readObject(at *fieldTree, depth int) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return errNotJSON
	}
	first := len(r.keys)
	var many map[string]bool
	for r.decoder.PeekKind() == '"' {
		raw, err := r.decoder.ReadValue()
		if err != nil {
			return errNotJSON
		}
		key := r.unquote(raw)
		if len(r.keys)-first == fewNames {
			many = make(map[string]bool, 2*fewNames)
			for _, k := range r.keys[first:] {
				many[caseKey(k)] = true
			}
			r.keys = r.keys[:first]
		}
		if many == nil {
			for _, k := range r.keys[first:] {
				if strings.EqualFold(k, key) {
					return errDoubledKey
				}
			}
			r.keys = append(r.keys, key)
		} else if name := caseKey(key); many[name] {
			return errDoubledKey
		} else {
			many[name] = true
		}
		if err := r.readValue(at.child(key), depth); err != nil {
			return err
		}
	}
	r.keys = r.keys[:first]
	return r.closing('}')
}

func (r *reader) readValue(at *fieldTree, depth int) error {
	kind := r.decoder.PeekKind()
	if depth > maxDepth {
		return errNotJSON
	}
	switch kind {
	case '{':
		return r.readObject(at, depth+1)
	case '[':
		if _, err := r.decoder.ReadToken(); err != nil {
			return errNotJSON
		}
		for r.decoder.PeekKind() != ']' {
			if err := r.readValue(nil, depth+1); err != nil {
				return err
			}
		}
		return r.closing(']')
	}
	raw, err := r.decoder.ReadValue()
	if err != nil {
		return errNotJSON
	}
	if at == nil || at.field == noField {
		return nil
	}
	v := &r.values[at.field]
	switch v.kind = kind; kind {
	case '"':
		v.text = r.unquote(raw)
	case '0':
		v.text = string(raw)
	}
	return nil
}

func (r *reader) closing(kind jsontext.Kind) error {
	if t, err := r.decoder.ReadToken(); err != nil || t.Kind() != kind {
		return errNotJSON
	}
	return nil
}

// unquote returns the text of the string that was read last.
func (r *reader) unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') >= 0 {
		// its error is about half surrogate pairs, which have become U+FFFD
		text, _ := jsontext.AppendUnquote(nil, raw)
		return string(text)
	}
	end := int(r.decoder.InputOffset())
	return r.body[end-len(raw)+1 : end-1]
}

// caseKey returns the same text for names that differ only in case.
func caseKey(name string) string { return strings.ToLower(strings.ToUpper(name)) }
