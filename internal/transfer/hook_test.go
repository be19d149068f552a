package transfer_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/api/client"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/sandbox"
	"ajo/internal/secret"
	"ajo/internal/signature"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
)

// question is what the hook is asked.
type question struct {
	Type, MerchantTxRef, Amount, BankCode, AccountNumber, Narration, Nonce string
	ExpiresAt                                                              time.Time
}

func (q question) signed(key, decision string) string {
	return `{"decision":"` + decision + `","signature":"` + signature.Approval(key, decision, q.MerchantTxRef, q.Amount, q.Nonce) + `"}`
}

// hooked is a payout that awaits so many approvals, of which a hook may give one.
type hooked struct {
	*bundle
	payout transfer.Transfer
	key    string // the webhook secret
	mu     sync.Mutex
	asked  []question
	modes  []string                  // X-Ajo-Mode of each
	read   []client.ApprovalQuestion // the same, by the tenants' client
	answer func(w http.ResponseWriter, q question)
}

func newHooked(t *testing.T, approvals int) *hooked { return newHookedFor(t, approvals, time.Minute) }

// newHookedFor is newHooked with a time in which a question must be answered.
func newHookedFor(t *testing.T, approvals int, limit time.Duration) *hooked {
	h := &hooked{}
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var q question
		if json.Unmarshal(body, &q) != nil || signature.Verify(r.Header.Get(signature.Header), body, h.key, h.Clock.Now(), time.Minute) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		// the client goes by the machine's clock, of which the test's is years away
		read, err := client.VerifyApproval(r.Header, body, h.key, 100*365*24*time.Hour)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.asked, h.read, h.modes = append(h.asked, q), append(h.read, read), append(h.modes, r.Header.Get(sandbox.ModeHeader))
		h.answer(w, q)
	}))
	t.Cleanup(endpoint.Close)
	box, err := secret.ParseKeys(secret.NewKey("test").Reveal())
	require.NoError(t, err)
	hooks := safehttp.New(safehttp.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: limit})
	t.Cleanup(hooks.Close)
	h.bundle = setup(t, func(o *transfer.Options) { o.Hooks, o.Box = hooks, box })
	require.NoError(t, pg.InTx(h.ctx, h.Pool, func(tx pg.Tx) error { return tenant.EnsureWebhookSecret(h.ctx, tx, box, h.Clock.Now(), h.tenant) }))
	plain, err := box.Open(secret.Place{Table: "tenants", Column: "webhook_secret", Row: h.tenant.String()}, testenv.Value[[]byte](h.Env, `SELECT webhook_secret FROM tenants WHERE id = $1`, h.tenant))
	require.NoError(t, err)
	h.key = string(plain)
	h.fund("100.00")
	h.policy(approvals, "50.00", "")
	h.Exec(`UPDATE tenants SET approval_hook = $2 WHERE id = $1`, h.tenant, endpoint.URL+"/approve")
	h.payout = h.settle("60.00")
	require.NotNil(t, h.payout.Awaiting)
	h.Exec(`UPDATE tenants SET approval_hook = NULL WHERE id = $1`, h.tenant) // what waits is as it was accepted
	return h
}

