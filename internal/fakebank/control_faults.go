package fakebank

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"ajo/internal/errs"
)

// faultState is what GET and POST /control/faults answer.
type faultState struct {
	Down    Down               `json:"down"`
	Rules   []Rule             `json:"rules"`
	Actions map[Group][]Action `json:"actions"` // what there is to choose from
}

func (b *Bank) faultState() faultState {
	s := faultState{Down: b.Faults.Down(), Rules: b.Faults.Rules(), Actions: make(map[Group][]Action, len(Groups))}
	for _, g := range Groups {
		s.Actions[g] = actionsOf(g)
	}
	return s
}

// controlFaults changes the faults, in this order, by what is given: clear (all rules, and up),
// rules (replaces all), add (a list of rules), remove (a list of ids), down. A form adds one rule
// by its fields, or removes one.
func (b *Bank) controlFaults(_ context.Context, a args) (any, string, error) {
	var rules, add []Rule
	var remove []int
	if a["on"] != "" {
		r, err := ruleOf(a)
		if err != nil {
			return nil, "", err
		}
		add = []Rule{r}
	}
	for name, into := range map[string]any{"rules": &rules, "add": &add, "remove": &remove} {
		if a[name] == "" {
			continue
		}
		if err := json.Unmarshal([]byte(a[name]), into); err != nil {
			return nil, "", errs.New(errs.Invalid, name+": "+err.Error())
		}
	}
	down, given := a["down"]
	if given && !slices.Contains([]Down{Up, DownAnswer, DownClose}, Down(down)) {
		return nil, "", errs.New(errs.Invalid, `down must be "", "503" or "close"`)
	}
	if a.is("clear") {
		b.Faults.Clear()
	}
	if a["rules"] != "" {
		b.Faults.Set(rules...)
	}
	b.Faults.Add(add...)
	b.Faults.Remove(remove...)
	if given {
		b.Faults.SetDown(Down(down))
	}
	return b.faultState(), "Faults changed", nil
}

// ruleOf reads one rule from the fields of a form.
func ruleOf(a args) (Rule, error) {
	r := Rule{On: Group(a["on"]), Do: Action(a["do"]), Match: a["match"], Code: a["code"], Value: a["value"]}
	for name, into := range map[string]*int{
		"next": &r.Next, "skip": &r.Skip, "percent": &r.Percent, "status": &r.Status, "copies": &r.Copies,
	} {
		if a[name] == "" {
			continue
		}
		n, err := strconv.Atoi(a[name])
		if err != nil {
			return r, errs.New(errs.Invalid, name+" must be a whole number")
		}
		*into = n
	}
	if a["delay"] != "" {
		d, err := time.ParseDuration(a["delay"])
		if err != nil {
			return r, errs.New(errs.Invalid, "delay must be a duration, such as 1.5s")
		}
		r.Delay = d
	}
	if err := r.Validate(); err != nil {
		return r, errs.New(errs.Invalid, err.Error())
	}
	return r, nil
}

// stateView is what GET /control/state answers.
type stateView struct {
	WebhookURL   string         `json:"webhookUrl"`
	PayoutDelay  string         `json:"payoutDelay"`
	Wallet       string         `json:"wallet"`
	Accounts     []Account      `json:"accounts"`
	Transactions []Transaction  `json:"transactions"`
	Payouts      []Payout       `json:"payouts"`
	Paid         []Payout       `json:"paid"`
	Webhooks     []Webhook      `json:"webhooks"`
	Calls        map[string]int `json:"calls"`
	Faults       faultState     `json:"faults"`
}

// serveState serves GET /control/state: everything, or with ?limit=N the newest N of each list.
func (b *Bank) serveState(w http.ResponseWriter, r *http.Request) {
	limit := -1
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			write(w, answer{http.StatusBadRequest, ninError{"limit must be a whole number"}})
			return
		}
		limit = n
	}
	write(w, answer{http.StatusOK, stateView{
		WebhookURL: *b.hooks.url.Load(), PayoutDelay: time.Duration(b.delay.Load()).String(), Wallet: b.Wallet().String(),
		Accounts: newest(b.Accounts(), limit), Transactions: newest(b.Transactions(), limit), Payouts: newest(b.Payouts(), limit),
		Paid: newest(b.Paid(), limit), Webhooks: newest(b.Webhooks(), limit), Calls: b.AllCalls(), Faults: b.faultState(),
	}})
}

// newest keeps the last n of a list, or all when n is negative.
func newest[T any](list []T, n int) []T {
	if n < 0 || n >= len(list) {
		return list
	}
	return list[len(list)-n:]
}
