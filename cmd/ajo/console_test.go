package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/pquerna/otp/totp"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"ajo/internal/app"
	"ajo/internal/config"
	"ajo/internal/console"
	"ajo/internal/operator"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// desk is a browser with a session of the console.
type desk struct {
	o      *ops
	url    string
	client *http.Client
}

// console starts the operations listener over the settings of the commands.
func (o *ops) console() (url string) {
	o.T.Helper()
	cfg := config.Defaults()
	cfg.OpsAddr, cfg.OpsUser, cfg.OpsPassword, cfg.OpsWritable = "127.0.0.1:0", "ops", secret.Redact("p"), true
	cfg.RateLimit, cfg.RateLimitOpen = "100000-M", "100000-M"
	cfg.DatabaseURL, cfg.RedisURL = secret.Redact(o.env["AJO_DATABASE_URL"]), secret.Redact(o.env["AJO_REDIS_URL"])
	cfg.EncryptionKeys = secret.Redact(o.env["AJO_ENCRYPTION_KEYS"])
	cfg.ProviderURL, cfg.ProviderAccountID, cfg.ProviderClientID = o.env["AJO_PROVIDER_URL"], o.env["AJO_PROVIDER_ACCOUNT_ID"], o.env["AJO_PROVIDER_CLIENT_ID"]
	cfg.ProviderClientSecret = secret.Redact(o.env["AJO_PROVIDER_CLIENT_SECRET"])
	cfg.MailDir, cfg.MailFrom = o.T.TempDir(), "Ajo <no-reply@ajo.example>"
	s, err := app.StartOps(cfg, slog.New(slog.DiscardHandler), runInside)
	require.NoError(o.T, err)
	o.T.Cleanup(s.Stop)
	// whoever asks first waits two seconds for the database, which may be too few on a busy machine
	testenv.Eventually(o.T, time.Minute, "the console to connect", func() bool {
		answer, err := http.Get(s.URL + "/console/api/me")
		require.NoError(o.T, err)
		require.NoError(o.T, answer.Body.Close())
		return answer.StatusCode == http.StatusUnauthorized
	})
	return s.URL
}

// stranger is a browser without a session.
func (o *ops) stranger(url string) *desk {
	o.T.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(o.T, err)
	return &desk{o, url, &http.Client{Jar: jar}}
}

// login makes an account by the command line, sets it up and logs in.
func (o *ops) login(url, name string, role operator.Role) *desk {
	o.T.Helper()
	d := o.stranger(url)
	code := decode[invited](o, "operator", "add", name, "--role", string(role), "--yes", "--reason", "joins").Code
	var set struct{ Secret, QRCode string }
	require.Equal(o.T, 200, d.post("/console/api/setup", map[string]string{"name": name, "code": code, "password": "correct horse battery"}, &set))
	shown, err := totp.GenerateCode(set.Secret, time.Now())
	require.NoError(o.T, err)
	require.Equal(o.T, 200, d.post("/console/api/login", map[string]string{"name": name, "password": "correct horse battery", "code": shown}, nil))
	return d
}