// questions are what it was asked so far.
func (h *hooked) questions() []question {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

func say(status int, body string) func(http.ResponseWriter, question) {
	return func(w http.ResponseWriter, _ question) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// A signed yes is one approval, a signed no ends the payout.
func TestTheHookDecides(t *testing.T) {
	t.Run("yes", func(t *testing.T) {
		h := newHooked(t, 1)
		h.answer = func(w http.ResponseWriter, q question) { say(200, q.signed(h.key, "approve"))(w, q) }
		require.Equal(t, transfer.Success, h.run(h.payout).Status)
		require.Len(t, h.questions(), 1)
		require.Equal(t, []string{"payout.approval", h.payout.MerchantTxRef, "60.00", "058", "0123456789", "rent"},
			[]string{h.asked[0].Type, h.asked[0].MerchantTxRef, h.asked[0].Amount, h.asked[0].BankCode, h.asked[0].AccountNumber, h.asked[0].Narration})
		require.True(t, h.payout.CreatedAt.Add(24*time.Hour).Equal(h.asked[0].ExpiresAt))
		h.approvedOnly()
	})
	t.Run("yes, and a member's too", func(t *testing.T) {
		h := newHooked(t, 2)
		h.answer = func(w http.ResponseWriter, q question) { say(200, q.signed(h.key, "approve"))(w, q) }
		require.NoError(t, h.svc.Advance(h.ctx, h.payout.ID))
		require.Equal(t, h.payout.CreatedAt.Add(24*time.Hour), h.DueAt(work.Settle, h.payout.ID).UTC(), "it is not asked again")
		require.NoError(t, h.svc.Poll(h.ctx, h.payout.MerchantTxRef, stop))
		h.step(h.payout)
		require.Len(t, h.questions(), 1)
		require.Zero(t, h.bank.Calls(lookupCall)+h.bank.Calls(payCall))
		h.approve(h.payout)
		require.Equal(t, transfer.Success, h.run(h.payout).Status)
	})
	t.Run("no", func(t *testing.T) {
		h := newHooked(t, 1)
		h.answer = func(w http.ResponseWriter, q question) { say(200, q.signed(h.key, "reject"))(w, q) }
		require.NoError(t, h.svc.Advance(h.ctx, h.payout.ID))
		require.Equal(t, transfer.Failed, h.get(h.payout.MerchantTxRef).Status)
		h.money("100.00", "credit 100.00 confirmed", "debit 60.00 reversed", "credit 60.00 reversed")
		require.Zero(t, h.bank.Calls(payCall))
	})
}

// A question of test mode says so, as its webhooks do: it may come to the URL of the live ones.
func TestAQuestionSaysItsMode(t *testing.T) {
	for name, mode := range map[string]string{"live": "", "test": "test"} {
		t.Run(name, func(t *testing.T) {
			h := newHooked(t, 1)
			h.svc.Test = mode == "test"
			h.answer = func(w http.ResponseWriter, q question) { say(200, q.signed(h.key, "approve"))(w, q) }
			require.Equal(t, transfer.Success, h.run(h.payout).Status)
			require.Equal(t, []string{mode}, h.modes)
		})
	}
}

// Anything but a clear answer to this question is none: the payout waits on, members decide, and
// after 24 hours it ends.
func TestTheHookSaysNothingClear(t *testing.T) {
	answers := map[string]func(h *hooked) func(http.ResponseWriter, question){
		"unsigned":   func(*hooked) func(http.ResponseWriter, question) { return say(200, `{"decision":"approve"}`) },
		"no JSON":    func(*hooked) func(http.ResponseWriter, question) { return say(200, `approve`) },
		"empty":      func(*hooked) func(http.ResponseWriter, question) { return say(200, ``) },
		"an error":   func(*hooked) func(http.ResponseWriter, question) { return say(500, `{"decision":"approve"}`) },
		"a redirect": func(*hooked) func(http.ResponseWriter, question) { return say(302, ``) },
		"signed, with another status": func(h *hooked) func(http.ResponseWriter, question) {
			return func(w http.ResponseWriter, q question) { say(202, q.signed(h.key, "approve"))(w, q) }
		},
		"two signatures, one of which is a number": func(h *hooked) func(http.ResponseWriter, question) {
			return func(w http.ResponseWriter, q question) {
				say(200, strings.TrimSuffix(q.signed(h.key, "approve"), "}")+`,"signature":7}`)(w, q)
			}
		},
		"another decision": func(h *hooked) func(http.ResponseWriter, question) {
			return func(w http.ResponseWriter, q question) { say(200, q.signed(h.key, "maybe"))(w, q) }
		},
		"a no, turned round": func(h *hooked) func(http.ResponseWriter, question) {
			return func(w http.ResponseWriter, q question) {
				say(200, `{"decision":"approve","signature":"`+signature.Approval(h.key, "reject", q.MerchantTxRef, q.Amount, q.Nonce)+`"}`)(w, q)
			}
		},
		"another secret": func(*hooked) func(http.ResponseWriter, question) {
			return func(w http.ResponseWriter, q question) { say(200, q.signed("another", "approve"))(w, q) }
		},
		"another sum": func(h *hooked) func(http.ResponseWriter, question) {
			return func(w http.ResponseWriter, q question) { q.Amount = "6.00"; say(200, q.signed(h.key, "approve"))(w, q) }
		},
		"another payout": func(h *hooked) func(http.ResponseWriter, question) {
			return func(w http.ResponseWriter, q question) {
				q.MerchantTxRef = "AJO1"
				say(200, q.signed(h.key, "approve"))(w, q)
			}
		},
		"replayed": func(h *hooked) func(http.ResponseWriter, question) {
			return func(w http.ResponseWriter, q question) { // the answer to the question before, which nobody heard
				if len(h.asked) > 1 {
					say(200, h.asked[0].signed(h.key, "approve"))(w, q)
					return
				}
				say(500, q.signed(h.key, "approve"))(w, q)
			}
		},
		"cut off": func(*hooked) func(http.ResponseWriter, question) {
			return func(http.ResponseWriter, question) { panic(http.ErrAbortHandler) }
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			h := newHooked(t, 1)
			h.answer = answer(h)
			for range 3 {
				h.untilDue(h.payout)
				h.step(h.payout)
			}
			asked := h.questions()
			require.Len(t, asked, 3, "it is asked again")
			require.NotEqual(t, asked[0].Nonce, asked[1].Nonce)
			require.Equal(t, new(transfer.AwaitingApproval), h.get(h.payout.MerchantTxRef).Awaiting)
			require.Zero(t, testenv.Value[int](h.Env, `SELECT count(*) FROM transfer_approvals`))
			require.Zero(t, h.bank.Calls(lookupCall)+h.bank.Calls(payCall))
			if len(name)%2 == 0 {
				h.approve(h.payout)
				require.Equal(t, transfer.Success, h.run(h.payout).Status)
				return
			}
			h.Clock.Set(h.payout.CreatedAt.Add(24 * time.Hour))
			require.NoError(t, h.svc.Advance(h.ctx, h.payout.ID))
			require.Equal(t, transfer.Failed, h.get(h.payout.MerchantTxRef).Status)
		})
	}
}

// A slow hook holds nothing up but its own question, and a member decides meanwhile: what it says
// then changes nothing.
func TestASlowHook(t *testing.T) {
	h := newHooked(t, 1)
	h.answer = func(w http.ResponseWriter, q question) {
		_, err := h.decide(h.payout, maker, transfer.Reject)
		require.NoError(t, err)
		say(200, q.signed(h.key, "approve"))(w, q)
	}
	require.NoError(t, h.svc.Advance(h.ctx, h.payout.ID))
	require.Equal(t, transfer.Failed, h.get(h.payout.MerchantTxRef).Status)
}

// One that does not answer in time is asked again later.
func TestALateHook(t *testing.T) {
	h := newHookedFor(t, 1, time.Second)
	tooLate := make(chan struct{})
	h.answer = func(http.ResponseWriter, question) { <-tooLate }
	at := h.step(h.payout)
	close(tooLate)
	require.True(t, at.After(h.Clock.Now()))
	require.NotNil(t, h.get(h.payout.MerchantTxRef).Awaiting)
}

// The Go client reads the question whole, and its answers decide.
func TestTheClientAnswersTheHook(t *testing.T) {
	for decision, end := range map[transfer.Decision]transfer.Status{transfer.Approve: transfer.Success, transfer.Reject: transfer.Failed} {
		t.Run(string(decision), func(t *testing.T) {
			h := newHooked(t, 1)
			h.answer = func(w http.ResponseWriter, _ question) {
				q := h.read[len(h.read)-1]
				a := q.Approve(h.key)
				if decision == transfer.Reject {
					a = q.Reject(h.key)
				}
				body, _ := json.Marshal(a)
				say(200, string(body))(w, question{})
			}
			require.Equal(t, end, h.run(h.payout).Status)
			require.Len(t, h.read, 1)
			want := client.ApprovalQuestion{
				Type: "payout.approval", MerchantTxRef: h.payout.MerchantTxRef, Amount: "60.00", Currency: "NGN", BankCode: "058", AccountNumber: "0123456789",
				Narration: "rent", ExpiresAt: h.payout.CreatedAt.Add(24 * time.Hour).UTC(), Nonce: h.asked[0].Nonce,
			}
			require.Equal(t, want, h.read[0])
		})
	}
}

// A question that is unsigned, altered, old, or none is refused by the client.
func TestTheClientRefusesOtherQuestions(t *testing.T) {
	t.Parallel()
	body := []byte(`{"type":"payout.approval","merchantTxRef":"AJO1","amount":"60.00","nonce":"n"}`)
	signed := func(body []byte, at time.Time) http.Header {
		header := http.Header{}
		signature.Sign(header, []string{"secret"}, "m", at, body)
		return header
	}
	now := time.Now()
	event := []byte(`{"type":"payment.received","merchantTxRef":"AJO1","nonce":"n"}`)
	for name, c := range map[string]struct {
		header http.Header
		body   []byte
		secret string
		want   error
	}{
		"good":           {signed(body, now), body, "secret", nil},
		"unsigned":       {http.Header{}, body, "secret", client.ErrUnsigned},
		"no secret":      {signed(body, now), body, "", client.ErrNoSecret},
		"another secret": {signed(body, now), body, "other", client.ErrSignature},
		"altered":        {signed(body, now), []byte(strings.Replace(string(body), "60.00", "6.00", 1)), "secret", client.ErrSignature},
		"old":            {signed(body, now.Add(-time.Hour)), body, "secret", client.ErrTime},
		"a webhook":      {signed(event, now), event, "secret", client.ErrNotApproval},
	} {
		_, err := client.VerifyApproval(c.header, c.body, c.secret, 0)
		require.ErrorIs(t, err, c.want, name)
	}
}
