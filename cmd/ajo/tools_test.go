package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/config"
	"ajo/internal/fakebank"
	"ajo/internal/freeze"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/secret"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// ops is an operator's desk: a database with one tenant and its account, and the commands.
type ops struct {
	*testenv.Env
	ctx      context.Context
	env      map[string]string
	bank     *fakebank.Bank // signs events; it is not asked
	payments *payment.Service
	tenant   uuid.UUID
	account  uuid.UUID
	oldKey   string // in AJO_ENCRYPTION_KEYS behind the one that seals
}

func setup(t *testing.T) *ops {
	t.Helper()
	t.Parallel()
	e := testenv.New(t)
	e.Redis()
	o := &ops{Env: e, ctx: context.Background(), bank: fakebank.New(fakebank.Options{Clock: e.Clock}), tenant: e.Tenant()}
	o.account = e.Account(o.tenant, "customer-1")
	o.oldKey = secret.NewKey("old").Reveal()
	o.env = map[string]string{
		"AJO_DATABASE_URL": e.DatabaseURL, "AJO_REDIS_URL": e.RedisURL, "AJO_ENCRYPTION_KEYS": secret.NewKey("test").Reveal() + "," + o.oldKey,
	}
	o.payments = payment.New(payment.Options{
		Pool: e.Pool, Clock: e.Clock, Log: slog.New(slog.DiscardHandler), WebhookSecret: secret.Redact(fakebank.DefaultWebhookSecret),
		ConfirmDelays: config.Defaults().ConfirmDelays,
	})
	t.Cleanup(o.payments.Close)
	return o
}

// terminal is a person who types what the reader has.
type terminal struct{ io.Reader }

func (terminal) IsTerminal() bool { return true }

func types(s string) terminal { return terminal{strings.NewReader(s)} }

// run runs a command without a terminal, as a script does.
func (o *ops) run(args ...string) (stdout, stderr string, err error) {
	return o.runWith(strings.NewReader(""), args...)
}

func (o *ops) runWith(in io.Reader, args ...string) (stdout, stderr string, err error) {
	root := &cobra.Command{Use: "ajo", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newToolCmds(func(name string) string { return o.env[name] })...)
	var out bytes.Buffer
	var complaints testenv.Log // go-redis, whose logger is the process's, may write here later
	redisIsAway := o.env["AJO_REDIS_URL"] == away
	root.SetIn(in)
	root.SetOut(&out)
	root.SetErr(&complaints)
	root.SetArgs(args)
	err = root.ExecuteContext(o.ctx)
	said := complaints.String()
	if !redisIsAway { // another test's may be, and go-redis says so to the command that began last
		said = redisLines.ReplaceAllString(said, "")
	}
	return out.String(), said, err
}

// away is a Redis that is not there.
const away = "redis://127.0.0.1:1"

// redisLines are those of go-redis, in both forms of the log.
var redisLines = regexp.MustCompile(`(?:[0-9:.]{12} WARN  "?redis: |\{"time":"[^"]+","level":"WARN","msg":"redis: ).*\n`)

// good runs a command that must succeed, and returns what it printed.
func (o *ops) good(args ...string) string {
	o.T.Helper()
	out, _, err := o.run(args...)
	require.NoError(o.T, err, "%v", args)
	return out
}

// decode runs a command with --json and reads its output.
func decode[T any](o *ops, args ...string) T {
	o.T.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(o.good(append(args, "--json")...)))
	d.DisallowUnknownFields()
	require.NoError(o.T, d.Decode(&v))
	require.False(o.T, d.More())
	return v
}

