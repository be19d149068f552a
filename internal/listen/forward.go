package listen

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ajo/api/client"
	"ajo/internal/signature"
)

// What a delivery allows the receiver too.
const (
	localTimeout = 10 * time.Second
	localAnswer  = 16 << 10
)

// event is one that the API has shown.
type event struct {
	ID        string // of the webhook-id header
	EventType string
	CreatedAt time.Time
	Body      string
}

// show sends an event on, where it is wanted, and says so in a line: time, type, account, the
// amount (of a payout: what left), what came of it.
func (l *listener) show(ctx context.Context, e event) {
	if len(l.Events) > 0 && !slices.Contains(l.Events, e.EventType) {
		return
	}
	var said client.Event
	if err := json.Unmarshal([]byte(e.Body), &said); err != nil {
		l.Say("The API showed an event that is no JSON: " + err.Error())
		return
	}
	line := fmt.Sprintf("%s  %-20s  %s  NGN %s", e.CreatedAt.Local().Format(time.TimeOnly), e.EventType, strings.TrimSpace(said.AccountRef+" "+said.MerchantTxRef), cmp.Or(said.PaidAmount, said.Amount))
	if l.ForwardTo != "" {
		line += "  → " + l.forward(ctx, e)
	}
	l.Say(line)
	if l.Bodies {
		l.Say(e.Body)
	}
}

// forward posts the event as a worker would, and says what came of it.
func (l *listener) forward(ctx context.Context, e event) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.ForwardTo, strings.NewReader(e.Body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "ajo/"+l.Version)
	signature.Sign(req.Header, []string{l.secret}, e.ID, time.Now(), []byte(e.Body))
	begin := time.Now()
	resp, err := l.local.Do(req)
	took := func() time.Duration { return time.Since(begin).Round(100 * time.Microsecond) }
	if err != nil {
		var inside *url.Error
		if errors.As(err, &inside) {
			err = inside.Err // without the URL, which the developer knows
		}
		return fmt.Sprintf("no answer in %s: %s", took(), err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, localAnswer)
	return fmt.Sprintf("%d in %s", resp.StatusCode, took())
}
