package api

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/spec"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
)

var invitationForm = regexp.MustCompile(`(?m)^ {4}[A-Za-z0-9_-]{43}$`)

// invitation waits for the code in the last mail to an address.
func (w *world) invitation(to string) (code string) {
	w.T.Helper()
	testenv.Eventually(w.T, 10*time.Second, "a mail with a code", func() bool {
		w.mails.mu.Lock()
		defer w.mails.mu.Unlock()
		for _, m := range w.mails.sent {
			if m.To == to {
				code = strings.TrimSpace(invitationForm.FindString(m.Text))
			}
		}
		return code != ""
	})
	return code
}

// joins makes a member of the owner's tenant with a role, all over HTTP. Its key is the tenant's.
func (w *world) joins(owner member, role tenant.Role) member {
	w.T.Helper()
	m := member{id: owner.id, key: owner.key, email: uuid.NewString() + "@example.com"}
	w.do("POST", "/auth/members", fmt.Sprintf(`{"email":%q,"role":%q}`, m.email, role), owner.withSession()...).ok(201, nil)
	r := w.do("POST", "/auth/accept-invitation", fmt.Sprintf(`{"code":%q,"name":"Bayo Ade","password":%q}`, w.invitation(m.email), password)).ok(200, nil)
	m.cookie, _, _ = strings.Cut(r.Header.Get("Set-Cookie"), ";")
	return m
}

// Every route that takes a session has a role. A member without it is refused, with a text that
// names it, and changes nothing; one with it, and the owner, are let in.
func TestRoutesAndRoles(t *testing.T) {
	spec.Shows(t, "auth.roles")
	w := setup(t)
	owner := w.onboard()
	w.belongings(owner)
	sessions := map[tenant.Role]member{tenant.Owner: owner}
	for _, role := range tenant.Roles[1:] {
		sessions[role] = w.joins(owner, role)
	}
	may := func(role, need tenant.Role) bool {
		return role == need || role == tenant.Owner || need == tenant.Viewer
	}
	used, before := map[tenant.Role]bool{}, w.rows(owner)
	for _, r := range Routes { // first all that is refused
		if r.Credential != Session && r.Credential != SessionOrKey {
			require.Empty(t, r.Role, "%s %s takes no session", r.Method, r.Path)
			continue
		}
		require.Contains(t, tenant.Roles, r.Role, "%s %s", r.Method, r.Path)
		used[r.Role] = true
		for _, role := range tenant.Roles {
			if !may(role, r.Role) {
				w.do(r.Method, path(r), probes[r.Method+" "+r.Path].body, sessions[role].withSession()...).
					refused(403, fmt.Sprintf("this needs the role %s; yours is %s", r.Role, role))
			}
		}
	}
	require.Len(t, used, len(tenant.Roles), "a role that opens nothing")
	w.do("POST", "/auth/webhook-secret", "", owner.withKey()...).ok(200, nil) // an API key is not asked for a role
	require.Equal(t, before, w.rows(owner), "a refused request has changed nothing")
	for _, r := range Routes {
		for _, role := range slices.Backward(tenant.Roles) {
			if r.Role != "" && may(role, r.Role) {
				got := w.do(r.Method, path(r), probes[r.Method+" "+r.Path].body, sessions[role].withSession()...)
				require.NotContains(t, []int{401, 403, 500}, got.Status, "%s %s as %s: %s", r.Method, r.Path, role, got.Body)
			}
		}
	}
}

