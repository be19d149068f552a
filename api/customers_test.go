package api

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/customer"
	"ajo/internal/fakebank"
	"ajo/internal/spec"
	"ajo/internal/testenv"
)

// customer opens an account for the reference and returns the id of its customer.
func (w *world) customer(m member, ref, name string) string {
	w.T.Helper()
	var a struct{ CustomerID uuid.UUID }
	w.do("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":%q,"name":%q}`, ref, name), m.withKey()...).ok(201, &a)
	return a.CustomerID.String()
}

func TestGoldenCustomers(t *testing.T) {
	spec.Shows(t, "field.customer.id", "field.customer.name", "field.customer.bvn", "field.customer.bvn.null", "field.customer.nin",
		"field.customer.nin.null", "field.customer.tier.one", "field.customer.tier.two", "field.customer.kyc.none", "field.customer.kyc.pending",
		"field.customer.kyc.approved", "field.customer.kyc.rejected", "field.customer.status.active", "field.case.customer",
		"state.customer-kyc.approve", "state.customer-kyc.reject", "endpoint.approve", "endpoint.reject", "endpoint.customers.list",
		"endpoint.customers.get", "endpoint.customers.patch", "endpoint.customers.account", "endpoint.kyc", "endpoint.kyc.success",
		"endpoint.kyc.unavailable")
	w := setup(t)
	m := w.onboard()
	key, session := m.withKey(), m.withSession()
	golden(t, "customers-none", w.do("GET", "/v1/customers", "", key...).ok(200, nil))
	id := w.customer(m, "shop-1", "Ada Obi")
	other := w.customer(m, "shop-2", "Bola Ade")
	golden(t, "customer-new", w.do("GET", "/v1/customers/"+id, "", key...).ok(200, nil))
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi","bvn":"22233344455"}`, key...).ok(201, nil)
	golden(t, "kyc-approved", w.do("POST", "/v1/customers/"+id+"/kyc", `{"nin":"`+ninOfAda+`"}`, key...).ok(200, nil))
	golden(t, "customer", w.do("GET", "/v1/customers/"+id, "", key...).ok(200, nil))
	golden(t, "customers", w.do("GET", "/v1/customers?limit=1", "", key...).ok(200, nil))
	golden(t, "customer-renamed", w.do("PATCH", "/v1/customers/"+id, `{"name":" Ada & Sons "}`, key...).ok(200, nil))
	golden(t, "customer-account", w.do("GET", "/v1/customers/"+id+"/account", "", key...).ok(200, nil))

	golden(t, "kyc-pending", w.do("POST", "/v1/customers/"+other+"/kyc", `{"nin":"`+ninUnclear+`"}`, key...).ok(200, nil))
	golden(t, "kyc-reject", w.do("POST", "/auth/customers/"+other+"/kyc/reject", "", session...).ok(200, nil))
	golden(t, "kyc-rejected", w.do("POST", "/v1/customers/"+other+"/kyc", `{"nin":"11111111111"}`, key...).ok(200, nil))
	// somebody else's
	w.do("POST", "/v1/customers/"+other+"/kyc", `{"nin":"`+ninOfAda+`"}`, key...).ok(200, nil)
	var seen struct{ UpdatedAt string }
	w.do("GET", "/v1/customers/"+other, "", key...).ok(200, &seen)
	for _, verb := range []string{"approve", "reject"} {
		path := "/auth/customers/" + other + "/kyc/" + verb
		w.do("POST", path+"?updatedAt=yesterday", "", session...).refused(400, "updatedAt must be a date such as 2026-01-30 or an ISO 8601 time such as 2026-01-30T12:15:00Z")
		w.do("POST", path+"?updatedAt=2026-01-30T12:15:00Z", "", session...).refused(409, "the customer has changed since it was shown: look at it again")
	}
	golden(t, "kyc-approve", w.do("POST", "/auth/customers/"+other+"/kyc/approve?updatedAt="+seen.UpdatedAt, "", session...).ok(200, nil))
}

func TestCustomerPages(t *testing.T) {
	spec.Shows(t, "limit.page.customers", "endpoint.customers.list.after")
	w := setup(t)
	m := w.onboard()
	for i := range 21 {
		w.customer(m, fmt.Sprintf("shop-%d", i), "Ada Obi")
	}
	type answer struct {
		Customers  []customer.Customer
		Pagination struct {
			Limit      int
			NextCursor *string
			HasMore    bool
		}
	}
	var first, second answer
	w.do("GET", "/v1/customers", "", m.withKey()...).ok(200, &first)
	require.Len(t, first.Customers, 20)
	require.Equal(t, "shop-20", first.Customers[0].ExternalRef, "newest first")
	require.Equal(t, 20, first.Pagination.Limit)
	require.True(t, first.Pagination.HasMore)
	w.do("GET", "/v1/customers?after="+*first.Pagination.NextCursor, "", m.withKey()...).ok(200, &second)
	require.Len(t, second.Customers, 1)
	require.Equal(t, "shop-0", second.Customers[0].ExternalRef)
	require.Nil(t, second.Pagination.NextCursor)
	require.False(t, second.Pagination.HasMore)
}

