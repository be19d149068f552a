package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/spec"
	"ajo/internal/testenv"
)

func TestProviderWebhookAnswers200ToWhateverComes(t *testing.T) {
	spec.Shows(t, "event.in.path", "event.in.customer.account", "event.in.customer.bank", "event.in.200", "event.in.200.forged",
		"event.in.200.repeat", "event.in.sig.headers", "endpoint.provider", "endpoint.provider.body")
	w := setup(t)
	for i, c := range []struct{ body, kind string }{
		{"", ""},
		{"not json", "text/plain"},
		{`{"event_type":"payment_success"}`, "application/json"},
		{"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n", "multipart/form-data; boundary=b"},
	} {
		r := w.do("POST", "/webhooks/provider", c.body, "Content-Type", c.kind, "provider-signature", "AAAA", "provider-timestamp", "1").ok(200, nil)
		require.Equal(t, "{}", r.Body)
		require.Equal(t, c.body, w.EventBodies(`true`)[i], "the bytes are kept as they came")
	}
	require.Equal(t, 4, testenv.Value[int](w.Env, `SELECT count(*) FROM inbound_events WHERE category = 'sig_invalid'`))

	e := event{"r-1", "t-1", "shop-1", "10", "0"}
	w.send(e).ok(200, nil)
	w.send(e).ok(200, nil)
	e.amount = "99" // the same id with another content
	w.send(e).ok(200, nil)
	require.Equal(t, 1, testenv.Value[int](w.Env, `SELECT count(*) FROM inbound_events WHERE signature_valid`))
	require.Contains(t, w.EventBodies(`signature_valid`)[0],
		`"customer":{"senderName":"Bayo","accountNumber":"0123456789","bankName":"Bank"}`)
}

func TestSignatureHeadersHaveConfiguredNames(t *testing.T) {
	w := setup(t, func(o *Options) { o.SignatureHeader, o.TimestampHeader = "X-Bank-Signature", "X-Bank-Timestamp" })
	w.send(event{"r-1", "t-1", "shop-1", "10", "0"}).ok(200, nil)
	require.Equal(t, 0, testenv.Value[int](w.Env, `SELECT count(*) FROM inbound_events WHERE signature_valid`), "sent under the default names")
	w.signatureHeader, w.timestampHeader = "X-Bank-Signature", "x-bank-timestamp"
	w.send(event{"r-1", "t-1", "shop-1", "10", "0"}).ok(200, nil)
	require.Equal(t, 1, testenv.Value[int](w.Env, `SELECT count(*) FROM inbound_events WHERE signature_valid`))
}
