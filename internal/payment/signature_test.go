package payment

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
	"ajo/internal/spec"
)

const (
	vectorKey       = "HkatexKDZg7CLWy96q5sfrVHSvtoz92B"
	vectorSignature = "Kt9095hQxfgmVbx6iz7G2tPhHdbdXgLlyY/mf35sptw="
	vectorTime      = "2025-09-29T10:51:44Z"
	vectorBody      = `{"event_type":"payment_success","requestId":"45f2dc2d-d559-4773-bba3-2d5ec17b2e20","data":{
		"merchant":{"walletId":"6756ff80aafe04a795f18b38","walletBalance":5000.5,"userId":"b7b10e81-e57d-41d0-8fdc-f4e23a132bbf"},
		"transaction":{"aliasAccountNumber":"5343270516","fee":5,"type":"vact_transfer","transactionId":"API-VACT_TRA-B7B10-0435b274-807a-4bc7-8abe-9dbb4548fd7a",
			"responseCode":%CODE%"transactionAmount":10,"time":"2025-09-29T10:51:44Z","currency":"NGN"},
		"customer":{"senderName":"A B","bankName":"Bank","accountNumber":"0000000000"}}}`
)

func verifyBody(t *testing.T, body, signature, timestamp string) error {
	t.Helper()
	v, err := parseValues([]byte(body))
	if err != nil {
		return err
	}
	return v.verify([]byte(vectorKey), signature, timestamp)
}

func sign(v *values, timestamp string) string {
	nine := v.signed(timestamp)
	mac := hmac.New(sha256.New, []byte(vectorKey))
	mac.Write([]byte(strings.Join(nine[:], ":")))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func vector(code string) string { return strings.Replace(vectorBody, "%CODE%", code, 1) }

func TestProvidersTestVector(t *testing.T) {
	spec.Shows(t, "event.in.transaction.response-code", "event.in.sig.string", "event.in.sig.algorithm", "event.in.sig.encoding")
	for name, code := range map[string]string{"empty": `"",`, "null": `null,`, "the word null": `"null",`} {
		require.NoError(t, verifyBody(t, vector(code), vectorSignature, vectorTime), name)
	}
	absent := strings.Replace(vectorBody, `"responseCode":%CODE%`, "", 1)
	require.NoError(t, verifyBody(t, absent, vectorSignature, vectorTime), "absent")
	const hexForm = "2adf74f79850c5f82655bc7a8b3ec6dad3e11dd6dd5e02e5c98fe67f7e6ca6dc"
	require.NoError(t, verifyBody(t, vector(`"",`), hexForm, vectorTime), "hex")
	require.NoError(t, verifyBody(t, vector(`"",`), strings.ToUpper(hexForm), vectorTime), "hex in capitals")
	require.ErrorIs(t, verifyBody(t, vector(`"00",`), vectorSignature, vectorTime), errSignature)
	require.ErrorIs(t, verifyBody(t, vector(`"",`), vectorSignature, "2025-09-29T10:51:45Z"), errSignature)
	require.ErrorIs(t, verifyBody(t, vector(`"",`), "", vectorTime), errSignature)
}

// Each of the nine values is under the signature; what else an event says is not.
func TestWhatTheSignatureCovers(t *testing.T) {
	spec.Shows(t, "event.in.sig.covers", "event.in.merchant.user", "event.in.merchant.wallet", "event.in.merchant.balance", "event.in.transaction.type",
		"event.in.transaction.time")
	good := vector(`"",`)
	require.NoError(t, verifyBody(t, good, vectorSignature, vectorTime))
	for _, value := range []string{
		"payment_success", "45f2dc2d", "b7b10e81-e57d-41d0-8fdc-f4e23a132bbf", "6756ff80aafe04a795f18b38", "API-VACT_TRA", "vact_transfer", "2025-09-29T10:51:44Z",
	} {
		changed := strings.Replace(good, `"`+value, `"3`+value[1:], 1)
		require.NotEqual(t, good, changed, value)
		require.ErrorIs(t, verifyBody(t, changed, vectorSignature, vectorTime), errSignature, value)
	}
	require.ErrorIs(t, verifyBody(t, vector(`"1",`), vectorSignature, vectorTime), errSignature, "responseCode")
	require.ErrorIs(t, verifyBody(t, good, vectorSignature, "2025-09-29T10:51:43Z"), errSignature, "the header")
	for _, free := range []string{`"walletBalance":5000.5`, `"transactionAmount":10`, `"fee":5`, `"currency":"NGN"`, `"senderName":"A B"`} {
		name, _, _ := strings.Cut(free, ":")
		changed := strings.Replace(good, free, name+":0", 1)
		require.NotEqual(t, good, changed, free)
		require.NoError(t, verifyBody(t, changed, vectorSignature, vectorTime), free)
	}
}

// bodyOf is a body with the eight signed values, in the signature's order.
func bodyOf(t *testing.T, v []string) string {
	t.Helper()
	type fields map[string]any
	b, err := json.Marshal(fields{"event_type": v[0], "requestId": v[1], "data": fields{
		"merchant":    fields{"userId": v[2], "walletId": v[3]},
		"transaction": fields{"transactionId": v[4], "type": v[5], "time": v[6], "responseCode": v[7], "transactionAmount": 10, "fee": 5, "currency": "NGN"},
	}})
	require.NoError(t, err)
	return string(b)
}

// The same signed string, cut at other joints, bears the same signature: of all cuts in nine, only
// the bank's own is accepted.
func TestEveryOtherCutIsRefused(t *testing.T) {
	t.Parallel()
	for name, signedString := range map[string]string{
		"the provider's vector": "payment_success:45f2dc2d-d559-4773-bba3-2d5ec17b2e20:b7b10e81-e57d-41d0-8fdc-f4e23a132bbf:6756ff80aafe04a795f18b38:" +
			"API-VACT_TRA-B7B10-0435b274-807a-4bc7-8abe-9dbb4548fd7a:vact_transfer:2025-09-29T10:51:44Z::2025-09-29T10:51:44Z",
		"unix seconds":         "payment_success:r:u:w:t:vact_transfer:2025-09-29T10:51:44Z:00:1759143104",
		"values that are ones": "payment_success:1:2:3:4:5:2025-09-29T10:51:44Z:6:7",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parts := strings.Split(signedString, ":")
			mac := hmac.New(sha256.New, []byte(vectorKey))
			mac.Write([]byte(signedString))
			signature := base64.StdEncoding.EncodeToString(mac.Sum(nil))
			accepted, cuts := 0, 0
			for joints := range 1 << (len(parts) - 1) { // bit i: parts i and i+1 are of two values
				if bits.OnesCount(uint(joints)) != 8 {
					continue
				}
				nine := []string{parts[0]}
				for i, p := range parts[1:] {
					if joints>>i&1 == 1 {
						nine = append(nine, p)
					} else {
						nine[len(nine)-1] += ":" + p
					}
				}
				cuts++
				require.Equal(t, signedString, strings.Join(nine, ":"))
				err := verifyBody(t, bodyOf(t, nine[:8]), signature, nine[8])
				require.NotErrorIs(t, err, errSignature, nine)
				if err == nil {
					accepted++
					require.Equal(t, "2025-09-29T10:51:44Z", nine[6])
				}
			}
			require.Greater(t, cuts, 40)
			require.Equal(t, 1, accepted)
		})
	}
}

