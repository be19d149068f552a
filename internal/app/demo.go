package app

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"ajo/api/client"
	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/config"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/tenant"
)

const (
	demoRef      = "demo-customer-1"
	demoEmail    = "demo@tenant.example"
	demoPassword = "demo-password"
	demoTimeout  = 2 * time.Minute // on a machine that has just started everything
)

// demo signs the demo tenant up through the API, as a developer would, and sends one payment
// through the whole chain: the signed event of the fake bank, posting, the signed webhook to a
// receiver here, and the confirmation.
func (d *devRun) demo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	received, url, stop, err := d.receiver()
	if err != nil {
		return err
	}
	d.stops = append(d.stops, stop)
	if err := d.signIn(ctx); err != nil {
		return err
	}
	if err := d.call(ctx, http.MethodPost, "/auth/webhook-url", map[string]string{"url": url}, nil); err != nil {
		return err
	}
	var sec struct {
		WebhookSecret string `json:"webhookSecret"`
	}
	if err := d.call(ctx, http.MethodPost, "/auth/webhook-secret", nil, &sec); err != nil {
		return err
	}
	var account struct{ ID, BankAccountNumber, BankAccountName, BankName string }
	if err := d.call(ctx, http.MethodPost, "/v1/accounts", map[string]string{"externalRef": demoRef, "name": "Ada Obi"}, &account); err != nil {
		return err
	}
	d.say("  virtual account %s (%s, %s) for customer %s", account.BankAccountNumber, account.BankName, account.BankAccountName, demoRef)
	d.nuban = account.BankAccountNumber
	return d.pay(ctx, sec.WebhookSecret, received)
}

// pay sends the demo payment and follows it.
func (d *devRun) pay(ctx context.Context, webhookSecret string, received <-chan hook) error {
	pool, err := pg.Open(ctx, d.cfg.DatabaseURL.Reveal(), 2)
	for try := 1; err != nil && try < 5; try++ { // it runs, and may be kept waiting for a processor
		pool, err = pg.Open(ctx, d.cfg.DatabaseURL.Reveal(), 2)
	}
	if err != nil {
		return err
	}
	defer pool.Close()
	d.say("\nA payer sends NGN 5000.00 to %s:", d.nuban)
	begin := time.Now()
	txn, _, err := fakebank.Remote{URL: d.bankURL}.Pay(ctx, fakebank.Payment{NUBAN: d.nuban, Amount: money.Must("5000.00"), SenderName: "Bola Ade", Narration: "school fees"})
	if err != nil {
		return err
	}
	step := func(at time.Time, format string, args ...any) {
		d.say("  %8s  %s", at.Sub(begin).Round(100*time.Microsecond), fmt.Sprintf(format, args...))
	}
	at := func(what, sql string) (time.Time, error) { return waitFor(ctx, pool, what, sql, txn.ID) }
	stored, err := at("stored", `SELECT received_at FROM inbound_events WHERE id = (SELECT event_id FROM event_keys WHERE transaction = event_key($1))`)
	if err != nil {
		return err
	}
	step(stored, "event stored: the bank's signed webhook, transaction %s", txn.ID)
	posted, err := at("posted", `SELECT processed_at FROM inbound_events WHERE id = (SELECT event_id FROM event_keys WHERE transaction = event_key($1)) AND status = 'processed'`)
	if err != nil {
		return err
	}
	step(posted, "posted: a provisional credit of 4975.00 (5000.00 less the bank's fee of 25.00)")
	select {
	case h := <-received:
		if _, err := client.VerifyWebhook(h.header, h.body, webhookSecret, client.Tolerance); err != nil {
			return fmt.Errorf("the delivery: %w", err)
		}
		step(h.at, "delivered: payment.received to the tenant's endpoint, its signature checked there")
	case <-ctx.Done():
		return fmt.Errorf("no delivery came in %s", demoTimeout)
	}
	if _, err := at("confirmed", `SELECT now() FROM ledger_entries WHERE provider_txn_ref = $1 AND status = 'confirmed'`); err != nil {
		return err
	}
	step(time.Now(), "confirmed against the bank's own record")
	var balance struct {
		Balance money.Amount `json:"balance"`
	}
	if err := d.call(ctx, http.MethodGet, "/v1/accounts/"+demoRef+"/balance", nil, &balance); err != nil {
		return err
	}
	d.say("  balance of %s: NGN %s", demoRef, balance.Balance)
	return nil
}