var masks = []struct {
	form *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<id>"},
	{regexp.MustCompile(`AJ[OR][0-9a-f]{32}`), "<ref>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "<time>"},
	{regexp.MustCompile(`\b\d+d\d+h\b`), "<age>"},
	{regexp.MustCompile(`\b\d{10}\b`), "<number>"},
	{regexp.MustCompile(` {2,}`), "  "},
	{regexp.MustCompile(`(?m) +$`), ""},
}

// masked replaces what differs from run to run, and makes the columns' gaps equal.
func masked(s string) string {
	for _, m := range masks {
		s = m.form.ReplaceAllString(s, m.with)
	}
	return s
}

// golden compares masked output with the lines of want.
func golden(t testing.TB, want, got string) {
	t.Helper()
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(want), "\n") {
		lines = append(lines, strings.TrimSpace(line))
	}
	require.Equal(t, strings.Join(lines, "\n"), strings.TrimSpace(masked(got)))
}

// audited returns what was done by hand, newest first.
func (o *ops) audited() []audit.Record {
	o.T.Helper()
	list, _, err := audit.List(o.ctx, o.Pool, audit.Filter{}, page.Request{Limit: 100})
	require.NoError(o.T, err)
	return list
}

// lastAudit checks that the newest record is of this.
func (o *ops) lastAudit(action, target, reason string) {
	o.T.Helper()
	o.lastAuditBy("cli:"+osUser(), action, target, reason)
}

func (o *ops) lastAuditBy(actor, action, target, reason string) {
	o.T.Helper()
	list := o.audited()
	require.NotEmpty(o.T, list)
	require.Equal(o.T, []string{actor, action, target, reason}, []string{list[0].Actor, list[0].Action, list[0].Target, list[0].Reason})
}

// event stores and posts a payment of 5,000.00 to the account with that reference.
func (o *ops) event(ref string) uuid.UUID {
	o.T.Helper()
	id := o.received(ref)
	_, err := o.payments.Post(o.ctx, id)
	require.NoError(o.T, err)
	return id
}

// received stores such a payment.
func (o *ops) received(ref string) uuid.UUID {
	o.T.Helper()
	body := o.bank.EventFor(fakebank.Transaction{
		ID: "API-VACT_TRA-" + uuid.NewString(), RequestID: uuid.NewString(), Status: "SUCCESS", AccountRef: ref, Amount: money.Must("5000.00"),
		Fee: money.Must("25.00"), Currency: "NGN", SenderName: "Bola Ade", Narration: "rent", Time: o.Clock.Now(),
	})
	h, err := o.bank.SignedHeaders(body)
	require.NoError(o.T, err)
	r, err := o.payments.Receive(o.ctx, payment.InboundRequest{Body: body, Signature: h.Get(fakebank.DefaultSignatureHeader), Timestamp: h.Get(fakebank.DefaultTimestampHeader)})
	require.NoError(o.T, err)
	return r.ID
}

// held is a payment under review.
func (o *ops) held(why string) uuid.UUID {
	o.T.Helper()
	id := o.event(o.account.String())
	o.move(id, ledger.Credit, ledger.EventHold)
	o.Exec(`DELETE FROM work WHERE id = $1`, id)
	o.Exec(`UPDATE inbound_events SET last_error = $2 WHERE id = $1`, id, why)
	return id
}

// confirmed is a payment that the bank has confirmed.
func (o *ops) confirmed() uuid.UUID {
	o.T.Helper()
	id := o.event(o.account.String())
	o.move(id, ledger.Credit, ledger.EventConfirm)
	o.Exec(`DELETE FROM work WHERE id = $1`, id)
	return id
}

// recalled is a confirmed payment that the bank may have taken back.
func (o *ops) recalled() uuid.UUID {
	o.T.Helper()
	id := o.confirmed()
	opened, err := o.payments.OpenRecall(o.ctx, testenv.Value[string](o.Env, `SELECT provider_txn_ref FROM inbound_events WHERE id = $1`, id), payment.RecallByEvent)
	require.NoError(o.T, err)
	require.Equal(o.T, id, opened)
	return id
}

