package api

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// How often each kind is called, and how far from a half the probability may be that a call of the
// one kind takes longer than one of the other. Where they cannot be told apart, it is spread by
// chance with a deviation of 0.065 at 40 calls and of 0.013 at 1,000: the bounds are five and eight
// of those away. The short form ends after a quarter of the calls if those are within earlyBound,
// which of calls that the whole would tell apart hardly any are.
const (
	shortTiming, shortBound, earlyBound = 40, 0.35, 0.25
	longBound                           = 0.10
)

// call is one request of a pair: to an address that is known or to one that is not.
type call struct {
	known      bool
	path, body string
}

// Neither what login, registration and the check of a code answer nor how long they take tells
// whether an e-mail is known. Each call has an address of its own, so that no limit is reached.
// make timing runs the long form.
func TestKnownEmailsTakeTheSameTime(t *testing.T) {
	n, bound := shortTiming, shortBound
	if v := os.Getenv("AJO_TIMING"); v != "" {
		calls, err := strconv.Atoi(v)
		require.NoError(t, err, "AJO_TIMING is the number of calls of each kind")
		n, bound = calls, longBound
	}
	secret.CheapHashes(false) // what is measured; no other test runs meanwhile
	t.Cleanup(func() { secret.CheapHashes(true) })
	w := newWorld(t)
	seed := uint64(20261121)
	if v := os.Getenv("AJO_SEED"); v != "" {
		s, err := strconv.ParseUint(v, 10, 64)
		require.NoError(t, err, "AJO_SEED")
		seed = s
	}
	p := &timing{world: w, random: rand.New(rand.NewPCG(seed, 0)), bound: bound, early: n == shortTiming}
	t.Logf("%d calls of each kind, seed %d, in milliseconds; p: the probability that a call with a known e-mail takes longer", n, seed)

	verified, pending := p.tenants(n), p.pending(n)
	login := func(email string) string { return fmt.Sprintf(`{"email":%q,"password":"wrong horse"}`, email) }
	register := func(email string) string {
		return fmt.Sprintf(`{"name":"Ada Stores","email":%q,"password":"new horse"}`, email)
	}
	p.compare("login, wrong password", "/auth/login", 401, apply(verified, login), apply(p.emails(n), login))
	p.compare("login, unverified, wrong password", "/auth/login", 401, apply(pending, login), apply(p.emails(n), login))
	forgot := func(email string) string { return fmt.Sprintf(`{"email":%q}`, email) }
	p.compare("forgot-password", "/auth/forgot-password", 200, apply(verified, forgot), apply(p.emails(n), forgot))
	taken, fresh := p.compare("register, verified", "/register", 201, apply(verified, register), apply(p.emails(n), register))
	p.compare("register, unverified", "/register", 201, apply(pending, register), apply(p.emails(n), register))

	// The ids that registrations were answered with: those of taken addresses lead nowhere.
	check := func(body string) string { return strings.TrimSuffix(body, "}") + `,"otp":"wrong"}` }
	// Where the comparison before ended early, each id is tried several times, and never too often.
	tries := n / len(taken)
	p.compare("verify-email, id of such a registration", "/auth/verify-email", 400,
		slices.Repeat(apply(taken, check), tries), slices.Repeat(apply(fresh, check), tries))
}

// timing compares pairs of calls.
type timing struct {
	*world
	random *rand.Rand
	bound  float64
	early  bool // half of the calls may be enough
}

func (p *timing) emails(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = uuid.NewString() + "@example.com"
	}
	return out
}

// tenants inserts tenants as registrations that were verified would, but with one password, which
// need not be hashed n times.
func (p *timing) tenants(n int) []string {
	p.T.Helper()
	emails := p.emails(n)
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	p.Exec(testenv.InsertTenants, ids, emails, "Ada Stores", p.hash(), p.Clock.Now())
	return emails
}

// pending inserts registrations that wait for their code.
func (p *timing) pending(n int) []string {
	p.T.Helper()
	emails := p.emails(n)
	p.Exec(`INSERT INTO pending_registrations (id, name, email, password_hash, code_hash, code_expires_at, created_at)
		SELECT gen_random_uuid(), 'Ada Stores', unnest($1::text[]), $2, 'x', $3::timestamptz + interval '10 minutes', $3`, emails, p.hash(), p.Clock.Now())
	return emails
}

func (p *timing) hash() string {
	p.T.Helper()
	hash, err := secret.HashPassword(p.T.Context(), secret.Redact(password))
	require.NoError(p.T, err)
	return hash
}

func apply(in []string, f func(string) string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = f(s)
	}
	return out
}

