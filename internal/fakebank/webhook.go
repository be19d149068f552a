package fakebank

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// The states of a webhook.
const (
	HookWaiting   = "waiting"   // an attempt is under way or to come
	HookDelivered = "delivered" // answered 2xx
	HookGivenUp   = "given_up"  // no attempt was answered 2xx, and there are no more
	HookMissing   = "missing"   // a rule had it never sent
	HookNoURL     = "no_url"    // there was nowhere to send it
)

// Webhook is an event on its way to the service, with its attempts so far.
type Webhook struct {
	ID        int    `json:"id"`
	EventType string `json:"eventType"`
	RequestID string `json:"requestId"`
	// what it is about: transaction or payout id, merchantTxRef
	Refs     []string        `json:"refs"`
	State    string          `json:"state"`
	Attempts []Attempt       `json:"attempts"`
	NextAt   *time.Time      `json:"nextAt,omitempty"`
	BadSign  bool            `json:"badSignature,omitempty"`
	Body     json.RawMessage `json:"body"`
}

// Attempt is one sending of a webhook. Status is 0 when there was no answer, and Error says why.
type Attempt struct {
	At     time.Time `json:"at"`
	Status int       `json:"status"`
	Error  string    `json:"error,omitempty"`
}

// keepHooks is how many webhooks are remembered after they have ended.
const keepHooks = 20_000

// hooks are the webhooks, sent and to be sent.
type hooks struct {
	url    atomic.Pointer[string]
	secret atomic.Pointer[string]
	client *http.Client
	slots  chan struct{} // bounds the sendings at one time

	mu      sync.Mutex
	all     []*delivery
	byRef   map[string]*delivery // the latest about a transaction or payout
	lastID  int
	sending int // deliveries handed to a goroutine that has not ended
	idle    []chan struct{}
}

// delivery is a Webhook that is worked on; hooks.mu guards it.
type delivery struct {
	Webhook
	tried bool
	first chan struct{} // closed after the first attempt
}

func newHooks(url, secret string) *hooks {
	h := &hooks{slots: make(chan struct{}, 128), byRef: make(map[string]*delivery)}
	h.url.Store(&url)
	h.secret.Store(&secret)
	h.client = &http.Client{
		Transport:     &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return h
}

// webhookTimeout is for one attempt in all, where the options name none.
const webhookTimeout = 10 * time.Second

// announce sends an event as the rules want it. With wait it returns after the first attempts, or
// when ctx ends.
func (b *Bank) announce(ctx context.Context, e Event, wait bool, refs ...string) {
	p := b.Faults.strike(OnWebhooks, func() []string { return append([]string{e.EventType}, refs...) })
	events := []Event{e}
	switch p.rule.Do {
	case Again, AgainNewID:
		for range max(p.rule.Copies, 1) {
			if p.rule.Do == AgainNewID {
				e.RequestID = uuid.NewString()
			}
			events = append(events, e)
		}
	}
	var sent []*delivery
	for _, e := range events {
		d := &delivery{first: make(chan struct{}), Webhook: Webhook{
			EventType: e.EventType, RequestID: e.RequestID, Refs: refs, State: HookWaiting,
			BadSign: p.rule.Do == BadSignature, Body: body(e),
		}}
		if p.rule.Do == Missing {
			d.State = HookMissing
		}
		b.hooks.remember(d)
		b.books.changes.Add(1)
		if d.State == HookMissing {
			continue
		}
		if p.before > 0 {
			b.sendAt(d, b.clock.Now().Add(p.before))
			continue
		}
		b.send(d)
		sent = append(sent, d)
	}
	if !wait {
		return
	}
	for _, d := range sent {
		select {
		case <-d.first:
		case <-ctx.Done():
		case <-b.ctx.Done():
		}
	}
}

func (h *hooks) remember(d *delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastID++
	d.ID = h.lastID
	if len(h.all) >= 2*keepHooks {
		h.forget()
	}
	h.all = append(h.all, d)
	for _, ref := range d.Refs {
		h.byRef[ref] = d
	}
}

// forget drops the oldest that have ended. The lock is held.
func (h *hooks) forget() {
	kept := make([]*delivery, 0, 2*keepHooks)
	for i, d := range h.all {
		if d.State == HookWaiting || i >= len(h.all)-keepHooks {
			kept = append(kept, d)
			continue
		}
		for _, ref := range d.Refs {
			if h.byRef[ref] == d {
				delete(h.byRef, ref)
			}
		}
	}
	h.all = kept
}

// sendAt has the next attempt made at a time of the bank's clock.
func (b *Bank) sendAt(d *delivery, at time.Time) {
	b.hooks.mu.Lock()
	d.NextAt = &at
	b.hooks.mu.Unlock()
	b.due.at(at, func() { b.send(d) })
}

// send makes one attempt in the background.
func (b *Bank) send(d *delivery) {
	b.hooks.mu.Lock()
	b.hooks.sending++
	d.NextAt = nil
	b.hooks.mu.Unlock()
	if !b.work.Go(func() { b.tryOnce(d) }) {
		b.hooks.ended()
	}
}

// ended counts a sending as over, and wakes those who wait for none to be under way.
func (h *hooks) ended() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sending--; h.sending > 0 {
		return
	}
	for _, c := range h.idle {
		close(c)
	}
	h.idle = nil
}