// do makes a request and decodes the answer, if one is wanted.
func (d *desk) do(method, path string, body, into any, headers ...string) int {
	d.o.T.Helper()
	sent, err := json.Marshal(body)
	require.NoError(d.o.T, err)
	r, err := http.NewRequest(method, d.url+path, bytes.NewReader(sent))
	require.NoError(d.o.T, err)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := d.client.Do(r)
	require.NoError(d.o.T, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(d.o.T, err)
	require.NoError(d.o.T, answer.Body.Close())
	if into != nil {
		require.NoError(d.o.T, json.Unmarshal(text, into), "%s", text)
	}
	return answer.StatusCode
}

func (d *desk) post(path string, body, into any) int {
	d.o.T.Helper()
	return d.do(http.MethodPost, path, body, into)
}

// acting is what an action answers, or the refusal.
type acting struct {
	Will, Text, Note, Error string
	Idle                    bool
}

// act does by the console what a command line does: it asks what will happen, and confirms that.
func (d *desk) act(a console.Action, values map[string]string, reason string) (said acting) {
	d.o.T.Helper()
	body := map[string]any{"values": values, "reason": reason, "saw": ""}
	status := d.post(a.Path(), body, &said)
	require.Equal(d.o.T, 200, status, "%s: %+v", a.Command, said)
	require.NotEmpty(d.o.T, said.Will, "%s says what it would do", a.Command)
	body["saw"] = said.Will
	said = acting{}
	status = d.post(a.Path(), body, &said)
	require.Equal(d.o.T, 200, status, "%s: %+v", a.Command, said)
	require.NotEmpty(d.o.T, said.Text, a.Command)
	return said
}

// valuesOf are the values of an action's fields that say the same as a command's arguments.
func valuesOf(t testing.TB, a console.Action, args []string) map[string]string {
	t.Helper()
	flags := leaves()[a.Command].Flags()
	values := map[string]string{}
	args = args[len(strings.Fields(a.Command)):]
	for at := 0; len(args) > 0; args = args[1:] {
		name, isFlag := strings.CutPrefix(args[0], "--")
		switch {
		case !isFlag:
			values[a.Args[at]] = args[0]
			at++
		case flags.Lookup(name).Value.Type() == "bool":
			values[name] = "true"
		default:
			values[name] = args[1]
			args = args[1:]
		}
	}
	return values
}

// Every change of the command line is an action of the console, with all its arguments and flags,
// or there is a reason why not.
func TestConsoleHasEveryChange(t *testing.T) {
	t.Parallel()
	actions := map[string]console.Action{}
	for _, a := range console.Actions {
		require.NotContains(t, actions, a.Command)
		actions[a.Command] = a
	}
	for name, cmd := range leaves() {
		if cmd.Flags().Lookup("reason") == nil {
			require.NotContains(t, actions, name, "it changes nothing")
			continue
		}
		a, is := actions[name]
		why := console.Excuses[name]
		require.NotEqual(t, is, why != "", "%s is either an action of the console, or has an excuse", name)
		if !is {
			require.Greater(t, len(why), 20, name)
			continue
		}
		var flags []string
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains([]string{"reason", "yes", "json", "help"}, f.Name) {
				flags = append(flags, f.Name)
			}
		})
		require.ElementsMatch(t, flags, a.Flags, name)
		require.NoError(t, cmd.ValidateArgs(a.Args), name)
		if len(a.Args) > 0 {
			require.Error(t, cmd.ValidateArgs(a.Args[1:]), name)
		}
		delete(actions, name)
	}
	require.Empty(t, actions, "no such commands")
	var scripts strings.Builder
	for name, f := range console.Files() {
		if strings.HasSuffix(name, ".js") {
			scripts.Write(f.Body)
		}
	}
	for _, a := range console.Actions {
		require.Regexp(t, `(command: |act\()'`+a.Command+`'`, scripts.String(), "no page has a button for it")
	}
	for _, r := range console.Reads {
		require.Contains(t, scripts.String(), "'"+r.Command+"'", "no page shows it")
	}
	for name := range console.Excuses {
		require.Contains(t, leaves(), name)
	}
	for _, r := range console.Reads {
		cmd := leaves()[r.Command]
		require.NotNil(t, cmd, r.Command)
		require.Nil(t, cmd.Flags().Lookup("reason"), "%s changes something", r.Command)
		require.NotNil(t, cmd.Flags().Lookup("json"), r.Command)
		for _, f := range r.Flags {
			require.NotNil(t, cmd.Flags().Lookup(f), "%s --%s", r.Command, f)
		}
		if cmd.Flags().Lookup("limit") != nil {
			require.Contains(t, r.Flags, "limit", "%s is read page by page", r.Command)
		}
	}
}

// auditLine is an entry without what differs from run to run.
type auditLine struct {
	Target, Reason string
	Detail         any
}

// byRun are the names in details of what differs from run to run, or by who does it.
var byRun = []string{"Actor", "StartsAt", "ValidFrom", "CreatedAt", "DueAt", "Until", "ProviderTxnRef", "SessionID", "AccountNumber", "Name", "BankName", "BankCode"}

func detailOf(t testing.TB, detail json.RawMessage) (v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(masked(string(detail))), &v))
	var hide func(v any)
	hide = func(v any) {
		if m, is := v.(map[string]any); is {
			for name, inner := range m {
				hide(inner)
				if slices.Contains(byRun, name) && inner != nil {
					m[name] = "is there"
				}
			}
		}
	}
	hide(v)
	return v
}

