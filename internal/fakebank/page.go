package fakebank

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"
)

var (
	//go:embed page.html
	pageText string
	//go:embed style.css
	styleText []byte

	controlPage = template.Must(template.New("page").Funcs(template.FuncMap{"when": when}).Parse(pageText))
)

// pageRows is the most rows that a table of the page shows.
const pageRows = 50

// pageView is what the control page shows.
type pageView struct {
	Done, Error string
	Query       string

	Wallet      string
	WebhookURL  string
	PayoutDelay string
	Down        Down
	Rules       []Rule
	Groups      []Group
	Actions     []Action
	Presets     []preset

	Accounts     []Account
	MoreAccounts int
	Transactions []transactionRow
	Payouts      []Payout
	Now          time.Time
}

// Expired tells the page whether an account takes payments.
func (v pageView) Expired(a Account) bool { return a.Expired(v.Now) }

// transactionRow is a transaction beside its latest webhook.
type transactionRow struct {
	Transaction
	Hook *Webhook
}

// preset is a rule that the page offers as one button.
type preset struct {
	Label string
	Rule  Rule
	Delay string
}

var presets = []preset{
	{Label: "Everything takes 3 s", Rule: Rule{On: OnAll, Do: Slow}, Delay: "3s"},
	{Label: "A quarter of all calls answer 500", Rule: Rule{On: OnAll, Do: Fail, Percent: 25}},
	{Label: "Next payout: accepted, then the line is cut", Rule: Rule{On: OnPayouts, Do: DropAfter, Next: 1}},
	{Label: "Next payout: refused", Rule: Rule{On: OnPayouts, Do: Reject, Next: 1}},
	{Label: "Next payout: 201 PROCESSING for 20 s", Rule: Rule{On: OnPayouts, Do: Processing, Next: 1}, Delay: "20s"},
	{Label: "Next payout: fails after 10 s", Rule: Rule{On: OnPayouts, Do: FailLater, Next: 1}, Delay: "10s"},
	{Label: "Next payout: refunded after 10 s", Rule: Rule{On: OnPayouts, Do: Refund, Next: 1}, Delay: "10s"},
	{Label: "Transactions: not found", Rule: Rule{On: OnTransactions, Do: NotFound}},
	{Label: "Transactions: one naira too much", Rule: Rule{On: OnTransactions, Do: AlterAmount}},
	{Label: "Transactions: somebody else's record", Rule: Rule{On: OnTransactions, Do: WrongRecord}},
	{Label: "Webhooks: never sent", Rule: Rule{On: OnWebhooks, Do: Missing}},
	{Label: "Webhooks: sent twice", Rule: Rule{On: OnWebhooks, Do: Again}},
	{Label: "Webhooks: twice, under two ids", Rule: Rule{On: OnWebhooks, Do: AgainNewID}},
	{Label: "Webhooks: badly signed", Rule: Rule{On: OnWebhooks, Do: BadSignature}},
	{Label: "Webhooks: 30 s late", Rule: Rule{On: OnWebhooks, Do: Late}, Delay: "30s"},
	{Label: "NIN checks: down", Rule: Rule{On: OnNIN, Do: Fail, Status: 503}},
}

// servePage serves GET /.
func (b *Bank) servePage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v := pageView{
		Done: q.Get("done"), Error: q.Get("error"), Query: q.Get("q"), Wallet: b.Wallet().Grouped(),
		WebhookURL: *b.hooks.url.Load(), PayoutDelay: time.Duration(b.delay.Load()).String(),
		Down: b.Faults.Down(), Rules: b.Faults.Rules(), Groups: Groups, Presets: presets, Now: b.now(),
	}
	for a := range actions {
		v.Actions = append(v.Actions, a)
	}
	slices.Sort(v.Actions)
	v.Accounts, v.MoreAccounts = b.pageAccounts(v.Query)
	for _, t := range lastFirst(b.Transactions()) {
		row := transactionRow{Transaction: t}
		if h, ok := b.WebhookFor(t.ID); ok {
			row.Hook = &h
		}
		v.Transactions = append(v.Transactions, row)
	}
	v.Payouts = lastFirst(b.Payouts())

	var buf bytes.Buffer
	if err := controlPage.Execute(&buf, v); err != nil {
		b.log.Error("control page", "error", err)
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(buf.Bytes())
}

// pageAccounts are the newest accounts that match a search, and how many more there are.
func (b *Bank) pageAccounts(query string) ([]Account, int) {
	all := b.Accounts()
	if query != "" {
		all = slices.DeleteFunc(all, func(a Account) bool {
			return !strings.Contains(strings.ToLower(a.Ref+" "+a.NUBAN+" "+a.Name), strings.ToLower(query))
		})
	}
	return lastFirst(all), max(0, len(all)-pageRows)
}

// lastFirst is what a table shows of a list: the newest rows, newest first.
func lastFirst[T any](list []T) []T {
	list = slices.Clone(newest(list, pageRows))
	slices.Reverse(list)
	return list
}

func serveStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write(styleText)
}

// when prints a time for people, in UTC.
func when(t time.Time) string { return t.UTC().Format("2 Jan 15:04:05") }