func (b *Bank) tryOnce(d *delivery) {
	defer b.hooks.ended()
	select {
	case b.hooks.slots <- struct{}{}:
		defer func() { <-b.hooks.slots }()
	case <-b.ctx.Done():
		return
	}
	a := Attempt{At: b.clock.Now()}
	url := *b.hooks.url.Load()
	if url != "" {
		a.Status, a.Error = b.post(url, d)
		if b.ctx.Err() != nil {
			return // the bank was closed meanwhile; the attempt does not count
		}
	}
	b.hooks.mu.Lock()
	if url != "" {
		d.Attempts = append(d.Attempts, a)
	}
	tried := len(d.Attempts)
	switch {
	case url == "":
		d.State = HookNoURL
	case a.Status >= 200 && a.Status < 300:
		d.State = HookDelivered
	case tried > len(b.opt.RetryDelays):
		d.State = HookGivenUp
	}
	state := d.State
	if !d.tried {
		d.tried = true
		close(d.first)
	}
	b.hooks.mu.Unlock()
	b.books.changes.Add(1)
	if state == HookWaiting {
		b.log.Warn("webhook not taken", "event", d.EventType, "refs", d.Refs, "status", a.Status, "error", a.Error, "attempt", tried)
		b.sendAt(d, b.clock.Now().Add(b.opt.RetryDelays[tried-1]))
	}
}

func (b *Bank) post(url string, d *delivery) (status int, problem string) {
	secret := *b.hooks.secret.Load()
	if d.BadSign {
		secret += "-not-this-one"
	}
	h, err := b.headers(d.Body, secret)
	if err != nil {
		return 0, err.Error()
	}
	status, _, err = b.exchange(b.ctx, url, d.Body, h)
	if err != nil {
		return 0, err.Error()
	}
	return status, ""
}

func (b *Bank) exchange(ctx context.Context, url string, body []byte, h http.Header) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, b.opt.WebhookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("fakebank: %w", err)
	}
	req.Header = h
	resp, err := b.hooks.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("fakebank: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return 0, nil, fmt.Errorf("fakebank: %w", err)
	}
	return resp.StatusCode, said, nil
}

// SendEvent posts any body under any headers to the webhook URL, once, and returns the answer. With
// nil headers it is signed as [Bank.SignedHeaders] does. It is in no list of webhooks, and no rule
// strikes it.
func (b *Bank) SendEvent(ctx context.Context, body []byte, headers http.Header) (status int, said []byte, err error) {
	if headers == nil {
		if headers, err = b.SignedHeaders(body); err != nil {
			return 0, nil, err
		}
	}
	url := *b.hooks.url.Load()
	if url == "" {
		return 0, nil, fmt.Errorf("fakebank: no webhook URL")
	}
	return b.exchange(ctx, url, body, headers.Clone())
}

// Resend sends the latest webhook about a transaction or payout once more, as a person would from
// the bank's dashboard.
func (b *Bank) Resend(ref string) error {
	b.hooks.mu.Lock()
	d := b.hooks.byRef[ref]
	var again *delivery
	if d != nil {
		again = &delivery{first: make(chan struct{}), Webhook: d.Webhook}
	}
	b.hooks.mu.Unlock()
	if d == nil {
		return ErrNoRecord
	}
	again.State, again.Attempts, again.NextAt, again.BadSign = HookWaiting, nil, nil, false
	b.hooks.remember(again)
	b.books.changes.Add(1)
	b.send(again)
	return nil
}

// Flush waits until no webhook is being sent; those that wait for their time on the clock are not
// waited for.
func (b *Bank) Flush(ctx context.Context) error {
	b.due.run()
	b.hooks.mu.Lock()
	if b.hooks.sending == 0 {
		b.hooks.mu.Unlock()
		return nil
	}
	c := make(chan struct{})
	b.hooks.idle = append(b.hooks.idle, c)
	b.hooks.mu.Unlock()
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Webhooks lists the events, oldest first, with their attempts. Those long ended may have been
// forgotten.
func (b *Bank) Webhooks() []Webhook {
	b.due.run()
	b.hooks.mu.Lock()
	defer b.hooks.mu.Unlock()
	list := make([]Webhook, len(b.hooks.all))
	for i, d := range b.hooks.all {
		list[i] = d.copy()
	}
	return list
}

// WebhookFor returns the latest webhook about a transaction or payout.
func (b *Bank) WebhookFor(ref string) (Webhook, bool) {
	b.due.run()
	b.hooks.mu.Lock()
	defer b.hooks.mu.Unlock()
	d := b.hooks.byRef[ref]
	if d == nil {
		return Webhook{}, false
	}
	return d.copy(), true
}

func (d *delivery) copy() Webhook {
	w := d.Webhook
	w.Attempts = append([]Attempt{}, w.Attempts...) // never null on the wire
	return w
}
