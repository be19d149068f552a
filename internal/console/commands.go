package console

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"ajo/internal/audit"
)

// Read is a command that only reads, and whose JSON a page shows. The query of its path has the
// arguments and the flags by their names.
type Read struct {
	Command string
	Args    []string
	Flags   []string
}

// Path is where it is asked for.
func (r Read) Path() string { return Root + "/api/read/" + dashed(r.Command) }

// Reads are all that pages may show.
var Reads = []Read{
	{Command: "status"},
	{Command: "review list", Flags: paged()},
	{Command: "review show", Args: []string{"event"}},
	{Command: "recalls list", Flags: paged("status")},
	{Command: "events list", Flags: paged("category", "status", "day", "amount", "number", "transaction", "payer", "session")},
	{Command: "events show", Args: []string{"event"}},
	{Command: "transfers list", Flags: paged("status", "differing", "tenant")},
	{Command: "transfers show", Args: []string{"reference"}},
	{Command: "freeze list", Flags: paged("status")},
	{Command: "customers review", Flags: paged()},
	{Command: "customers show", Args: []string{"customer"}},
	{Command: "accounts find", Args: []string{"number"}},
	{Command: "accounts holds", Flags: paged("source", "tenant", "older", "summary")},
	{Command: "accounts dormant", Flags: paged("months")},
	{Command: "tenant list", Flags: paged("status")},
	{Command: "tenant show", Args: []string{"tenant"}},
	{Command: "tenant keys", Args: []string{"tenant"}, Flags: paged()},
	{Command: "tenant members", Args: []string{"tenant"}, Flags: paged()},
	{Command: "tenant limits show", Args: []string{"tenant"}},
	{Command: "tenant policy show", Args: []string{"tenant"}},
	{Command: "prices list", Flags: []string{"tenant"}},
	{Command: "deliveries list", Flags: paged("status", "event", "tenant")},
	{Command: "deliveries show", Args: []string{"delivery"}},
	{Command: "work list", Flags: paged("kind", "tenant", "due", "failing", "leased", "summary")},
	{Command: "reconcile list", Flags: paged()},
	{Command: "reconcile show", Args: []string{"run"}},
	{Command: "reconcile open", Flags: paged()},
	{Command: "ledger trial-balance", Flags: []string{"at"}},
	{Command: "ledger statement", Args: []string{"account"}, Flags: paged("from", "to")},
	{Command: "audit list", Flags: paged("action", "target")},
}

// paged are the flags of a list that is read page by page.
func paged(flags ...string) []string { return append(flags, "limit", "after") }

// Action is a command that changes something. The body of its path has the arguments and the flags
// by their names.
type Action struct {
	Command string
	Args    []string
	Flags   []string
	More    bool // the last argument may be several, with blanks between
}

// Path is where it is asked for.
func (a Action) Path() string { return Root + "/api/act/" + dashed(a.Command) }

// Actions are all that pages may change.
var Actions = []Action{
	{Command: "review confirm", Args: []string{"event"}},
	{Command: "review reverse", Args: []string{"event"}},
	{Command: "review correct", Args: []string{"event"}, Flags: []string{"amount", "fee"}},
	{Command: "review restore", Args: []string{"event"}},
	{Command: "review sender", Args: []string{"event"}},
	{Command: "recalls open", Args: []string{"event"}},
	{Command: "recalls reverse", Args: []string{"event"}},
	{Command: "recalls keep", Args: []string{"event"}},
	{Command: "events assign", Args: []string{"event"}, Flags: []string{"account", "tenant"}},
	{Command: "events repost", Args: []string{"event"}},
	{Command: "events refund", Args: []string{"event"}, Flags: []string{"bank", "account"}},
	{Command: "deliveries replay", Args: []string{"delivery"}},
	{Command: "transfers poll", Args: []string{"reference"}},
	{Command: "transfers cancel", Args: []string{"reference"}},
	{Command: "transfers resolve", Args: []string{"reference"}, Flags: []string{"paid", "not-paid", "amount"}},
	{Command: "transfers charges", Args: []string{"reference"}, Flags: []string{"fee", "vat", "stamp-duty"}},
	{Command: "transfers adopt", Args: []string{"references"}, Flags: []string{"account"}, More: true},
	{Command: "freeze account", Args: []string{"account"}, Flags: []string{"until", "all"}},
	{Command: "freeze tenant", Args: []string{"tenant"}, Flags: []string{"until"}},
	{Command: "freeze payouts", Flags: []string{"until"}},
	{Command: "freeze lift", Args: []string{"freeze"}},
	{Command: "tenant suspend", Args: []string{"tenant"}},
	{Command: "tenant activate", Args: []string{"tenant"}},
	{Command: "tenant close", Args: []string{"tenant"}},
	{Command: "tenant operator", Args: []string{"tenant"}, Flags: []string{"off"}},
	{Command: "tenant payout-fee", Args: []string{"tenant"}, Flags: []string{"by"}},
	{Command: "tenant end-sessions", Args: []string{"tenant"}, Flags: []string{"member"}},
	{Command: "tenant rotate-secret", Args: []string{"tenant"}},
	{Command: "tenant reset-totp", Args: []string{"tenant", "member"}},
	{Command: "tenant revoke-key", Args: []string{"tenant", "key"}},
	{Command: "tenant limits set", Args: []string{"tenant"}, Flags: []string{"max-transfer", "max-account-day", "max-tenant-day", "from"}},
	{Command: "tenant limits tier", Args: []string{"tenant"}, Flags: []string{"tier", "max-deposit", "max-day", "max-balance", "from"}},
	{Command: "tenant policy set", Args: []string{"tenant"}, Flags: []string{"approvals", "above", "day-above", "wait-hours"}},
	{Command: "prices set", Flags: []string{"tenant", "on", "percent", "flat", "minimum", "cap", "from", "as-listed"}},
	{Command: "customers approve", Args: []string{"customer"}, Flags: []string{"as-of"}},
	{Command: "customers reject", Args: []string{"customer"}, Flags: []string{"as-of"}},
	{Command: "customers suspend", Args: []string{"customer"}},
	{Command: "customers activate", Args: []string{"customer"}},
	{Command: "customers tier", Args: []string{"customer", "tier"}},
	{Command: "accounts close", Args: []string{"account"}},
	{Command: "accounts release", Args: []string{"hold"}},
	{Command: "reconcile dismiss", Args: []string{"transaction"}},
	{Command: "work retry", Args: []string{"id"}, Flags: []string{"kind"}},
}