// holdOfLimit is an open hold of a naira of a confirmed payment, by a limit.
func (o *ops) holdOfLimit() uuid.UUID {
	o.T.Helper()
	id := uuid.Must(uuid.NewV7())
	o.Exec(`INSERT INTO holds (id, tenant_id, account_id, amount, reason, source, entry_id, status, created_at)
		SELECT $1, tenant_id, account_id, 1, 'maxDeposit of tier 1: NGN 1.00', 'limit', id, 'open', now() FROM ledger_entries WHERE transaction_group_id = $2`, id, o.confirmed())
	o.Exec(`UPDATE ledger_balances SET held = 1, held_over = 1, held_provisional = 0 WHERE account_id = $1`, o.account)
	return id
}

// move moves the entry of a group.
func (o *ops) move(group uuid.UUID, d ledger.Direction, e ledger.Event) {
	o.T.Helper()
	o.Move(ledger.Move{TransactionGroupID: group, Direction: d, Event: e})
}

func (o *ops) tx(fn func(pg.Tx) error) {
	o.T.Helper()
	require.NoError(o.T, pg.InTx(o.ctx, o.Pool, fn))
}

// booksAgree checks the whole book.
func (o *ops) booksAgree() {
	o.T.Helper()
	testenv.FindsNothing(o.T, o.Pool, ledger.Verify)
}

