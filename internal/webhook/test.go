package webhook

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/safehttp"
	"ajo/internal/sandbox"
	"ajo/internal/signature"
)

// Tested is the result of a test event. Field names and casing are the wire's.
type Tested struct {
	URL          string `json:"url"`
	StatusCode   *int   `json:"statusCode"` // nil when no answer came
	DurationMs   int64  `json:"durationMs"`
	Error        string `json:"error"`        // empty after a 2xx answer
	ResponseBody string `json:"responseBody"` // at most 16 KiB, as it came
	// the specified one, as it was sent; empty while there is no secret
	SignatureHeader string `json:"signatureHeader"`
	Body            string `json:"body"` // what was sent
}

// testEvent has no field that could make it look like a payment.
type testEvent struct {
	EventType string    `json:"eventType"`
	ID        uuid.UUID `json:"id"`
	Message   string    `json:"message"`
	CreatedAt time.Time `json:"createdAt"`
}

// Test sends a test event to the URL, or, if that is empty, to the tenant's webhook URL:
// immediately, only once, and signed like a delivery: to the URL of one of the tenant's endpoints,
// with that endpoint's secret. Nothing is stored. A URL that breaks the rules for callbacks is
// refused as [safehttp.CheckURL] does, and without any URL it is [errNoURL]. A failed call is a
// result, not an error.
func (s *Service) Test(ctx context.Context, tenant uuid.UUID, url string) (Tested, error) {
	var own string
	var endpoint *uuid.UUID // the one with this URL
	sealed, row, ofThat := sealedSecrets{of: ofTenant}, tenant, sealedSecrets{of: ofEndpoint}
	url = strings.TrimSpace(url)
	if err := s.pool.QueryRow(ctx, `
		SELECT t.webhook_url, t.webhook_secret, t.webhook_secret_previous, t.webhook_secret_previous_until,
			e.id, e.secret, e.secret_previous, e.secret_previous_until
		FROM tenants t LEFT JOIN webhook_endpoints e ON e.tenant_id = t.id AND e.url = $2 AND e.removed_at IS NULL
		WHERE t.id = $1`, tenant, url).
		Scan(&own, &sealed.current, &sealed.previous, &sealed.previousUntil, &endpoint, &ofThat.current, &ofThat.previous, &ofThat.previousUntil); err != nil {
		return Tested{}, err
	}
	if endpoint != nil {
		sealed, row = ofThat, *endpoint
	}
	if url == "" {
		url = own
	}
	if url == "" {
		return Tested{}, errNoURL
	}
	if err := safehttp.CheckURL("url", url, s.opts.Callbacks); err != nil {
		return Tested{}, err
	}
	now := s.clock.Now()
	secrets, err := sealed.open(s.box, row, now)
	if err != nil {
		return Tested{}, err
	}
	event := testEvent{EventType: "test", ID: uuid.Must(uuid.NewV7()), Message: "A test event: nothing has happened.", CreatedAt: now}
	body, err := encode(event)
	if err != nil {
		return Tested{}, err
	}
	header := s.header()
	Sign(header, secrets, event.ID.String(), now, body)
	answer, err := s.client.Post(ctx, url, header, body)
	if err != nil && ctx.Err() != nil {
		return Tested{}, err
	}
	t := Tested{
		URL: url, DurationMs: answer.Duration.Milliseconds(), Error: failure(answer, err), ResponseBody: string(answer.Body),
		SignatureHeader: header.Get(signature.Header), Body: string(body),
	}
	if answer.StatusCode != 0 {
		t.StatusCode = &answer.StatusCode
	}
	return t, nil
}

// header returns the header of every call, before it is signed.
func (s *Service) header() http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"ajo/" + s.opts.Version}}
	if s.opts.Test {
		h.Set(sandbox.ModeHeader, sandbox.ModeTest)
	}
	return h
}
