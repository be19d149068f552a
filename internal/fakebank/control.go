package fakebank

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ajo/internal/errs"
	"ajo/internal/money"
)

// controlRoutes serves what no bank has: the control page, and its actions for people (forms) and
// machines (JSON). It stays up when the bank is down. Requests from another site are refused, as a
// browser on this machine reaches it.
func (b *Bank) controlRoutes(mux *http.ServeMux) {
	same := http.NewCrossOriginProtection()
	post := func(path string, do func(context.Context, args) (any, string, error)) {
		mux.Handle("POST /control/"+path, same.Handler(b.controlled(do)))
	}
	mux.HandleFunc("GET /{$}", b.servePage)
	mux.HandleFunc("GET /control/style.css", serveStyle)
	mux.HandleFunc("GET /control/state", b.serveState)
	mux.HandleFunc("GET /control/faults", func(w http.ResponseWriter, _ *http.Request) {
		write(w, answer{http.StatusOK, b.faultState()})
	})
	post("pay", b.controlPay)
	post("reverse", b.controlReverse)
	post("transaction", b.controlTransaction)
	post("payout", b.controlPayout)
	post("resend", b.controlResend)
	post("nin", b.controlNIN)
	post("settings", b.controlSettings)
	post("tokens/revoke", b.controlRevoke)
	post("faults", b.controlFaults)
}

// args are the fields of a form or of a flat JSON object, as text; what is nested stays JSON.
type args map[string]string

// amount reads a field that may be missing.
func (a args) amount(name string) (*money.Amount, error) {
	if a[name] == "" {
		return nil, nil
	}
	v, err := money.ParseNumber(json.Number(strings.ReplaceAll(a[name], ",", "")))
	if err != nil {
		return nil, errs.New(errs.Invalid, name+" must be naira with at most two decimals")
	}
	return &v, nil
}

// is reports whether a switch is on.
func (a args) is(name string) bool { return a[name] == "true" || a[name] == "on" || a[name] == "1" }

// controlled reads the fields, does the thing and answers: JSON to machines, and to a form a way
// back to the page with what was done or what is wrong.
func (b *Bank) controlled(do func(context.Context, args) (any, string, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, form, err := readArgs(w, r)
		var body any
		var done string
		if err == nil {
			body, done, err = do(r.Context(), a)
		}
		if form {
			q := url.Values{"done": {done}}
			if err != nil {
				q = url.Values{"error": {err.Error()}}
			}
			http.Redirect(w, r, "/?"+q.Encode(), http.StatusSeeOther)
			return
		}
		if err != nil {
			write(w, answer{controlStatus(err), ninError{err.Error()}})
			return
		}
		write(w, answer{http.StatusOK, body})
	})
}

func controlStatus(err error) int {
	switch errs.KindOf(err) {
	case errs.Invalid:
		return http.StatusBadRequest
	case errs.NotFound:
		return http.StatusNotFound
	case errs.Unprocessable:
		return http.StatusUnprocessableEntity
	default:
		return http.StatusInternalServerError
	}
}

func readArgs(w http.ResponseWriter, r *http.Request) (a args, form bool, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	a = make(args)
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/x-www-form-urlencoded" {
		if err := r.ParseForm(); err != nil {
			return nil, true, errs.New(errs.Invalid, "the form could not be read")
		}
		for name, values := range r.PostForm {
			a[name] = strings.TrimSpace(values[0])
		}
		return a, true, nil
	}
	var fields map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&fields); err != nil && err != io.EOF {
		return nil, false, errs.New(errs.Invalid, "the body must be a JSON object")
	}
	for name, raw := range fields {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			a[name] = text
		} else {
			a[name] = string(raw)
		}
	}
	return a, false, nil
}

