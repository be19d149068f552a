package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/signature"
	"ajo/internal/testenv"
)

// example is how the programs of docs/examples in one language are run.
type example struct {
	language string
	command  func(t *testing.T, program string) *exec.Cmd // program: receive, payout
}

var examples = []example{
	{"go", func(t *testing.T, program string) *exec.Cmd {
		path := filepath.Join(t.TempDir(), program)
		out, err := exec.Command("go", "build", "-gcflags=all=", "-o", path, "ajo/docs/examples/go/"+program).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return exec.Command(path)
	}},
	{"node", func(t *testing.T, program string) *exec.Cmd { return script(t, "node", "node/"+program+".mjs") }},
	{"python", func(t *testing.T, program string) *exec.Cmd { return script(t, "python3", "python/"+program+".py") }},
}

// script runs a file of docs/examples. Where its interpreter is missing, CI fails; elsewhere the
// test is skipped, which `make test` says beforehand.
func script(t *testing.T, interpreter, file string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(interpreter)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: the examples cannot be run", interpreter)
	} else if err != nil {
		t.Skipf("%s is missing", interpreter)
	}
	abs, err := filepath.Abs(filepath.Join("../../docs/examples", file))
	require.NoError(t, err)
	return exec.Command(path, abs)
}

// The programs of docs/examples do what they say, in each language, with a real API, worker and
// bank: one opens an account, is paid and pays out; the other gets the event, and takes no webhook
// but a genuine one.
func TestExamples(t *testing.T) {
	for _, x := range examples {
		t.Run(x.language, func(t *testing.T) {
			receive, payout := x.command(t, "receive"), x.command(t, "payout")
			w := newWorld(t)
			w.settings["AJO_SETTLE_DELAYS"] = "100ms,200ms"
			w.startAPI()
			w.startWorker("")
			c := w.signUp(nil)
			var signing struct{ WebhookSecret string }
			c.want(200, "POST", "/auth/webhook-secret", nil).into(t, &signing)

			receiver := startProgram(t, w.dir, map[string]string{"AJO_WEBHOOK_SECRET": signing.WebhookSecret, "ADDR": "127.0.0.1:0"}, receive, receive.Args)
			url := receiver.prints(`listening on (http://127\.0\.0\.1:[1-9][0-9]*/hook)\n`)[1]
			c.want(200, "POST", "/auth/webhook-url", map[string]string{"url": url})
			payout.Args = append(payout.Args, "customer 1", "044", "0123456789")
			payer := startProgram(t, w.dir, map[string]string{"AJO_URL": w.apiURL, "AJO_API_KEY": c.key}, payout, payout.Args)
			w.pay(payer.prints(`pay to ([0-9]{10}) `)[1], "5000.00")
			require.Zero(t, payer.exit(), "%s", payer.out.all())
			require.Regexp(t, `received NGN 4975.00\npaying to .+\naccepted as AJO[0-9a-f]{32}\nthe transfer ended: success\n$`, string(payer.out.all()))
			require.Len(t, w.bank.Paid(), 1)
			require.Equal(t, "4975.00", w.bank.Paid()[0].Amount.String())
			receiver.prints(`payment.received: customer 1 got NGN 4975.00 from "Bola Ade"\n`)
			w.eventually("the delivery to be recorded", func() bool { return w.progress().delivered == 1 })

			checkReceiver(t, receiver, url, signing.WebhookSecret)
			require.NotContains(t, string(payer.out.all())+string(receiver.out.all()), c.key)
		})
	}
}

// The programs of all languages, run one after another and once more, work for one tenant: none
// repeats another's Idempotency-Key.
func TestExamplesAgain(t *testing.T) {
	w := newWorld(t)
	w.settings["AJO_SETTLE_DELAYS"] = "100ms,200ms"
	w.startAPI()
	w.startWorker("")
	c := w.signUp(nil)
	for run := range 2 {
		for _, x := range examples {
			payout := x.command(t, "payout")
			payout.Args = append(payout.Args, fmt.Sprintf("%s %d", x.language, run), "044", "0123456789")
			payer := startProgram(t, w.dir, map[string]string{"AJO_URL": w.apiURL, "AJO_API_KEY": c.key}, payout, payout.Args)
			w.pay(payer.prints(`pay to ([0-9]{10}) `)[1], "5000.00")
			require.Zero(t, payer.exit(), "%s, run %d: %s", x.language, run+1, payer.out.all())
			require.Regexp(t, `the transfer ended: success\n$`, string(payer.out.all()))
		}
	}
	require.Len(t, w.bank.Paid(), 2*len(examples))
}