// Each action of the console leaves the audit line that its command leaves, but for who did it.
func TestConsoleIsAuditedAsTheCommands(t *testing.T) {
	lines := map[string]map[string]auditLine{"command": {}, "page": {}}
	collect := func(o *ops, of, actor string, do func(name string, args []string)) {
		changes := o.changes()
		maps.DeleteFunc(changes, func(name string, _ []string) bool { return console.Excuses[name] != "" })
		do("", nil)
		for _, name := range slices.Sorted(maps.Keys(changes)) { // balances go by the order
			args := changes[name]
			before := len(o.audited())
			do(name, args)
			log := o.audited()
			require.Len(o.T, log, before+1, "%s writes one line", name)
			require.Equal(o.T, actor, log[0].Actor, name)
			lines[of][name+": "+log[0].Action] = auditLine{masked(log[0].Target), log[0].Reason, detailOf(o.T, log[0].Detail)}
		}
		o.booksAgree()
	}
	t.Run("both", func(t *testing.T) {
		t.Run("command", func(t *testing.T) {
			o := setup(t)
			collect(o, "command", "cli:"+osUser(), func(name string, args []string) {
				if name != "" {
					o.good(append(args, "--yes", "--reason", "a ticket")...)
				}
			})
		})
		t.Run("page", func(t *testing.T) {
			o := setup(t)
			var d *desk
			collect(o, "page", "console:ada", func(name string, args []string) {
				if name == "" {
					d = o.login(o.console(), "ada", operator.Actor)
					return
				}
				a := console.Actions[slices.IndexFunc(console.Actions, func(a console.Action) bool { return a.Command == name })]
				d.act(a, valuesOf(t, a, args), "a ticket")
			})
		})
	})
	require.Greater(t, len(lines["command"]), 35)
	require.Equal(t, lines["command"], lines["page"])
}

// Who has no session gets nothing, a viewer changes nothing, and another site's page neither: each
// route with each role.
func TestConsoleRoutesAndRoles(t *testing.T) {
	o := setup(t)
	url := o.console()
	viewer, actor, nobody := o.login(url, "vera", operator.Viewer), o.login(url, "ada", operator.Actor), o.stranger(url)
	before := o.snapshot()
	for _, r := range console.Routes() {
		if strings.HasSuffix(r.Path, "/logout") {
			continue
		}
		var refused struct{ Error string }
		ask := func(d *desk, headers ...string) int {
			refused.Error = ""
			return d.do(r.Method, r.Path, map[string]any{}, &refused, headers...)
		}
		if r.Role == "" {
			require.Contains(t, []int{400, 401}, ask(nobody), r.Path)
			require.NotEqual(t, "unauthorized", refused.Error, r.Path)
		} else {
			require.Equal(t, 401, ask(nobody), r.Path)
			require.Equal(t, "unauthorized", refused.Error, r.Path)
			forged := &http.Cookie{Name: console.Cookie, Value: strings.Repeat("A", 43)}
			require.Equal(t, 401, ask(nobody, "Cookie", forged.String()), r.Path)
		}
		if r.Role == operator.Actor {
			require.Equal(t, 403, ask(viewer), r.Path)
			require.Equal(t, "your role is read-only", refused.Error)
		} else if r.Role == operator.Viewer {
			require.NotContains(t, []int{401, 403, 500}, ask(viewer), r.Path)
		}
		if r.Role != "" {
			require.NotContains(t, []int{401, 403, 500}, ask(actor), "%s %s", r.Path, refused.Error)
		}
		if r.Method == http.MethodPost {
			for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://shop.example"}, {"Origin", "null"}} {
				require.Equal(t, 403, ask(actor, headers...), "%s %v", r.Path, headers)
				require.Equal(t, "cross-site request refused", refused.Error)
			}
			require.Equal(t, 415, ask(actor, "Content-Type", "text/plain"), r.Path)
		}
		wrong := map[string]string{http.MethodPost: http.MethodGet, http.MethodGet: http.MethodPost}[r.Method]
		require.Equal(t, 405, actor.do(wrong, r.Path, nil, nil), r.Path)
	}
	require.Equal(t, before, o.snapshot(), "nothing was changed")
	require.Equal(t, 200, actor.post("/console/api/logout", nil, nil))
	require.Equal(t, 401, actor.do(http.MethodGet, "/console/api/me", nil, nil))
}