// controlPay makes a payment: accountRef or nuban, amount, and sender, senderAccount, senderBank,
// narration, fee, currency, time, force, silent, wait as wanted; forgedSender, forgedAccount and
// forgedBank are whom the event names instead. A form always waits, so that the page shows the
// event's outcome.
func (b *Bank) controlPay(ctx context.Context, a args) (any, string, error) {
	amount, err := a.amount("amount")
	if err != nil {
		return nil, "", err
	}
	fee, err := a.amount("fee")
	if err != nil {
		return nil, "", err
	}
	if amount == nil {
		return nil, "", ErrAmount
	}
	var at time.Time
	if a["time"] != "" {
		if at, err = time.Parse(time.RFC3339, a["time"]); err != nil {
			return nil, "", errs.New(errs.Invalid, "time must look like 2006-01-02T15:04:05Z")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var forged *Sender
	if f := (Sender{a["forgedSender"], a["forgedAccount"], a["forgedBank"]}); f != (Sender{}) {
		forged = &f
	}
	t, err := b.Pay(ctx, Payment{
		AccountRef: a["accountRef"], NUBAN: a["nuban"], Amount: *amount, Fee: fee, Currency: a["currency"], Status: a["status"],
		SenderName: a["sender"], SenderAccount: a["senderAccount"], SenderBank: a["senderBank"], Forged: forged, Narration: a["narration"], Time: at, Force: a.is("force"), Silent: a.is("silent"), Wait: a.is("wait"),
	})
	if err != nil {
		return nil, "", err
	}
	return t, "Paid " + t.Amount.String() + " to " + t.NUBAN + " (" + t.ID + ")", nil
}

// controlReverse reverses the inbound transfer id: its record and, unless it is silent, by an
// event.
func (b *Bank) controlReverse(ctx context.Context, a args) (any, string, error) {
	do := b.Reverse
	if a.is("silent") {
		do = b.ReverseSilently
	}
	t, err := do(ctx, a["id"])
	return t, "Reversed " + a["id"], err
}

// controlTransaction alters the record id: status, amount, fee, currency, nuban, hidden, wrong;
// what is missing stays.
func (b *Bank) controlTransaction(_ context.Context, a args) (any, string, error) {
	amount, err := a.amount("amount")
	if err != nil {
		return nil, "", err
	}
	fee, err := a.amount("fee")
	if err != nil {
		return nil, "", err
	}
	var altered Transaction
	ok := b.alterTransaction(a["id"], func(t *Transaction) {
		t.Status = cmp.Or(a["status"], t.Status)
		t.Currency = cmp.Or(a["currency"], t.Currency)
		t.NUBAN = cmp.Or(a["nuban"], t.NUBAN)
		if amount != nil {
			t.Amount = *amount
		}
		if fee != nil {
			t.Fee = *fee
		}
		if a["hidden"] != "" {
			t.Hidden = a.is("hidden")
		}
		if a["wrong"] != "" {
			t.Wrong = a.is("wrong")
		}
		altered = *t
	})
	if !ok {
		return nil, "", ErrNoRecord
	}
	return altered, "Altered the record " + a["id"], nil
}

// controlPayout ends the payout ref with a status.
func (b *Bank) controlPayout(_ context.Context, a args) (any, string, error) {
	p, err := b.EndPayout(a["ref"], a["status"])
	return p, "Payout " + a["ref"] + " is now " + p.Status, err
}

// controlResend sends the latest webhook about ref once more.
func (b *Bank) controlResend(_ context.Context, a args) (any, string, error) {
	if err := b.Resend(a["ref"]); err != nil {
		return nil, "", err
	}
	return map[string]bool{"sent": true}, "Sent the webhook about " + a["ref"] + " again", nil
}

// controlNIN makes the NIN service know a person: nin, firstName, lastName, dateOfBirth.
func (b *Bank) controlNIN(_ context.Context, a args) (any, string, error) {
	nin := a["nin"]
	if len(nin) != 11 || !allDigits(nin) {
		return nil, "", errs.New(errs.Invalid, "nin must be 11 digits")
	}
	b.AddPerson(nin, Person{FirstName: a["firstName"], LastName: a["lastName"], DateOfBirth: a["dateOfBirth"]})
	return map[string]bool{"known": true}, "The NIN service knows that person now", nil
}

// controlSettings changes webhookUrl and payoutDelay where they are given.
func (b *Bank) controlSettings(_ context.Context, a args) (any, string, error) {
	if text := a["payoutDelay"]; text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return nil, "", errs.New(errs.Invalid, "payoutDelay must be a duration, such as 3s")
		}
		b.SetPayoutDelay(d)
	}
	if to, given := a["webhookUrl"]; given {
		b.SetWebhookURL(to)
	}
	return map[string]string{
		"webhookUrl": *b.hooks.url.Load(), "payoutDelay": time.Duration(b.delay.Load()).String(),
	}, "Settings changed", nil
}

func (b *Bank) controlRevoke(context.Context, args) (any, string, error) {
	b.RevokeTokens()
	return map[string]bool{"revoked": true}, "Every access token has ended", nil
}