// compare makes the calls in random order, one after the other, requires the status, and returns
// the bodies that they were answered with.
func (p *timing) compare(what, path string, status int, known, unknown []string) (knownBodies, unknownBodies []string) {
	p.T.Helper()
	bodies, took := map[bool][]string{}, map[bool][]time.Duration{}
	var first string
	var chance float64
	all := min(len(known), len(unknown))
	for _, part := range [][2]int{{0, all / 4}, {all / 4, all}} {
		var calls []call
		for i := part[0]; i < part[1]; i++ {
			calls = append(calls, call{true, path, known[i]}, call{false, path, unknown[i]})
		}
		p.random.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
		for _, c := range calls {
			r, d := p.timed(c)
			if first == "" {
				first = r.form()
			}
			require.Equal(p.T, status, r.Status, "%s: %s", what, r.Body)
			require.Equal(p.T, first, r.form(), "%s: the answers differ", what)
			bodies[c.known], took[c.known] = append(bodies[c.known], r.Body), append(took[c.known], d)
		}
		if chance = longer(took[true], took[false]); p.early && chance > 0.5-earlyBound && chance < 0.5+earlyBound {
			break
		}
	}
	p.T.Logf("%-40s known %s  unknown %s  p = %.3f", what, percentiles(took[true]), percentiles(took[false]), chance)
	if chance < 0.5-p.bound || chance > 0.5+p.bound {
		p.T.Errorf("%s: the time tells known e-mails from unknown ones: p = %.3f", what, chance)
	}
	return bodies[true], bodies[false]
}

// timed makes a call and measures it, from before the request is written until the answer has been
// read.
func (p *timing) timed(c call) (reply, time.Duration) {
	p.T.Helper()
	req, err := http.NewRequest("POST", p.url+c.path, strings.NewReader(c.body))
	require.NoError(p.T, err)
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := p.client.Do(req)
	require.NoError(p.T, err)
	body, err := io.ReadAll(resp.Body)
	took := time.Since(start)
	require.NoError(p.T, err)
	require.NoError(p.T, resp.Body.Close())
	return reply{p.T, resp.StatusCode, resp.Header, string(body)}, took
}

var randomID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// form is all that an answer consists of, but for what differs with every call: random ids, the
// time, and how many calls the client's address has left.
func (r reply) form() string {
	h := r.Header.Clone()
	for _, name := range []string{"Date", "X-Request-ID", "RateLimit-Remaining", "RateLimit-Reset"} {
		if h.Get(name) != "" {
			h.Set(name, "…")
		}
	}
	var b strings.Builder
	_ = h.Write(&b) // in the order of the names
	return fmt.Sprint(r.Status, "\n", b.String(), "\n", randomID.ReplaceAllString(r.Body, "…"))
}

// longer is the probability that one of a is longer than one of b, ties counted half (Mann and
// Whitney's U by the number of pairs).
func longer(a, b []time.Duration) float64 {
	type sample struct {
		took time.Duration
		of   int // 0: a, 1: b
	}
	var all []sample
	for of, side := range [][]time.Duration{a, b} {
		for _, d := range side {
			all = append(all, sample{d, of})
		}
	}
	slices.SortFunc(all, func(x, y sample) int { return cmp.Compare(x.took, y.took) })
	var u, shorter float64
	for i := 0; i < len(all); {
		var same [2]float64
		for took := all[i].took; i < len(all) && all[i].took == took; i++ {
			same[all[i].of]++
		}
		u += same[0] * (shorter + same[1]/2)
		shorter += same[1]
	}
	return u / float64(len(a)*len(b))
}

func percentiles(took []time.Duration) string {
	took = slices.Sorted(slices.Values(took))
	var b strings.Builder
	for _, p := range []int{10, 50, 90, 99} {
		fmt.Fprintf(&b, "p%d %.2f ", p, float64(took[min(len(took)*p/100, len(took)-1)].Microseconds())/1000)
	}
	return strings.TrimSpace(b.String())
}

func TestLonger(t *testing.T) {
	t.Parallel()
	ms := func(n ...time.Duration) []time.Duration { return n }
	require.Equal(t, 1.0, longer(ms(3, 4), ms(1, 2)))
	require.Equal(t, 0.0, longer(ms(1, 2), ms(3, 4)))
	require.Equal(t, 0.5, longer(ms(1, 2), ms(1, 2)))
	require.Equal(t, 0.875, longer(ms(2, 3), ms(1, 2)))
	require.Equal(t, 0.875, longer(ms(2, 2), ms(1, 1, 1, 2)))
}