// waitFor repeats the query until it returns a row, whose value is a time.
func waitFor(ctx context.Context, pool *pg.Pool, what, sql, txn string) (time.Time, error) {
	for {
		var t time.Time
		err := pool.QueryRow(ctx, sql, txn).Scan(&t)
		if err == nil {
			return t, nil
		}
		if !pg.IsNoRows(err) {
			return t, err
		}
		if clock.Sleep(ctx, 10*time.Millisecond) != nil {
			return t, fmt.Errorf("the payment was not %s in %s", what, demoTimeout)
		}
	}
}

// hook is a delivery as the demo's endpoint received it.
type hook struct {
	at     time.Time
	header http.Header
	body   []byte
}

// receiver is the tenant's endpoint. It answers every call, also those that it has no room to keep.
func (d *devRun) receiver() (<-chan hook, string, func(), error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, err
	}
	hooks := make(chan hook, 16)
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		select {
		case hooks <- hook{at: time.Now(), header: r.Header, body: body}:
		default:
		}
	})}
	go func() { _ = server.Serve(l) }()
	return hooks, "http://" + l.Addr().String() + "/hook", func() { _ = server.Close() }, nil
}

// signIn uses the demo tenant's key from an earlier run, or signs the tenant up.
func (d *devRun) signIn(ctx context.Context) error {
	path := filepath.Join(d.Dir, "demo-key")
	b, err := os.ReadFile(path)
	if err == nil {
		d.key = secret.Redact(strings.TrimSpace(string(b)))
		if err = d.call(ctx, http.MethodGet, "/v1/accounts", nil, nil); err == nil {
			d.say("  the demo tenant of the earlier run is here")
			return nil
		}
		d.key = secret.Redact("")
	}
	// nobody is mailed a code for an address that has a tenant
	if there, failed := d.isThere(ctx); failed != nil {
		return failed
	} else if there {
		return fmt.Errorf("%s does not open the demo tenant: %w; if its key was replaced, write the new one into that file", path, err)
	}
	key, err := SignUp(ctx, d.api.URL, d.cfg.MailDir, "Demo tenant", demoEmail, demoPassword)
	if err != nil {
		return err
	}
	d.key = secret.Redact(key)
	d.say("  demo tenant signed up: %s", demoEmail)
	return os.WriteFile(path, []byte(key+"\n"), 0o600)
}

// isThere reports whether the demo tenant has been signed up.
func (d *devRun) isThere(ctx context.Context) (bool, error) {
	tools, err := d.tools(ctx)
	if err != nil {
		return false, err
	}
	defer tools.Close()
	if _, err = tools.Tenants.Find(ctx, demoEmail); errors.Is(err, tenant.ErrNotFound) || errors.Is(err, tenant.ErrPending) {
		return false, nil
	}
	return err == nil, err
}

// tools are an operator's, of the database alone.
func (d *devRun) tools(ctx context.Context) (*Tools, error) {
	cfg := config.Config{DatabaseURL: d.cfg.DatabaseURL, ConfirmDelays: d.cfg.ConfirmDelays, SettleRechecks: d.cfg.SettleRechecks}
	return OpenTools(ctx, ToolSettings{Config: cfg, Log: d.log})
}

// SignUp registers a tenant through the API at url, as a developer would, with the one-time code
// from the e-mail in the folder mails, and returns its API key.
func SignUp(ctx context.Context, url, mails, name, email, password string) (key string, err error) {
	api, err := client.New(client.Options{URL: url})
	if err != nil {
		return "", err
	}
	begin := time.Now()
	var registered struct{ TenantID string }
	if err := api.Do(ctx, http.MethodPost, "/register", map[string]string{"name": name, "email": email, "password": password}, &registered); err != nil {
		return "", err
	}
	code, err := codeFromMail(ctx, mails, email, begin)
	if err != nil {
		return "", err
	}
	var verified struct{ APIKey string }
	err = api.Do(ctx, http.MethodPost, "/auth/verify-email", map[string]string{"tenantId": registered.TenantID, "otp": code}, &verified)
	return verified.APIKey, err
}

