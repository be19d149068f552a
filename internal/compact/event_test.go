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

const storedEvent = "AcsEFQAljDkwMDQyMDIyLWY1YzItNGQxMi05NTgwLTk4ZGZhOTAzYTA4ZX7OAQw2NGY0NcQcSWQiOiJ3LTEVETXVIDE2MjM4OS4yNbraAaRFRkZBMS1lZmZh" +
	"MTdhYi0zNTUwLTRkZTItYTZmZC0xMjkyZTc0ZTNmNTiKBAJAMjYtMDUtMTdUMDI6NTg6MDSiEQIENTAuEwIAMboUAowwMWEyMTA4Ni02YzEwLTQxN2QtODdk" +
	"MC1iNmEwOTcxOWU5OGReOAIkNzA1OTM5NjA2NDoyAhByZW50Im41AhxCT0xBIEFERUo9AiQwMTIzNDU2Nzg5NkcCMFdlbWEgQmFuayJ9fX0="

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
	for _, body := range []string{"", "{", strings.Repeat("a", shortest-1), strings.Repeat("a", shortest), "\x00", "\x01", "\x01{}", "\x7f\xff", anEvent, anEvent + anEvent, strings.Repeat("\x00", 100), strings.Repeat("\xff", 5000), strings.Repeat(anEvent, 300)} {
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