// Every command that changes something, with its arguments; none must do anything unasked or
// without a reason.
func (o *ops) changes() map[string][]string {
	o.T.Helper()
	c := openCounter(o.Env, o.bank, o.account)
	bankSettings(o.env, o.bank.URL())
	poll, _ := o.transfer("processing")
	resolve, _ := o.transfer("processing")
	charges, _ := o.transfer("processing")
	o.good("transfers", "resolve", charges, "--paid", "--yes", "--reason", "the bank's letter")
	cancel, waiting := o.transfer("pending")
	o.Exec(`UPDATE transfers SET attempt_count = 0, submitted_at = NULL WHERE id = $1`, waiting)
	_, err := c.client.Pay(o.ctx, provider.NewPayout{Ref: "BY-HAND-7", Amount: money.Must("5.00"), BankCode: "058", AccountNumber: "0123456789", AccountName: "AMINA BELLO", SenderName: "Ada Stores", Narration: "rent"})
	require.NoError(o.T, err)
	o.Exec(`INSERT INTO reconcile_items (id, kind, ref, exception, found_at, due_at)
		VALUES (gen_random_uuid(), 'payment', 'T-1', '{"kind": "unknown_at_bank", "detail": "the bank does not know it"}', now(), now() + interval '1 day')`)
	suspended, ended, restore, run := o.Tenant(), o.Tenant(), o.archived(), o.emptyPartition()
	o.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = ANY($1)`, []uuid.UUID{suspended, ended})
	lift := decode[freeze.Freeze](o, "freeze", "tenant", suspended.String(), "--yes", "--reason", "a leaked key").ID
	o.sealBVN(o.oldKey)
	return map[string][]string{
		"review confirm":       {"review", "confirm", o.held("differs").String()},
		"review reverse":       {"review", "reverse", o.held("differs").String()},
		"review correct":       {"review", "correct", o.held("differs").String(), "--amount", "5000.00", "--fee", "10.00"},
		"review restore":       {"review", "restore", c.takenBack(c.txn).String()},
		"review sender":        {"review", "sender", c.posted(c.paid(), ledger.EventConfirm).String()},
		"recalls open":         {"recalls", "open", o.confirmed().String()},
		"recalls reverse":      {"recalls", "reverse", o.recalled().String()},
		"recalls keep":         {"recalls", "keep", o.recalled().String()},
		"events assign":        {"events", "assign", o.event("nobody").String(), "--account", o.account.String()},
		"events repost":        {"events", "repost", c.unposted(c.paid()).String()},
		"events refund":        {"events", "refund", c.misdirected(c.paid()).String()},
		"deliveries replay":    {"deliveries", "replay", o.deadLetter().String()},
		"transfers poll":       {"transfers", "poll", poll},
		"transfers cancel":     {"transfers", "cancel", cancel},
		"transfers resolve":    {"transfers", "resolve", resolve, "--paid"},
		"transfers charges":    {"transfers", "charges", charges, "--fee", "20.00"},
		"transfers adopt":      {"transfers", "adopt", "BY-HAND-7", "--account", o.account.String()},
		"freeze account":       {"freeze", "account", o.account.String(), "--all"},
		"freeze tenant":        {"freeze", "tenant", o.tenant.String(), "--until", "2h"},
		"freeze payouts":       {"freeze", "payouts"},
		"freeze lift":          {"freeze", "lift", lift.String()},
		"tenant suspend":       {"tenant", "suspend", o.tenant.String()},
		"tenant activate":      {"tenant", "activate", suspended.String()},
		"tenant end-sessions":  {"tenant", "end-sessions", o.tenant.String()},
		"tenant operator":      {"tenant", "operator", o.tenant.String()},
		"tenant payout-fee":    {"tenant", "payout-fee", o.tenant.String(), "--by", "tenant"},
		"tenant rotate-secret": {"tenant", "rotate-secret", o.tenant.String()},
		"tenant reset-totp":    {"tenant", "reset-totp", o.tenant.String(), o.withTOTP()},
		"tenant revoke-key":    {"tenant", "revoke-key", o.tenant.String(), o.apiKey().String()},
		"tenant limits set":    {"tenant", "limits", "set", o.tenant.String(), "--max-transfer", "500"},
		"tenant policy set":    {"tenant", "policy", "set", o.tenant.String(), "--approvals", "2", "--above", "500"},
		"tenant limits tier":   {"tenant", "limits", "tier", o.tenant.String(), "--tier", "1", "--max-deposit", "50000"},
		"prices set":           {"prices", "set", "--on", "payout", "--flat", "10"},
		"tenant close":         {"tenant", "close", ended.String()},
		"customers tier":       {"customers", "tier", o.customerIn("approved"), "3"},
		"customers approve":    {"customers", "approve", o.customerIn("pending_review")},
		"customers reject":     {"customers", "reject", o.customerIn("pending_review")},
		"customers suspend":    {"customers", "suspend", o.customerIn("none")},
		"customers activate":   {"customers", "activate", o.suspendedCustomer()},
		"accounts close":       {"accounts", "close", o.unfinished().String()},
		"reconcile dismiss":    {"reconcile", "dismiss", "T-1"},
		"archive run":          {"archive", "run", run},
		"archive restore":      {"archive", "restore", restore},
		"archive export":       {"archive", "export", "deliveries", "--from", "2026-10-10", "--to", "2026-10-11"},
		"accounts release":     {"accounts", "release", o.holdOfLimit().String()},
		"work retry":           {"work", "retry", o.failing().String()},
		"operator add":         {"operator", "add", "bola", "--role", "operator"},
		"operator reset":       {"operator", "reset", o.operator("chidi")},
		"operator remove":      {"operator", "remove", o.operator("dayo")},
		"wallet move":          {"wallet", "move", fakebank.DefaultAccountID, "--host", "127.0.0.1"},
		"rekey":                {"rekey"},
	}
}

// unaskedChanges write to the audit log and ask for no confirmation.
var unaskedChanges = []string{
	"tenant login-link", // nothing is lost by a link that nobody uses
}

// reading are the commands that change nothing by themselves.
var reading = []string{
	"transfers list", "transfers show", "freeze list", "review list", "review show", "operator list", "recalls list", "events list", "events show", "accounts find", "accounts dormant", "deliveries list", "deliveries show",
	"tenant list", "tenant show", "tenant keys", "tenant members", "tenant beneficiaries", "tenant limits show", "tenant policy show", "prices list", "customers review", "customers show", "ledger verify", "ledger trial-balance", "ledger statement",
	"accounts holds",
	"reconcile", // posts what the bank has, as the workers do
	"reconcile list", "reconcile show", "reconcile open", "audit list", "work list", "work show", "archive list", "archive show", "archive verify", "status",
}

// leaves are the operators' commands that do something, by their names.
func leaves() map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	var walk func(cmd *cobra.Command, name string)
	walk = func(cmd *cobra.Command, name string) {
		if !cmd.HasSubCommands() || cmd.Flags().HasFlags() {
			all[name] = cmd
		}
		for _, sub := range cmd.Commands() {
			walk(sub, name+" "+sub.Name())
		}
	}
	for _, cmd := range newToolCmds(os.Getenv) {
		walk(cmd, cmd.Name())
	}
	return all
}

// A command is one that changes something, which TestChangesAreAsked then runs, or is said here to
// change nothing.
func requireAllChanges(t *testing.T, changes map[string][]string) {
	t.Helper()
	var asked, unasked, others []string
	for name, cmd := range leaves() {
		switch {
		case cmd.Flags().Lookup("reason") == nil:
			others = append(others, name)
		case cmd.Flags().Lookup("yes") == nil:
			unasked = append(unasked, name)
		default:
			asked = append(asked, name)
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(changes)), asked)
	require.ElementsMatch(t, unaskedChanges, unasked)
	require.ElementsMatch(t, reading, others)
}

// withTOTP gives the tenant's owner a second factor, and returns its e-mail.
func (o *ops) withTOTP() string {
	box, err := secret.ParseKeys(o.oldKey)
	require.NoError(o.T, err)
	sealed := box.Seal(secret.Place{Table: "members", Column: "totp_secret", Row: o.tenant.String()}, []byte("JBSWY3DPEHPK3PXP"))
	o.Exec(`UPDATE members SET totp_secret = $2, totp_confirmed_at = now(), totp_last_step = 1 WHERE tenant_id = $1`, o.tenant, sealed)
	return o.tenant.String() + "@tenant.example"
}

// operator makes an account for the console, which nobody has set up yet, and returns its name.
func (o *ops) operator(name string) string {
	o.T.Helper()
	o.Exec(`INSERT INTO operators (id, name, role, created_at) VALUES ($1, $2, 'viewer', now())`, uuid.Must(uuid.NewV7()), name)
	return name
}

// apiKey is a key of the tenant that may read accounts.
func (o *ops) apiKey() uuid.UUID {
	o.T.Helper()
	id := uuid.Must(uuid.NewV7())
	o.Exec(`INSERT INTO api_keys (id, tenant_id, main, name, hash, suffix, scopes, networks, created_at)
		VALUES ($1, $2, false, 'Reader', sha256($3), '…4fQ7', '{accounts:read}', '{192.0.2.0/24}', now())`, id, o.tenant, id[:])
	return id
}

// unfinished is an account whose provisioning has failed.
func (o *ops) unfinished() uuid.UUID {
	o.T.Helper()
	return testenv.Value[uuid.UUID](o.Env, `
		INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_name, status, type, last_error, created_at, updated_at)
		SELECT gen_random_uuid(), tenant_id, customer_id, 'abandoned', provider, bank_account_name, 'provisioning', 'dedicated', 'no answer', now(), now()
		FROM accounts WHERE id = $1 RETURNING id`, o.account)
}

// failing is an event that nobody could post for a reason that nobody expected.
func (o *ops) failing() uuid.UUID {
	o.T.Helper()
	id := o.received("nobody")
	o.Exec(`UPDATE work SET due_at = now() + interval '1 hour', attempts = 3, last_error = 'could not extend file' WHERE id = $1`, id)
	return id
}

// customerIn makes a customer whose KYC is in a state, and returns its id.
func (o *ops) customerIn(kyc string) string {
	o.T.Helper()
	id := uuid.Must(uuid.NewV7())
	o.Exec(`INSERT INTO customers (id, tenant_id, external_ref, name, kyc_status, kyc_tier, nin_last4, created_at, updated_at)
		VALUES ($1, $2, $1::uuid::text, 'Ada Obi', $3, CASE WHEN $3 = 'approved' THEN 2 ELSE 1 END, '6789', now(), now() - interval '2 hours')`, id, o.tenant, kyc)
	return id.String()
}

func (o *ops) suspendedCustomer() string {
	o.T.Helper()
	id := o.customerIn("none")
	o.Exec(`UPDATE customers SET status = 'suspended' WHERE id = $1`, id)
	return id
}

// snapshot is the whole database.
func (o *ops) snapshot() string {
	o.T.Helper()
	var out string
	tables := testenv.Value[[]string](o.Env, `SELECT array_agg(relname::text ORDER BY relname) FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`)
	require.Contains(o.T, tables, "audit_log")
	for _, table := range tables {
		out += table + "\n" + testenv.Value[string](o.Env, `SELECT coalesce(string_agg(t::text, E'\n' ORDER BY t::text), '') FROM `+table+` t`) + "\n"
	}
	return out
}

func TestChangesAreAsked(t *testing.T) {
	o := setup(t)
	changes := o.changes()
	requireAllChanges(t, changes)
	before, sofar := o.snapshot(), len(o.audited())
	refusals, asked := []string{"", "\n", "n\n", "no\n", "yess\n", "q"}, 0
	for name, args := range changes {
		_, _, err := o.run(args...)
		require.ErrorIs(t, err, audit.ErrReason, name)
		_, _, err = o.run(append(args, "--yes", "--reason", "  ")...)
		require.ErrorIs(t, err, audit.ErrReason, name)

		out, said, err := o.run(append(args, "--reason", "a ticket")...)
		require.ErrorIs(t, err, errUnasked, name)
		require.NotContains(t, said, "Proceed?", name)
		require.NotEmpty(t, said, "%s says what it would do", name)
		require.Empty(t, out, name)
		null, err := os.Open(os.DevNull)
		require.NoError(t, err)
		_, _, err = o.runWith(null, append(args, "--reason", "a ticket")...)
		require.ErrorIs(t, err, errUnasked, name)
		require.NoError(t, null.Close())

		answer := refusals[asked%len(refusals)] // all commands ask by one function: each is given one of the answers
		asked++
		_, said, err = o.runWith(types(answer), append(args, "--reason", "a ticket")...)
		require.ErrorIs(t, err, errRefused, "%s: %q", name, answer)
		require.True(t, strings.HasSuffix(said, "Proceed? [y/N] "), said)
	}
	require.Equal(t, before, o.snapshot(), "nothing was changed")
	require.GreaterOrEqual(t, asked, len(refusals))

	for name, args := range changes {
		out, said, err := o.runWith(types("Y\n"), append(args, "--reason", "a ticket")...)
		require.NoError(t, err, name)
		require.NotEmpty(t, out, name)
		require.Contains(t, said, "Proceed? [y/N]", name)
	}
	log := o.audited()
	require.Len(t, log, sofar+len(changes))
	for _, a := range log[:len(changes)] {
		require.Equal(t, "cli:"+osUser()+" a ticket", a.Actor+" "+a.Reason)
		command := strings.ReplaceAll(a.Action, ".", " ")
		require.True(t, changes[command] != nil || changes[command+" set"] != nil, command)
	}
	o.booksAgree()
}

// With --yes and --json there is one JSON object on stdout, and the sentence on stderr.
func TestChangesAsJSON(t *testing.T) {
	o := setup(t)
	for name, args := range o.changes() {
		out, said, err := o.run(append(args, "--yes", "--json", "--reason", "a ticket")...)
		require.NoError(t, err, name)
		require.True(t, json.Valid([]byte(out)), "%s: %s", name, out)
		require.NotEmpty(t, said, name)
		require.NotContains(t, said, "Proceed?", name)
	}
}

func TestToolsNeedTheirSettings(t *testing.T) {
	o := setup(t)
	o.env["AJO_ENCRYPTION_KEYS"] = ""
	_, said, err := o.run("tenant", "rotate-secret", o.tenant.String(), "--yes", "--reason", "x")
	require.EqualError(t, err, "AJO_ENCRYPTION_KEYS is not set")
	require.Empty(t, said)
	o.env["AJO_ENCRYPTION_KEYS"] = "bad"
	_, _, err = o.run("tenant", "list")
	require.ErrorContains(t, err, "AJO_ENCRYPTION_KEYS: ")
	o.env["AJO_ENCRYPTION_KEYS"] = ""

	// Without Redis, and with a Redis that is away, the work is left to the sweeper.
	for _, redis := range []string{"", away} {
		o.env["AJO_REDIS_URL"] = redis
		_, said, err = o.run("deliveries", "replay", o.deadLetter().String(), "--yes", "--reason", "x")
		require.NoError(t, err)
		require.Contains(t, said, "a worker finds the work at its next sweep")
	}
	o.env["AJO_REDIS_URL"] = "http://"
	_, _, err = o.run("tenant", "list")
	require.ErrorContains(t, err, "AJO_REDIS_URL: ")
	o.env["AJO_DATABASE_URL"] = ""
	_, _, err = o.run("tenant", "list")
	require.EqualError(t, err, "AJO_DATABASE_URL is not set")
}

// Every list takes the same flags, and gives an empty page as such.
func TestListsAreAlike(t *testing.T) {
	o := setup(t)
	for _, list := range []string{"transfers", "review", "events", "deliveries", "work", "audit"} {
		require.Equal(t, "none\n", o.good(list, "list"), list)
		require.JSONEq(t, `{"items":[],"pagination":{"limit":7,"nextCursor":null,"hasMore":false}}`, o.good(list, "list", "--json", "--limit", "7"), list)
		for _, bad := range [][]string{{"--limit", "0"}, {"--limit", "101"}} {
			_, _, err := o.run(append([]string{list, "list"}, bad...)...)
			require.ErrorIs(t, err, page.ErrLimit, list)
		}
		_, _, err := o.run(list, "list", "--after", "?")
		require.ErrorIs(t, err, page.ErrCursor, list)
	}
	for _, list := range []string{"transfers", "deliveries", "work"} {
		_, _, err := o.run(list, "list", "--tenant", "nobody@shop.example")
		require.EqualError(t, err, "tenant not found")
	}
}

// Every command explains itself, with an example where it does something.
func TestHelp(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		if !cmd.HasSubCommands() {
			require.Contains(t, cmd.Example, "ajo "+strings.TrimPrefix(cmd.CommandPath(), "ajo "), cmd.CommandPath())
			require.NotNil(t, cmd.Flags().Lookup("json"), cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	for _, cmd := range newToolCmds(os.Getenv) {
		walk(cmd)
	}
}

func TestForeignTextIsHarmless(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b [2J c? d", printable("a\nb\x1b[2J\tc\xff\u202ed\x00"))
	require.Equal(t, "naïve ₦5 “x”", printable(" naïve ₦5 “x” "))
	require.Equal(t, "a\nb [2Jc", printableLines("a\nb\u009b[2Jc"))

	foreign := "a\u009b[31mb\u202ec\x7fd\n₦5 “x” \U0001F600\U000E0001"
	var out strings.Builder
	require.NoError(t, printJSON(&out, []string{foreign}))
	require.Equal(t, "[\n  \"a\\u009b[31mb\\u202ec\\u007fd\\n₦5 “x” \U0001F600\\udb40\\udc01\"\n]\n", out.String())
	var back []string
	require.NoError(t, json.Unmarshal([]byte(out.String()), &back))
	require.Equal(t, []string{foreign}, back)
	require.Equal(t, "ab…", cut("abcd", 3))
	require.Equal(t, "abc", cut("abc", 3))
}

func TestAge(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 30 * time.Second: "30s", 90 * time.Second: "1m", 61*time.Minute + time.Second: "1h1m", 25*time.Hour + time.Minute: "1d1h",
	} {
		require.Equal(t, want, lasting(d))
	}
	now := time.Unix(1_800_000_000, 0)
	require.Equal(t, "1h1m", age(now, now.Add(-61*time.Minute-time.Second)))
}