func TestCustomerErrors(t *testing.T) {
	spec.Shows(t, "field.customer.tier.three.self", "field.case.request", "state.customer-kyc.not-pending", "endpoint.customers.id",
		"endpoint.customers.patch.name", "endpoint.customers.account.404", "endpoint.kyc.nin", "endpoint.kyc.required")
	spec.Shows(t, "error.message.no-account", "error.message.nin", "error.message.kyc-pending", "error.message.kyc-tier", "error.other.customer")
	w := setup(t)
	m := w.onboard()
	key, session := m.withKey(), m.withSession()
	fresh, pending := "/v1/customers/"+w.customer(m, "fresh", "Ada Obi"), "/v1/customers/"+w.customer(m, "pending", "Ada Obi")
	approved, suspended := "/v1/customers/"+w.customer(m, "approved", "Ada Obi"), "/v1/customers/"+w.customer(m, "suspended", "Ada Obi")
	w.bank.Faults.SetDown(fakebank.DownAnswer)
	w.do("POST", "/v1/accounts", `{"externalRef":"bare","name":"Ada Obi"}`, key...).refused(502, "provider error: failed to provision virtual account")
	w.bank.Faults.SetDown(fakebank.Up)
	bare := "/v1/customers/" + testenv.Value[string](w.Env, `SELECT id::text FROM customers WHERE external_ref = 'bare'`)
	const good, unclear = `{"nin":"` + ninOfAda + `"}`, `{"nin":"` + ninUnclear + `"}`
	w.do("POST", approved+"/kyc", good, key...).ok(200, nil)
	w.do("POST", pending+"/kyc", unclear, key...).ok(200, nil)
	w.Exec(`UPDATE customers SET status = 'suspended' WHERE external_ref = 'suspended'`)
	auth := func(path string) string { return strings.Replace(path, "/v1/", "/auth/", 1) + "/kyc/" }
	unknown := "/v1/customers/" + uuid.NewString()
	for _, c := range []struct {
		method, path, body string
		headers            header
		status             int
		text               string
	}{
		{"GET", "/v1/customers?limit=0", "", key, 400, "limit must be a whole number from 1 to 100"},
		{"GET", "/v1/customers?after=x", "", key, 400, "invalid cursor"},
		{"GET", unknown, "", key, 404, "customer not found"},
		{"GET", "/v1/customers/shop-1", "", key, 404, "customer not found"},
		{"GET", "/v1/customers/%00", "", key, 404, "customer not found"},
		{"GET", "/v1/customers/00000000-0000-0000-0000-000000000000", "", key, 404, "customer not found"},
		{"DELETE", fresh, "", key, 405, "method not allowed"},
		{"PATCH", fresh, ``, key, 400, "invalid JSON body"},
		{"PATCH", fresh, `{}`, key, 400, "name is required"},
		{"PATCH", fresh, `{"Name":"X"}`, key, 400, "name is required"},
		{"PATCH", fresh, `{"name":"  "}`, key, 400, "name is required"},
		{"PATCH", fresh, `{"name":null}`, key, 400, "name is required"},
		{"PATCH", fresh, `{"name":7}`, key, 400, "name must be a string"},
		{"PATCH", fresh, `{"name":"a\tb"}`, key, 400, "name must not contain control characters"},
		{"PATCH", fresh, `{"name":"` + strings.Repeat("x", 201) + `"}`, key, 400, "name must be at most 200 characters"},
		{"PATCH", unknown, `{"name":"X"}`, key, 404, "customer not found"},
		{"GET", unknown + "/account", "", key, 404, "customer not found"},
		{"GET", bare + "/account", "", key, 404, "no account linked to this customer"},
		{"POST", fresh + "/kyc", `{}`, key, 400, "nin must be exactly 11 digits"},
		{"POST", fresh + "/kyc", `{"nin":null}`, key, 400, "nin must be exactly 11 digits"},
		{"POST", fresh + "/kyc", `{"nin":"1234567890"}`, key, 400, "nin must be exactly 11 digits"},
		{"POST", fresh + "/kyc", `{"nin":"123456789012"}`, key, 400, "nin must be exactly 11 digits"},
		{"POST", fresh + "/kyc", `{"nin":"1234567890a"}`, key, 400, "nin must be exactly 11 digits"},
		{"POST", fresh + "/kyc", `{"nin":70123456789}`, key, 400, "nin must be exactly 11 digits"},
		{"POST", fresh + "/kyc", `{"nin":true}`, key, 400, "nin must be exactly 11 digits"},
		{"POST", fresh + "/kyc", `{"nin":["70123456789"]}`, key, 400, "nin must be exactly 11 digits"},
		{"POST", fresh + "/kyc", `{"nin":{}}`, key, 400, "nin must be exactly 11 digits"},
		{"POST", fresh + "/kyc", `{"nin":"70123456789","NIN":"1"}`, key, 400, `duplicate field "NIN"`},
		{"POST", unknown + "/kyc", `{"nin":"1"}`, key, 400, "nin must be exactly 11 digits"},
		{"POST", unknown + "/kyc", good, key, 404, "customer not found"},
		{"POST", approved + "/kyc", good, key, 400, "customer is already at tier 2 or above"},
		{"POST", pending + "/kyc", good, key, 400, "kyc submission already pending review"},
		{"POST", suspended + "/kyc", good, key, 403, "customer is suspended"},
		{"POST", "/v1/accounts", `{"externalRef":"suspended","name":"Ada","mode":"onetime"}`, key, 403, "customer is suspended"},
		{"POST", auth(unknown) + "approve", "", session, 404, "customer not found"},
		{"POST", auth("/v1/customers/x") + "reject", "", session, 404, "customer not found"},
		{"POST", auth(fresh) + "approve", "", session, 422, "customer kyc is not pending review"},
		{"POST", auth(approved) + "reject", "", session, 422, "customer kyc is not pending review"},
		{"POST", auth(pending) + "approve", "", key, 401, "unauthorized"},
		{"POST", auth(pending) + "approve", "", append(header{"Sec-Fetch-Site", "cross-site"}, session...), 403, "cross-site request refused"},
	} {
		t.Run(c.method+" "+c.path+" "+c.body, func(t *testing.T) {
			w.do(c.method, c.path, c.body, c.headers...).refused(c.status, c.text)
		})
	}
	w.do("GET", suspended, "", key...).ok(200, nil)
	w.do("PATCH", suspended, `{"name":"Ada"}`, key...).ok(200, nil)
	w.do("GET", suspended+"/account", "", key...).ok(200, nil)
}