func TestMembersOverTheirLife(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	dev := w.joins(owner, tenant.Developer)
	me := w.read(dev.withSession(), "/auth/member")
	me.has(t, fields{"email": dev.email, "name": "Bayo Ade", "role": "developer"})
	w.read(dev.withSession(), "/auth/me").has(t, fields{"id": owner.id.String(), "email": owner.email})
	id := me["id"].(string)
	list := w.read(dev.withSession(), "/auth/members").list("members")
	require.Len(t, list, 2)
	list[0].has(t, fields{"id": id, "status": "active", "role": "developer"})
	list[1].has(t, fields{"email": owner.email, "role": "owner", "name": "Ada Stores"})

	w.do("POST", "/auth/keys", `{"name":"mine","scopes":["payouts:create"]}`, dev.withSession()...).
		refused(403, "a key with the scope payouts:create needs the role owner; yours is developer")
	w.do("POST", "/auth/members", fmt.Sprintf(`{"email":%q,"role":"viewer"}`, dev.email), owner.withSession()...).
		refused(409, "this e-mail address already belongs to a member")
	w.do("POST", "/auth/members", `{"email":"x@example.com","role":"owner"}`, owner.withSession()...).
		refused(400, "role must be one of finance, developer, viewer")
	w.ask("POST", "/auth/members/"+id+"/role", `{"role":"finance"}`, 200, owner.withSession()).has(t, fields{"role": "finance"})
	w.do("GET", "/auth/keys", "", dev.withSession()...).refused(403, "this needs the role developer; yours is finance")
	w.do("GET", "/auth/misdirected", "", dev.withSession()...).ok(200, nil)
	w.read(owner.withSession(), "/auth/audit?action=members.role").list("entries")[0].
		has(t, fields{"actor": "session:" + owner.email, "target": "member:" + id})

	stranger := w.onboard()
	for _, act := range []string{"role", "remove", "hand-over"} {
		body := map[string]string{"role": `{"role":"viewer"}`, "hand-over": fmt.Sprintf(`{"password":%q}`, password)}[act]
		w.do("POST", "/auth/members/"+id+"/"+act, body, stranger.withSession()...).refused(404, "member not found")
		w.do("POST", "/auth/members/x/"+act, body, owner.withSession()...).refused(404, "member not found")
	}
	handOver := "/auth/members/" + id + "/hand-over"
	w.do("POST", handOver, `{"password":"wrong horse"}`, owner.withSession()...).refused(400, "password is wrong")
	w.do("POST", handOver, `{}`, owner.withSession()...).refused(400, "password is required")
	w.ask("POST", handOver, fmt.Sprintf(`{"password":%q}`, password), 200, owner.withSession()).has(t, fields{"role": "owner"})
	w.do("POST", handOver, fmt.Sprintf(`{"password":%q}`, password), owner.withSession()...).refused(403, "this needs the role owner; yours is finance")
	w.read(dev.withSession(), "/auth/me").has(t, fields{"email": dev.email})
	w.do("POST", "/auth/rotate-key", "", dev.withSession()...).ok(200, nil)

	was := w.read(owner.withSession(), "/auth/member")["id"].(string)
	w.ask("POST", "/auth/members/"+was+"/remove", "", 200, dev.withSession()).has(t, fields{"status": "removed"})
	w.do("GET", "/auth/me", "", owner.withSession()...).refused(401, "unauthorized")
	w.do("POST", "/auth/login", fmt.Sprintf(`{"email":%q,"password":%q}`, owner.email, password)).refused(401, "invalid credentials")
	w.do("POST", "/auth/accept-invitation", fmt.Sprintf(`{"code":%q,"name":"X","password":%q}`, strings.Repeat("x", 43), password)).
		refused(400, "invalid or expired invitation")
}

func TestSessionsOverTheirLife(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	dev := w.joins(owner, tenant.Developer)
	other := member{cookie: w.login(dev.email)}
	own := w.read(dev.withSession(), "/auth/sessions?total=true").list("sessions")
	require.Len(t, own, 2)
	own[0].has(t, fields{"email": dev.email, "current": false, "address": "127.0.0.1", "endedAt": nil})
	own[1].has(t, fields{"current": true})
	all := w.read(owner.withSession(), "/auth/sessions").list("sessions")
	require.Len(t, all, 3)
	end := func(s fields) string { return "/auth/sessions/" + s["id"].(string) + "/end" }
	w.do("POST", end(all[2]), "", dev.withSession()...).refused(404, "session not found")
	w.do("POST", end(all[2]), "", w.onboard().withSession()...).refused(404, "session not found")
	w.do("POST", "/auth/sessions/x/end", "", dev.withSession()...).refused(404, "session not found")
	w.ask("POST", end(own[0]), "", 200, dev.withSession()).has(t, fields{"endedAt": w.now()})
	w.do("GET", "/auth/me", "", other.withSession()...).refused(401, "unauthorized")
	w.do("POST", end(own[1]), "", owner.withSession()...).ok(200, nil)
	w.do("GET", "/auth/me", "", dev.withSession()...).refused(401, "unauthorized")
	w.do("GET", "/auth/me", "", owner.withSession()...).ok(200, nil)
}