// A gateway in front of the API that loses the answers to a payout, or says in its own form when to
// try again, ends no program: it asks again under its key, and the payout is made once.
func TestExamplesBehindAGateway(t *testing.T) {
	answers := []func(*http.Response){
		func(r *http.Response) { page(r, http.StatusOK, "<html>") },
		func(r *http.Response) { page(r, http.StatusOK, "\xff\xfe") },
		func(r *http.Response) {
			page(r, http.StatusServiceUnavailable, "<html>")
			r.Header.Set("Retry-After", time.Now().Add(time.Second).UTC().Format(http.TimeFormat))
		},
	}
	for _, x := range examples {
		t.Run(x.language, func(t *testing.T) {
			payout := x.command(t, "payout")
			w := newWorld(t)
			w.settings["AJO_SETTLE_DELAYS"] = "100ms,200ms"
			w.startAPI()
			w.startWorker("")
			c := w.signUp(nil)
			var settled atomic.Int32
			proxy := &httputil.ReverseProxy{
				Rewrite: func(r *httputil.ProxyRequest) {
					r.Out.URL.Scheme, r.Out.URL.Host = "http", strings.TrimPrefix(w.apiURL, "http://")
				},
				ModifyResponse: func(r *http.Response) error {
					if strings.HasSuffix(r.Request.URL.Path, "/settle") {
						if n := int(settled.Add(1)); n <= len(answers) {
							answers[n-1](r)
						}
					}
					return nil
				},
			}
			gateway := httptest.NewServer(proxy)
			t.Cleanup(gateway.Close)
			payout.Args = append(payout.Args, "customer-1", "044", "0123456789")
			payer := startProgram(t, w.dir, map[string]string{"AJO_URL": gateway.URL, "AJO_API_KEY": c.key}, payout, payout.Args)
			w.pay(payer.prints(`pay to ([0-9]{10}) `)[1], "5000.00")
			require.Zero(t, payer.exit(), "%s", payer.out.all())
			require.Regexp(t, `the transfer ended: success\n$`, string(payer.out.all()))
			require.Len(t, w.bank.Paid(), 1)
			require.EqualValues(t, len(answers)+1, settled.Load())
		})
	}
}

// page puts a gateway's own answer in the place of the API's.
func page(r *http.Response, status int, body string) {
	_ = r.Body.Close()
	r.StatusCode, r.Status = status, ""
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
}

