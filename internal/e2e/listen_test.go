package e2e

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// listen runs `ajo listen` with a password in its environment and waits until it listens.
func (w *world) listen(c *tenant, args ...string) *process {
	w.t.Helper()
	p := start(w.t, w.dir, map[string]string{"AJO_PASSWORD": c.password}, append([]string{"listen", "--api", w.apiURL}, args...)...)
	p.prints(`Listening\. Ctrl-C ends it\.\n`)
	return p
}

// A developer without a URL is shown every event of its tenant, each signed anew as a delivery is,
// through the death of the API; real deliveries need a URL and are not touched. The session ends
// with the program.
func TestListen(t *testing.T) {
	w := newWorld(t)
	w.lookForRaces()
	w.settings["AJO_SETTLE_DELAYS"] = "100ms,200ms"
	w.settings["AJO_HTTP_ADDR"] = freeAddress(t) // which stays when the API is started again
	w.startAPI()
	w.startWorker("")
	c := w.signUp(nil)
	a := c.open("customer-1")
	local := newEndpoint(t)
	var signing struct{ WebhookSecret string }
	c.want(200, "POST", "/auth/webhook-secret", nil).into(t, &signing)
	local.learn(signing.WebhookSecret)

	p := w.listen(c, "--email", c.email, "--forward-to", local.URL, "--print")
	failures := w.listen(c, "--email", c.email, "--events", "settlement.failed")
	require.Contains(t, string(p.out.all()), "Signing secret: "+signing.WebhookSecret+"\nEvents go to "+local.URL)
	paid := runToEnd(t, w.dir, map[string]string{"AJO_API_KEY": c.key}, "trigger", "payment",
		"--account", "customer-1", "--api", w.apiURL, "--bank", w.bank.URL(), "--amount", "5000", "--sender", "Bola Ade")
	require.Zero(t, paid.code, paid.out)
	require.Contains(t, paid.out, "Bola Ade paid NGN 5000.00 to "+a.BankAccountNumber+" (Ada Obi); the bank keeps a fee of 25.00.")
	require.Contains(t, paid.out, "The bank's event payment_success was answered 200.")
	body := p.prints(`\d\d:\d\d:\d\d  payment\.received +customer-1  NGN 4975\.00  → 200 in [0-9.]+(?:m|µ)?s\n(\{.*"status":"provisional"\})\n`)[1]
	p.prints(`payment\.confirmed +customer-1  NGN 4975\.00  → 200 in `)
	hooks := local.received()
	require.Len(t, hooks, 2)
	require.Equal(t, body, string(hooks[0].body))
	require.Equal(t, hooks[0].event.TransactionGroupID, hooks[0].header.Get("webhook-id"))
	require.NotEqual(t, hooks[0].header.Get("webhook-id"), hooks[1].header.Get("webhook-id"))
	require.Equal(t, "application/json", hooks[0].header.Get("Content-Type"))
	require.True(t, strings.HasPrefix(hooks[0].header.Get("User-Agent"), "ajo/"))

	local.answers(func(int) int { return 500 })
	c.want(202, "POST", "/v1/accounts/customer-1/settle", map[string]string{"amount": "1000.00", "bankCode": "044", "accountNumber": "0123456789"})
	p.prints(`settlement\.succeeded +customer-1 AJO[0-9a-f]{32}  NGN 1000\.00  → 500 in `)
	local.answers(nil)

	w.api.Kill()
	p.prints(`Lost the connection \(.+\); trying again\.\n`)
	w.startAPI()
	p.prints(`Listening again\.\n`)
	w.pay(a.BankAccountNumber, "100.00")
	p.prints(`payment\.received +customer-1  NGN 90\.00  → 200 in `)
	for _, h := range local.received() {
		require.Empty(t, h.badReason)
	}
	require.Zero(t, w.count(`SELECT count(*) FROM deliveries`), "there is no URL")
	require.NotContains(t, string(failures.out.all()), "NGN", "not the types that it asked for")

	require.Equal(t, 2, w.count(`SELECT count(*) FROM sessions`))
	for _, l := range []*process{p, failures} {
		l.Signal(syscall.SIGINT)
		require.Zero(t, l.exit(), "%s", l.out.all())
		require.NotContains(t, string(l.out.all()), c.password)
	}
	require.Zero(t, w.count(`SELECT count(*) FROM sessions`), "logged out")
}

// What cannot work ends at once, with one line that says why. A login link does as well as a
// password, once.
func TestListenLogsIn(t *testing.T) {
	w := newWorld(t)
	w.startAPI()
	c := w.signUp(nil)
	link := runToEnd(t, w.dir, w.settings, "tenant", "login-link", c.email, "--reason", "a test", "--url", w.apiURL, "--json")
	require.Zero(t, link.code, link.out)
	var made struct{ URL string }
	require.NoError(t, json.Unmarshal([]byte(link.out[strings.Index(link.out, "{"):]), &made), link.out)
	p := start(t, w.dir, map[string]string{"AJO_LINK": made.URL}, "listen", "--api", w.apiURL)
	p.prints(`Listening\.`)
	p.Signal(syscall.SIGTERM)
	require.Zero(t, p.exit())

	for want, run := range map[string]struct {
		env  map[string]string
		args []string
	}{
		"ajo: the API answered 400: invalid or expired link": {map[string]string{"AJO_LINK": made.URL}, nil},
		"ajo: the API answered 401: invalid credentials":     {map[string]string{"AJO_PASSWORD": "a wrong one"}, []string{"--email", c.email}},
		"ajo: the API answered 401: unauthorized":            {nil, []string{"--session", "nonsense"}},
		"ajo: --events: \"payments\" is none of":             {map[string]string{"AJO_PASSWORD": c.password}, []string{"--email", c.email, "--events", "payments"}},
		"ajo: --forward-to must be an http or https URL":     {map[string]string{"AJO_PASSWORD": c.password}, []string{"--email", c.email, "--forward-to", "localhost:3000"}},
		"ajo: pass one of --email, --link and --session":     {nil, nil},
		"ajo: there is no terminal to ask for":               {nil, []string{"--email", c.email}},
	} {
		got := runToEnd(t, w.dir, run.env, append([]string{"listen", "--api", w.apiURL}, run.args...)...)
		require.Equal(t, 1, got.code, got.out)
		require.True(t, strings.HasPrefix(got.out, want), "%s: %s", want, got.out)
		require.Equal(t, 1, strings.Count(got.out, "\n"), got.out)
		require.NotContains(t, got.out, "nonsense")
	}
	require.Zero(t, w.count(`SELECT count(*) FROM sessions`))
}