// A change needs the sentence that was shown, as long as that is what will happen, and a reason;
// unknown names are refused, and no value becomes a flag.
func TestConsoleActsOnlyOnWhatWasShown(t *testing.T) {
	o := setup(t)
	d := o.login(o.console(), "ada", operator.Actor)
	event := o.held("differs")
	path := "/console/api/act/review-confirm"
	var said acting
	body := func(reason, saw string, values map[string]string) map[string]any {
		return map[string]any{"values": values, "reason": reason, "saw": saw}
	}
	values := map[string]string{"event": event.String()}
	require.Equal(t, 200, d.post(path, body("", "", values), &said))
	will := said.Will
	require.Contains(t, will, "It counts in the balance again")
	before := o.snapshot()
	for _, c := range []struct {
		body   any
		status int
		text   string
	}{
		{body("", will, values), 400, "a reason is required: one line of at most 500 characters"},
		{body("a\nticket", will, values), 400, "a reason is required: one line of at most 500 characters"},
		{body("a ticket", "Confirm it.", values), 409, console.ErrChanged.Msg},
		{body("a ticket", will, map[string]string{"event": "x"}), 422, `the event must be a UUID, not "x"`},
		{body("a ticket", will, map[string]string{"event": "--help"}), 422, `the event must be a UUID, not "--help"`},
		{body("a ticket", will, map[string]string{"event": uuid.NewString()}), 404, "event not found"},
		{body("a ticket", will, map[string]string{}), 422, "accepts 1 arg(s), received 0"},
		{body("a ticket", will, map[string]string{"event": event.String(), "yes": "true"}), 400, "unknown parameter"},
		{map[string]any{"command": "rekey"}, 400, "invalid request body"},
	} {
		said = acting{}
		require.Equal(t, c.status, d.post(path, c.body, &said), c.text)
		require.Equal(t, c.text, said.Error)
	}
	require.Equal(t, before, o.snapshot(), "nothing was changed")
	require.Equal(t, 200, d.post(path, body("a ticket", will, values), &said))
	require.Contains(t, said.Text, "is confirmed; the balance of account")
	o.lastAuditBy("console:ada", "review.confirm", "event:"+event.String(), "a ticket")
	said = acting{}
	require.Equal(t, 422, d.post(path, body("a ticket", will, values), &said))
	require.Equal(t, "the payment does not need review", said.Error)

	// Two decide at once: one of them does.
	event = o.held("differs")
	values["event"] = event.String()
	require.Equal(t, 200, d.post(path, body("", "", values), &said))
	answers := make(chan int, 4)
	for range cap(answers) {
		go func() { answers <- d.post(path, body("a ticket", said.Will, values), nil) }()
	}
	good := 0
	for range cap(answers) {
		if <-answers == 200 {
			good++
		}
	}
	require.Equal(t, 1, good)
	require.Equal(t, 400, d.do(http.MethodGet, "/console/api/read/review-list?yes=true", nil, &said))
	require.Equal(t, 400, d.do(http.MethodGet, "/console/api/read/review-list?limit=1&limit=2", nil, &said))
}

// The queue page may be looked at by either login, and changed by an operator's session alone.
func TestQueuesAreChangedByOperatorsAlone(t *testing.T) {
	o := setup(t)
	url := o.console()
	viewer, actor, nobody := o.login(url, "vera", operator.Viewer), o.login(url, "ada", operator.Actor), o.stranger(url)
	basic := []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("ops:p"))}
	const look, change = "/queues/api/queues", "/queues/api/queues/ingest:pause"
	for _, c := range []struct {
		who          string
		d            *desk
		headers      []string
		look, change int
	}{
		{"nobody", nobody, nil, 401, 403},
		{"the settings' password", nobody, basic, 200, 403},
		{"a viewer", viewer, nil, 200, 403},
		{"an operator from another site", actor, []string{"Sec-Fetch-Site", "cross-site"}, 200, 403},
		{"an operator", actor, nil, 200, 204},
	} {
		require.Equal(t, c.look, c.d.do(http.MethodGet, look, nil, nil, c.headers...), c.who)
		require.Equal(t, c.change, c.d.do(http.MethodPost, change, nil, nil, c.headers...), c.who)
	}
}

// Guesses at one name end, whether an operator has it or not.
func TestConsoleLimitsGuesses(t *testing.T) {
	o := setup(t)
	o.env["AJO_REDIS_URL"] = away // a busy one that is late takes a part of the counts with it
	url := o.console()
	o.login(url, "ada", operator.Actor)
	for _, name := range []string{"ada", "nobody"} {
		d, last := o.stranger(url), 0
		for range 12 {
			last = d.post("/console/api/login", map[string]string{"name": name, "password": "a guess", "code": "000000"}, nil)
		}
		require.Equal(t, 429, last, name)
	}
}