// checkReceiver sends the receiver what it must take, what it must take for a repetition, and what
// it must refuse.
func checkReceiver(t *testing.T, receiver *process, url, secret string) {
	t.Helper()
	body := fmt.Sprintf(`{"eventType":"payment.received","transactionGroupId":%q,"accountRef":"ada & <co>","amount":"1.00","senderName":"Bọ́lá"}`, uuid.NewString())
	other := strings.Repeat("f", 64)
	now := time.Now()
	signed := func(at time.Time, secrets ...string) string {
		h := http.Header{}
		signature.Sign(h, secrets, uuid.NewString(), at, []byte(body))
		return h.Get(signature.Header)
	}
	v1 := strings.SplitN(signed(now, secret), ",", 2)[1]
	for name, header := range map[string]string{
		"no header": "", "another secret": signed(now, other), "an empty secret": signed(now, ""), "six minutes ago": signed(now.Add(-6*time.Minute), secret),
		"in six minutes": signed(now.Add(6*time.Minute), secret), "the time of another": fmt.Sprintf("t=%d,%s", now.Unix()+1, v1), "no time": v1,
		"a time that is none": "t=now," + v1, "two times": signed(now, secret) + fmt.Sprintf(",t=%d", now.Unix()), "no signature": fmt.Sprintf("t=%d", now.Unix()),
		"an empty signature": fmt.Sprintf("t=%d,v1=", now.Unix()), "a signature without a value": fmt.Sprintf("t=%d,v1", now.Unix()), "half a signature": signed(now, secret)[:50],
		"not ASCII": fmt.Sprintf("t=%d,v1=é", now.Unix()), "garbage": ",,=;", "of another scheme": strings.Replace(signed(now, secret), "v1=", "v0=", 1),
	} {
		require.Equal(t, 400, postHook(t, url, header, body), name)
	}
	require.Equal(t, 400, postHook(t, url, signed(now, secret), body+" "), "another body")
	require.Equal(t, 400, postHook(t, url, signed(now, secret), strings.Replace(body, "1.00", "9.00", 1)), "another amount")
	require.NotContains(t, string(receiver.out.all()), "ada &", "nothing was done at the word of a stranger")

	require.Equal(t, 204, postHook(t, url, signed(now, other, secret), body), "signed by two secrets, while one is replaced")
	require.Equal(t, 204, postHook(t, url, signed(now.Add(-2*time.Minute), secret), body), "a repetition")
	receiver.prints(`payment.received: ada & <co> got NGN 1.00 from "Bọ́lá"\nagain: `)
	for field, printed := range map[string]string{`"policy":"refund"`: "is held (refund): deliver nothing for it", `"replaces":"its first group"`: "in the place of its first group: deliver no second time"} {
		body = fmt.Sprintf(`{"eventType":"payment.received","transactionGroupId":%q,"accountRef":"ada","amount":"2.00","senderName":"Bọ́lá",%s}`, uuid.NewString(), field)
		require.Equal(t, 204, postHook(t, url, signed(now, secret), body))
		receiver.prints(`payment.received: ada 2.00 ` + regexp.QuoteMeta(printed) + `\n`)
	}
	// what was reversed, or posted again, counts no more when it comes late: events have no order
	for first, printed := range map[string]string{
		`"eventType":"payment.reversed","transactionGroupId":%q,"replaces":"its first group"`:          `payment.reversed: ada 3.00: take back what was done for it`,
		`"eventType":"payment.received","transactionGroupId":"` + uuid.NewString() + `","replaces":%q`: `payment.received: ada 3.00 in the place of `,
	} {
		late := uuid.NewString()
		const rest = `,"accountRef":"ada","amount":"3.00","senderName":"Bọ́lá"}`
		body = "{" + fmt.Sprintf(first, late) + rest
		require.Equal(t, 204, postHook(t, url, signed(now, secret), body))
		receiver.prints(regexp.QuoteMeta(printed))
		body = fmt.Sprintf(`{"eventType":"payment.received","transactionGroupId":%q`, late) + rest
		require.Equal(t, 204, postHook(t, url, signed(now, secret), body))
		receiver.prints(`payment.received: ada 3.00 does not count any more \(` + late + `\): deliver nothing for it\n`)
	}
}

func postHook(t *testing.T, url, header, body string) int {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if header != "" {
		req.Header.Set(signature.Header, header)
	}
	got, err := testenv.Send(http.DefaultClient, req)
	require.NoError(t, err)
	return got.Status
}

// prints waits until the process has printed what the expression matches, and returns the match and
// its groups.
func (p *process) prints(expression string) []string {
	p.t.Helper()
	form := regexp.MustCompile(expression)
	var found []string
	testenv.Eventually(p.t, healLimit, "the program to print "+expression, func() bool {
		found = form.FindStringSubmatch(string(p.out.all()))
		if found == nil && p.Ended() {
			p.t.Fatalf("%v ended with code %d:\n%s", p.args, p.State().ExitCode(), p.out.tail(1000))
		}
		return found != nil
	}, func() any { return string(p.out.tail(1000)) })
	return found
}

// The guide's inset programs are these files: what it shows has been run.
func TestGuideShowsTheExamples(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guide.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)<!-- from (\\S+) -->\n```[a-z]+\n(.*?)```\n").FindAllSubmatch(guide, -1)
	require.GreaterOrEqual(t, len(blocks), 3, "one in each language")
	for _, b := range blocks {
		file, err := os.ReadFile(filepath.Join("../../docs", string(b[1])))
		require.NoError(t, err)
		for part := range bytes.SplitSeq(b[2], []byte("…\n")) { // what is left out
			require.Contains(t, string(file), string(bytes.TrimRight(part, " \t/#")), "%s in the guide is not as in the file", b[1])
		}
	}
}
