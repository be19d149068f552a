package compact

import (
	"bytes"
	"encoding/hex"
	"errors"

	"github.com/google/uuid"
	"github.com/klauspost/compress/s2"
)

// The body of an event is the bank's, whose order and spaces nobody promises. It is stored as a
// block of S2 with a dictionary of the shapes that the specification shows, behind a byte that
// names the dictionary. UUIDs are two thirds of what no dictionary has, and are 16 bytes instead of
// 36. (zstd with a trained dictionary was a tenth shorter at ten times the processor time.) What
// that does not make shorter is stored as it is, behind a zero if it could be mistaken.
const (
	plain    = 0
	first    = 1
	lowest   = ' '     // of a body's first byte that no number can be
	longest  = 1 << 20 // of a body; events are refused well below it
	shortest = 64      // below it nothing is gained
)

// What stands last is found first and named in fewer bytes, so payments stand there.
var firstDictionary = s2.MakeDict([]byte(`"merchantTxRef":"","recipientName":"payout_success"payout_failed"payout_refund"payment_failed"payment_reversal"`+
	`"responseCode":null,"responseCode":"00"Microfinance BankBank PlcAccess BankZenith BankFirst Bank of NigeriaUnited Bank For Africa`+
	`TRANSFER FROM transfer from NIP/PAYMENT payment for `+
	`{"event_type":"payment_success","requestId":"","data":{"merchant":{"userId":"","walletId":"","walletBalance":0.00},"transaction":{`+
	`"transactionId":"API-VACT_TRA-","type":"vact_transfer","time":"20T:00Z","responseCode":"","transactionAmount":00.00,"fee":0.00,"currency":"NGN",`+
	`"aliasAccountReference":"","aliasAccountNumber":"","sessionId":"0","narration":""}},"customer":{"senderName":"","accountNumber":"","bankName":" Bank"}}}`),
	[]byte(`{"event_type"`))

// Event returns what is stored of the body of an event.
func Event(body []byte) []byte {
	if len(body) >= shortest {
		block := firstDictionary.Encode(nil, binaryUUIDs(body))
		stored := append(append(make([]byte, 0, 1+len(block)), first), block...)
		if back, err := FullEvent(stored); err == nil && bytes.Equal(back, body) && len(stored) < len(body) {
			return stored
		}
	}
	if len(body) > 0 && body[0] < lowest {
		return append([]byte{plain}, body...)
	}
	return body
}

var errEvent = errors.New("compact: the stored body of an event is damaged, or of a later release")

// FullEvent returns the body of an event, of event_bodies.body.
func FullEvent(stored []byte) ([]byte, error) {
	switch {
	case len(stored) == 0 || stored[0] >= lowest:
		return stored, nil
	case stored[0] == plain:
		return stored[1:], nil
	case stored[0] != first:
		return nil, errEvent
	}
	if n, err := s2.DecodedLen(stored[1:]); err != nil || n > longest {
		return nil, errEvent
	}
	body, err := firstDictionary.Decode(nil, stored[1:])
	if err != nil {
		return nil, errEvent
	}
	return textUUIDs(body)
}

// mark stands before the 16 bytes of a UUID; no text of JSON has it in it.
const mark = 1

// binaryUUIDs puts 16 bytes in place of each UUID in small letters.
func binaryUUIDs(body []byte) []byte {
	out := make([]byte, 0, len(body))
	done := 0 // up to there it is in out
	for at := 8; at+28 <= len(body); at++ {
		next := bytes.IndexByte(body[at:], '-')
		if next < 0 {
			break
		}
		at += next
		if at-8 < done || at+28 > len(body) {
			continue
		}
		if id, ok := readUUID(body[at-8 : at+28]); ok {
			out = append(append(append(out, body[done:at-8]...), mark), id[:]...)
			done = at + 28
			at = done + 7
		}
	}
	return append(out, body[done:]...)
}

// readUUID reads 36 letters.
func readUUID(text []byte) (id uuid.UUID, ok bool) {
	var digits [32]byte
	n := 0
	for i, c := range text {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return id, false
			}
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'f':
			digits[n] = c
			n++
		default:
			return id, false
		}
	}
	_, err := hex.Decode(id[:], digits[:])
	return id, err == nil
}

// textUUIDs undoes binaryUUIDs.
func textUUIDs(packed []byte) ([]byte, error) {
	out := make([]byte, 0, len(packed)+4*20)
	for {
		i := bytes.IndexByte(packed, mark)
		if i < 0 {
			return append(out, packed...), nil
		}
		out = append(out, packed[:i]...)
		if packed = packed[i+1:]; len(packed) < len(uuid.UUID{}) {
			return nil, errEvent
		}
		out = append(out, uuid.UUID(packed[:16]).String()...)
		packed = packed[16:]
	}
}