// Excuses say why a change of the command line is none of the console's.
var Excuses = map[string]string{
	"operator add":      "who may log in here is not decided by those who have",
	"operator reset":    "who may log in here is not decided by those who have",
	"operator remove":   "who may log in here is not decided by those who have",
	"archive run":       "for the machine's operators: it moves a partition",
	"archive restore":   "for the machine's operators: it moves a partition",
	"archive export":    "for the machine's operators: it copies many rows",
	"tenant login-link": "it opens a tenant's dashboard as its owner: only for who has the machine",
	"rekey":             "needs the keys that the machine's operators are changing",
	"wallet move":       "for the machine's operators, who have stopped all roles",
}

func dashed(command string) string { return strings.ReplaceAll(command, " ", "-") }

func (r Read) run(c *Console, q *request) (any, error) {
	call := Call{Command: r.Command, Flags: map[string]string{}}
	query := q.http.URL.Query()
	given := map[string]string{}
	for name, values := range query {
		if len(values) != 1 {
			return nil, errParameters
		}
		given[name] = values[0]
	}
	var err error
	if call.Args, call.Flags, err = split(given, r.Args, r.Flags, false); err != nil {
		return nil, err
	}
	out, err := c.Run(q.http.Context(), call) // it has readTime
	return json.RawMessage(out.JSON), err
}

// acted is the body of an action.
type acted struct {
	Values map[string]string `json:"values"` // arguments and flags by their names
	Reason string            `json:"reason"`
	Saw    string            `json:"saw"` // the sentence that was shown; "": nothing is done, and it is the answer
}

// run shows what an action will do and, for whoever has seen that, does it. A change that has begun
// does not end with the request, but is refused if the operator's session has ended by the time
// that it is recorded.
func (a Action) run(c *Console, q *request) (any, error) {
	var in acted
	if err := q.decode(&in); err != nil {
		return nil, err
	}
	by := audit.Console(q.operator.Name, in.Reason, q.from).While(c.Operators.Standing(token(q.http)))
	call := Call{Command: a.Command, By: by, Saw: in.Saw}
	var err error
	if call.Args, call.Flags, err = split(in.Values, a.Args, a.Flags, a.More); err != nil {
		return nil, err
	}
	if call.Saw != "" {
		if err := call.By.Check(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(q.http.Context()), actTime)
	defer cancel()
	return c.Run(ctx, call)
}

// split sorts values by their names into arguments and flags. A name that neither has is refused;
// empty flags are left out.
func split(given map[string]string, names, flags []string, more bool) ([]string, map[string]string, error) {
	args, set := make([]string, 0, len(names)), map[string]string{}
	for name, v := range given {
		switch {
		case slices.Contains(flags, name):
			if v != "" {
				set[name] = v
			}
		case !slices.Contains(names, name):
			return nil, nil, errParameters
		}
	}
	for i, name := range names {
		v := strings.TrimSpace(given[name])
		switch {
		case more && i == len(names)-1:
			args = append(args, strings.Fields(v)...)
		case v != "":
			args = append(args, v)
		}
	}
	return args, set, nil
}