// In production only an operator's session decides, for the customers of any tenant.
func TestKYCReviewInProduction(t *testing.T) {
	spec.Shows(t, "state.customer-kyc.operator")
	w := setup(t, func(o *Options) {
		c := o.Customers.Options
		c.Production = true
		o.Customers = customer.New(c)
	})
	m, operator := w.onboard(), w.onboard()
	w.Exec(`UPDATE tenants SET operator = true WHERE id = $1`, operator.id)
	w.read(m.withSession(), "/auth/member").has(t, fields{"reviewsKYC": false})
	w.read(operator.withSession(), "/auth/member").has(t, fields{"reviewsKYC": true})
	for _, c := range []struct{ decision, status string }{{"approve", "approved"}, {"reject", "rejected"}} {
		theirs, own := w.customer(m, c.decision, "Ada Obi"), w.customer(operator, c.decision, "Ada Obi")
		w.do("POST", "/v1/customers/"+theirs+"/kyc", `{"nin":"`+ninUnclear+`"}`, m.withKey()...).ok(200, nil)
		w.do("POST", "/v1/customers/"+own+"/kyc", `{"nin":"`+ninUnclear+`"}`, operator.withKey()...).ok(200, nil)
		w.do("POST", "/auth/customers/"+theirs+"/kyc/"+c.decision, "", m.withSession()...).refused(403, "operator session required")
		for _, id := range []string{own, theirs} {
			var got customer.Customer
			w.do("POST", "/auth/customers/"+id+"/kyc/"+c.decision, "", operator.withSession()...).ok(200, &got)
			require.Equal(t, c.status, string(got.KYCStatus))
		}
		w.do("POST", "/auth/customers/"+uuid.NewString()+"/kyc/"+c.decision, "", operator.withSession()...).refused(404, "customer not found")
	}
}

