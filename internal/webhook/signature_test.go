package webhook

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
	"ajo/internal/spec"
)

// deliverOne queues and delivers one payment and returns what the receiver saw.
func deliverOne(b *bundle, r *receiver) call {
	b.T.Helper()
	require.NoError(b.T, b.Deliver(b.ctx, b.queueOne(r.URL)))
	calls := r.seen()
	return calls[len(calls)-1]
}

func TestUnsignedWithoutSecret(t *testing.T) {
	spec.Shows(t, "event.out.unsigned", "event.out.content-type")
	b := setup(t)
	c := deliverOne(b, receive(t, answer(200)))
	for _, name := range []string{"X-Service-Signature", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		require.Empty(t, c.header.Values(name))
	}
	require.Equal(t, "application/json", c.header.Get("Content-Type"))
}

func TestRotatedSecretsBothVerify(t *testing.T) {
	spec.Shows(t, "event.out.sig.raw", "event.out.sig.tolerance", "limit.signature")
	b := setup(t)
	r := receive(t, answer(200))
	before, after := secret.NewSigningSecret().Reveal(), secret.NewSigningSecret().Reveal()
	b.setSecret(after)
	until := b.Clock.Now().Add(24 * time.Hour)
	b.Exec(`UPDATE tenants SET webhook_secret_previous = $2, webhook_secret_previous_until = $3 WHERE id = $1`, b.tenant,
		b.box.Seal(secret.Place{Table: "tenants", Column: "webhook_secret_previous", Row: b.tenant.String()}, []byte(before)), until)

	c := deliverOne(b, r)
	require.Equal(t, 2, strings.Count(c.header.Get("X-Service-Signature"), ",v1="))
	for _, s := range []string{before, after} {
		require.NoError(t, verify(c, s, b.Clock.Now()))
		require.NoError(t, verify(c, s, b.Clock.Now().Add(300*time.Second)))
		require.Error(t, verify(c, s, b.Clock.Now().Add(301*time.Second)))
		require.NoError(t, verifyStandard(c, s))
		require.NoError(t, verifyStandard(c, "whsec_"+s))
	}
	require.Error(t, verify(c, secret.NewSigningSecret().Reveal(), b.Clock.Now()))
	c.body = append(c.body, ' ')
	require.Error(t, verify(c, after, b.Clock.Now()), "another body")

	b.Clock.Set(until)
	c = deliverOne(b, r)
	require.NoError(t, verify(c, after, b.Clock.Now()))
	require.Error(t, verify(c, before, b.Clock.Now()), "after 24 hours the old secret signs no more")
	require.Error(t, verifyStandard(c, before))
}

// A fixed vector, made with another program, pins the header's form.
func TestSignatureForm(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "event.out.sig.form", "event.out.sig.payload", "event.out.sig.algorithm", "event.out.sig.hex", "version.signature")
	h := http.Header{}
	key := secret.Redact(strings.Repeat("0123456789abcdef", 4))
	Sign(h, []secret.Redacted{key}, "01890a5d-ac96-774b-bcce-b302099a8057", time.Unix(1700000000, 0), []byte(`{"a":1}`))
	require.Equal(t, http.Header{
		"X-Service-Signature": {"t=1700000000,v1=2c362ea0cde6ec3b3f3c417d269bfba1f15017c58e6f39c37535a01e2d694de6"},
		"Webhook-Id":          {"01890a5d-ac96-774b-bcce-b302099a8057"},
		"Webhook-Timestamp":   {"1700000000"},
		"Webhook-Signature":   {"v1,1VaQz+0Tn7/uvr5sG8KPCSGSB0vKlng0NQhJYMs9lTU="},
	}, h)
}

func TestSecretThatDoesNotOpenSendsNothing(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(200))
	b.Exec(`UPDATE tenants SET webhook_secret = $2 WHERE id = $1`, b.tenant,
		b.box.Seal(secret.Place{Table: "tenants", Column: "webhook_secret", Row: uuid.NewString()}, []byte("another tenant's")))
	id := b.queueOne(r.URL)
	require.ErrorIs(t, b.Deliver(b.ctx, id), secret.ErrSealed)
	require.Empty(t, r.seen(), "never unsigned, and never with another's secret")
	require.Zero(t, b.get(id).AttemptCount)
}