var codeForm = regexp.MustCompile(`\b[0-9]{6}\b`)

// codeFromMail waits for an e-mail to that address in the folder, and reads its one-time code.
func codeFromMail(ctx context.Context, mails, email string, since time.Time) (string, error) {
	for {
		files, err := filepath.Glob(filepath.Join(mails, "*.eml"))
		if err != nil {
			return "", err
		}
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil || info.ModTime().Before(since.Add(-time.Second)) {
				continue
			}
			b, err := os.ReadFile(f)
			_, text, _ := bytes.Cut(b, []byte("\r\n\r\n"))
			if code := codeForm.Find(text); err == nil && code != nil && bytes.Contains(b, []byte(email)) {
				return string(code), nil
			}
		}
		if clock.Sleep(ctx, 20*time.Millisecond) != nil {
			return "", fmt.Errorf("no mail with a code came to %s", mails)
		}
	}
}

// call makes a request to the API with the demo tenant's key.
func (d *devRun) call(ctx context.Context, method, path string, body, into any) error {
	api, err := client.New(client.Options{URL: d.api.URL, Key: d.key.Reveal()})
	if err != nil {
		return err
	}
	return api.Do(ctx, method, path, body, into)
}

// makeLink makes the link at the end of the summary, as an operator would.
func (d *devRun) makeLink(ctx context.Context) error {
	tools, err := d.tools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	demo, err := tools.Tenants.Find(ctx, demoEmail)
	if err != nil {
		return err
	}
	token, _, err := tools.Tenants.LoginLink(ctx, demo.ID, audit.By{Actor: "ajo dev", Reason: "the demo tenant's dashboard"})
	if err == nil {
		d.link = DashboardLink(d.api.URL, token)
	}
	return err
}

// summary prints the addresses, and commands to try.
func (d *devRun) summary() {
	key, to := cmp.Or(d.key.Reveal(), "<key>"), ""
	if d.nuban != "" {
		to = " --nuban " + d.nuban
	}
	d.say(`
Everything is running. Ctrl-C stops it; the next run finds its data again.
  API        %s
  Dashboard  %s/dashboard
  Docs       %s/docs
  Fake bank  %s/  (play a payer, switch faults on)
  Console    %s/console  (for operators; make an account: bin/ajo operator add ada --role operator --reason …)
  Queues     %s/queues/  (user %s, password %s)
  Metrics    %s/metrics
  Mail       %s
  Demo key   %s
  Test mode  on: switch the dashboard to it, or send X-Ajo-Mode: test with POST /auth/keys for an ajo_test_ key

Try:
  curl -H 'X-API-Key: %s' %s/v1/accounts/%s/statement
  bin/ajo trigger payment%s --amount 1250 --sender You
  bin/ajo events list      (operators' commands work in this folder while this runs; bin/ajo --help)
  curl -H 'X-API-Key: %s' %s/v1/accounts/%s/balance
  AJO_PASSWORD=%s bin/ajo listen --email %s --api %s --forward-to http://127.0.0.1:3000/hook

The dashboard, signed in as the demo tenant (the link works once, for %d minutes; then log in as %s with the password %s):
  %s`,
		d.api.URL, d.api.URL, d.api.URL, d.bankURL, d.ops.URL, d.ops.URL, d.cfg.OpsUser, d.cfg.OpsPassword.Reveal(), d.ops.URL, d.cfg.MailDir, key,
		key, d.api.URL, demoRef, to, key, d.api.URL, demoRef, demoPassword, demoEmail, d.api.URL,
		int(tenant.LoginLinkLife.Minutes()), demoEmail, demoPassword, cmp.Or(d.link, "(no link: see above)"))
}