// None of the seven values that are not times may have a colon or a control character, though the
// signature over it holds.
func TestColonInEachSignedValue(t *testing.T) {
	t.Parallel()
	good := []string{"payment_success", "request", "user", "wallet", "transaction", "vact_transfer", vectorTime, "00"}
	check := func(v []string) error {
		nine := append(slices.Clone(v), vectorTime)
		mac := hmac.New(sha256.New, []byte(vectorKey))
		mac.Write([]byte(strings.Join(nine, ":")))
		return verifyBody(t, bodyOf(t, v), base64.StdEncoding.EncodeToString(mac.Sum(nil)), vectorTime)
	}
	require.NoError(t, check(good))
	for i := range good {
		for _, more := range []string{":", ":x", "x:", "\x00", "\n", "\u0085"} {
			v := slices.Clone(good)
			v[i] += more
			want := "has a colon or a control character"
			if i == 6 {
				want = "is not a time"
			}
			require.ErrorContains(t, check(v), want, "value %d and %q", i+1, more)
			if i != 6 {
				require.ErrorContains(t, check(v), fmt.Sprintf("signed value %d ", i+1))
			}
		}
	}
}

func TestDoubledKeysAreRefused(t *testing.T) {
	good := vector(`"",`)
	for name, bad := range map[string]string{
		"the same key":   strings.Replace(good, `"transactionAmount":10,`, `"transactionAmount":10,"transactionAmount":999999,`, 1),
		"but for case":   strings.Replace(good, `"transactionAmount":10,`, `"transactionAmount":10,"TRANSACTIONAMOUNT":999999,`, 1),
		"folded letter":  strings.Replace(good, `"transactionAmount":10,`, `"transactionAmount":10,"tranſactionAmount":999999,`, 1),
		"escaped letter": strings.Replace(good, `"transactionAmount":10,`, `"transactionAmount":10,"transaction\u0041mount":999999,`, 1),
		"whole object":   strings.Replace(good, `"merchant":`, `"transaction":{"transactionAmount":999999},"merchant":`, 1),
	} {
		require.NotEqual(t, good, bad, name)
		require.ErrorIs(t, verifyBody(t, bad, vectorSignature, vectorTime), errDoubledKey, name)
	}
	require.NoError(t, verifyBody(t, strings.Replace(good, `"transactionAmount":10,`, `"TRANSACTIONAMOUNT":10,`, 1), vectorSignature, vectorTime))
	v, err := parseValues([]byte(strings.Replace(good, `"transactionAmount":10,`, `"TRANSACTIONAMOUNT":10,`, 1)))
	require.NoError(t, err)
	_, err = v.amount(transactionAmount)
	require.Error(t, err, "keys are matched exactly")
}

