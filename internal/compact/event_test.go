package compact

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const anEvent = `{"event_type":"payment_success","requestId":"90042022-f5c2-4d12-9580-98dfa903a08e","data":{"merchant":{"userId":"64f4","walletId":"w-1","walletBalance":162389.25},` +
	`"transaction":{"transactionId":"API-VACT_TRA-EFFA1-effa17ab-3550-4de2-a6fd-1292e74e3f58","type":"vact_transfer","time":"2026-05-17T02:58:04Z","responseCode":"",` +
	`"transactionAmount":5000.00,"fee":10.00,"currency":"NGN","aliasAccountReference":"01a21086-6c10-417d-87d0-b6a09719e98d","aliasAccountNumber":"7059396064",` +
	`"narration":"rent"},"customer":{"senderName":"BOLA ADE","accountNumber":"0123456789","bankName":"Wema Bank"}}}`

const storedEvent = "AZIEFQAlQAGQBCAi9cJNEpWAmN+pA6COfrsBDDY0ZjQ1sRxJZCI6InctMRURNcIgMTYyMzg5LjI1uscBWEVGRkExLQHv+herNVBN4qb9EpLnTj9Yit4BQDI2" +
	"LTA1LTE3VDAyOjU4OjA0ousBBDUwLu0BADG67gFAAQGiEIZsEEF9h9C2oJcZ6Y1e/wEkNzA1OTM5NjA2NDr5ARByZW50Im78ARxCT0xBIEFERUoEAiQwMTIz" +
	"NDU2Nzg5Ng4CMFdlbWEgQmFuayJ9fX0="

// The rows of years back were stored with this dictionary: who changes it can read none of them.
func TestFirstDictionaryStays(t *testing.T) {
	t.Parallel()
	stored, err := base64.StdEncoding.DecodeString(storedEvent)
	require.NoError(t, err)
	body, err := FullEvent(stored)
	require.NoError(t, err)
	require.Equal(t, anEvent, string(body))
	require.Less(t, len(Event([]byte(anEvent))), len(anEvent)/2)
}

func TestAnyEventComesBack(t *testing.T) {
	t.Parallel()
	comesBack := func(body []byte) bool {
		back, err := FullEvent(Event(body))
		return err == nil && bytes.Equal(back, body)
	}
	for _, body := range []string{
		strings.Repeat("a", shortest-1), strings.Repeat("a", shortest),

		"", "{", "\x00", "\x01", "\x01{}", "\x7f\xff", anEvent, anEvent + anEvent,
		strings.Repeat("01a21086-6c10-417d-87d0-b6a09719e98d", 5), strings.Repeat("01A21086-6C10-417D-87D0-B6A09719E98D", 5), strings.Repeat("\x01", 70),
		strings.Repeat("-", 100), strings.Repeat("0-0", 40), "01a21086-01a21086-6c10-417d-87d0-b6a09719e98d-6c10-417d-87d0-b6a09719e98" + strings.Repeat(" ", 99),
		strings.Repeat("\x00", 100), strings.Repeat("\xff", 5000), strings.Repeat(anEvent, 300),
	} {
		require.True(t, comesBack([]byte(body)), "%.50q", body)
	}
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")
		at := rapid.IntRange(0, len(anEvent)).Draw(t, "at")
		if body = append(body, anEvent[:at]...); !comesBack(body) {
			t.Fatalf("%q did not come back", body)
		}
	})
}

func TestDamagedEventIsAnError(t *testing.T) {
	t.Parallel()
	good := Event([]byte(anEvent))
	for _, stored := range [][]byte{{first}, {2, 'a'}, {0x1f}, good[:len(good)-1], {first, 0xff, 0xff, 0xff, 0xff, 0x0f, 1}} {
		_, err := FullEvent(stored)
		require.Error(t, err, "%q", stored)
	}
}

func FuzzFullEvent(f *testing.F) {
	f.Add(Event([]byte(anEvent)))
	f.Fuzz(func(_ *testing.T, stored []byte) { _, _ = FullEvent(stored) })
}