// BVN and NIN stand in no answer, no log line and no column but sealed.
func TestNumbersAreNotShown(t *testing.T) {
	spec.Shows(t, "field.customer.bvn.never", "field.customer.nin.never")
	w := setup(t)
	m := w.onboard()
	const bvn = "22233344455"
	var seen strings.Builder
	call := func(method, path, body string, h header) {
		seen.WriteString(w.do(method, path, body, h...).Body)
	}
	id := w.customer(m, "shop-1", "Ada Obi")
	call("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi","bvn":"`+bvn+`"}`, m.withKey())
	call("POST", "/v1/customers/"+id+"/kyc", `{"nin":"`+ninUnclear+`"}`, m.withKey())
	call("POST", "/v1/customers/"+id+"/kyc", `{"nin":"`+ninUnclear+`"}`, m.withKey())
	call("GET", "/v1/customers/"+id, "", m.withKey())
	call("GET", "/v1/customers", "", m.withKey())
	call("POST", "/auth/customers/"+id+"/kyc/reject", "", m.withSession())
	call("POST", "/v1/customers/"+id+"/kyc", `{"nin":"`+ninOfAda+`"}`, m.withKey())
	row := testenv.Value[string](w.Env, `SELECT c::text FROM customers c`)
	audit := testenv.Value[string](w.Env, `SELECT string_agg(a::text, '') FROM audit_log a`)
	for _, number := range []string{bvn, ninOfAda, ninUnclear} {
		for where, text := range map[string]string{"answers": seen.String(), "row": row, "audit": audit} {
			require.NotContains(t, text, number, where)
		}
		w.log.HasNot(t, number)
	}
	require.Contains(t, seen.String(), `"NINLast4":"6789"`)
	require.Contains(t, seen.String(), `"BVNLast4":"4455"`)
}

// What is kept of a request under its key does not give away the BVN: a hash of the body would,
// since a program can try all numbers with the rest of it, which is no secret.
func TestAKeptRequestHasNoBVN(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	body := func(bvn string) string {
		return fmt.Sprintf(`{"bvn":%q,"externalRef":"shop-1","name":"Ada Obi"}`, bvn)
	}
	hash := func(body string) []byte { // as of any request
		h := sha256.New()
		for _, part := range []string{"POST", "/v1/accounts", body} {
			_ = binary.Write(h, binary.BigEndian, uint64(len(part)))
			h.Write([]byte(part))
		}
		return h.Sum(nil)
	}
	key := append(m.withKey(), "Idempotency-Key", "k")
	first := w.do("POST", "/v1/accounts", body("22233344455"), key...).ok(201, nil)
	kept := testenv.Value[[]byte](w.Env, `SELECT request_hash FROM idempotency_keys WHERE tenant_id = $1`, m.id)
	require.NotEqual(t, hash(body("22233344455")), kept)
	require.Equal(t, hash(body("4455")), kept, "the last four digits are shown anyway")
	require.Equal(t, first.Body, w.do("POST", "/v1/accounts", body("22233344455"), key...).ok(201, nil).Body)
	w.do("POST", "/v1/accounts", body("22233344456"), key...).refused(422, "Idempotency-Key was already used with a different request")
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, key...).refused(422, "Idempotency-Key was already used with a different request")
}

// One tenant's submissions of NINs leave connections to the NIN service to other tenants: without
// one for ten seconds, a check is unanswered, and the customer waits for a person.
func TestOneTenantsNINsHoldUpNobody(t *testing.T) {
	w := setup(t)
	greedy, other := w.onboard(), w.onboard()
	held := make(chan struct{})
	const nobodys = "70000000001"
	slow := func(nin string) fakebank.Rule {
		return fakebank.Rule{On: fakebank.OnNIN, Match: nin, Do: fakebank.Slow, Delay: time.Minute, Until: held}
	}
	w.bank.Faults.Set(slow(nobodys), slow(ninOfAda))
	checked := func(rule int) int { return w.bank.Faults.Rules()[rule].Struck }
	submit := func(m member, id, nin string) <-chan reply {
		return w.asked("POST", "/v1/customers/"+id+"/kyc", `{"nin":"`+nin+`"}`, m.withKey()...)
	}
	var ids []string // made before the first check begins, which waits no longer than a request may
	for i := range checksAtOnce + 4 {
		ids = append(ids, w.customer(greedy, fmt.Sprintf("shop-%d", i), "Ada Obi"))
	}
	id := w.customer(other, "shop-1", "Ada Obi")
	var many []<-chan reply
	for _, id := range ids {
		many = append(many, submit(greedy, id, nobodys))
	}
	testenv.Eventually(t, 10*time.Second, "the tenant's NINs are checked", func() bool { return checked(0) >= checksAtOnce/4 })
	got := submit(other, id, ninOfAda)
	testenv.Eventually(t, 10*time.Second, "the other's NIN is checked beside them", func() bool { return checked(1) == 1 })
	require.Equal(t, checksAtOnce/4, checked(0))
	close(held)
	r := <-got
	r.ok(200, nil)
	require.Contains(t, r.Body, `"KYCStatus":"approved"`)
	for _, got := range many {
		<-got
	}
}