func TestBodiesThatAreNoEvents(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	for _, body := range []string{
		"", "null", "[]", `"x"`, "{", `{"a":1}{"b":2}`, `{"a":1} x`, `{"a":}`, `{a:1}`, "{\"a\":\"\xff\"}", deep, strings.Repeat("[", 100_000), `{"a":[1,{"b":}]}`,
	} {
		_, err := parseValues([]byte(body))
		require.ErrorIs(t, err, errNotJSON, "%.40q", body)
	}
}

// Doubled keys are found in objects of any size, at their beginning and at their end.
func TestDoubledKeysAmongMany(t *testing.T) {
	for _, n := range []int{2, fewNames - 1, fewNames, fewNames + 1, 1000} {
		var body strings.Builder
		for i := range n {
			fmt.Fprintf(&body, `"key%d":%d,`, i, i)
		}
		v, err := parseValues([]byte("{" + body.String() + `"requestId":"last"}`))
		require.NoError(t, err)
		require.Equal(t, "last", v.text(requestID))
		for _, again := range []string{"key0", "KEY0", fmt.Sprintf("key%d", n-1), fmt.Sprintf("\u212Aey%d", n-1)} {
			_, err = parseValues([]byte("{" + body.String() + `"` + again + `":1}`))
			require.ErrorIs(t, err, errDoubledKey, "%s of %d", again, n)
		}
	}
}

func TestTimesMustParse(t *testing.T) {
	v, err := parseValues([]byte(vector(`"",`)))
	require.NoError(t, err)
	for _, header := range []string{"yesterday", "", "2025-09-29 10:51:44", "-1", "1e9", "99999999999999999999"} {
		require.Error(t, v.verify([]byte(vectorKey), sign(v, header), header), header)
	}
	for _, header := range []string{"1759143104", "2025-09-29T10:51:44Z", "2025-09-29T11:51:44.123+01:00"} {
		require.NoError(t, v.verify([]byte(vectorKey), sign(v, header), header), header)
	}
	for _, bad := range []string{`"time":"later"`, `"time":null`, `"time":5`} {
		v, err := parseValues([]byte(strings.Replace(vector(`"",`), `"time":"2025-09-29T10:51:44Z"`, bad, 1)))
		require.NoError(t, err)
		require.ErrorContains(t, v.verify([]byte(vectorKey), sign(v, vectorTime), vectorTime), "not a time", bad)
	}
	v, err = parseValues([]byte(strings.Replace(vector(`"",`), "45f2dc2d-d559-4773-bba3-2d5ec17b2e20", "", 1)))
	require.NoError(t, err)
	require.ErrorContains(t, v.verify([]byte(vectorKey), sign(v, vectorTime), vectorTime), "requestId")
	v, err = parseValues([]byte(strings.Replace(vector(`"",`), "45f2dc2d", strings.Repeat("x", 300), 1)))
	require.NoError(t, err)
	require.ErrorContains(t, v.verify([]byte(vectorKey), sign(v, vectorTime), vectorTime), "too long")
	v, err = parseValues([]byte(strings.Replace(vector(`"",`), "45f2dc2d", `a\u0000b`, 1)))
	require.NoError(t, err)
	require.ErrorContains(t, v.verify([]byte(vectorKey), sign(v, vectorTime), vectorTime), "control")
}

func FuzzEvent(f *testing.F) {
	f.Add([]byte(vector(`"",`)), vectorSignature, vectorTime)
	f.Add([]byte(`{"a":[{"b":1}]}`), "", "")
	f.Fuzz(func(t *testing.T, body []byte, signature, timestamp string) {
		v, err := parseValues(body)
		if err != nil {
			return
		}
		if err := v.verify([]byte(vectorKey), signature, timestamp); err == nil && signature != vectorSignature && len(decodeSignature(signature)) == 0 {
			t.Fatalf("accepted %q", signature)
		}
		for f := range fieldCount {
			_, _ = v.amount(f)
			if s := v.free(f); strings.ContainsRune(s, 0) || len([]rune(s)) > maxFree {
				t.Fatalf("free text %q", s)
			}
		}
	})
}

// What reading and verifying one event costs the API.
func BenchmarkRead(b *testing.B) {
	s := &Service{Options: Options{WebhookSecret: secret.Redact(vectorKey)}}
	d := InboundRequest{Body: []byte(vector(`"",`)), Signature: vectorSignature, Timestamp: vectorTime}
	require.True(b, s.read(d, time.Now(), s.verify).Authentic)
	b.ReportAllocs()
	for b.Loop() {
		s.read(d, time.Now(), s.verify)
	}
}
