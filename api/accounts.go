package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/account"
	"ajo/internal/page"
	"ajo/internal/tenant"
	"ajo/ledger"
)

// accountRef is the parameter of the paths below.
const accountRef = "accountRef"

// provisionAccount is POST /v1/accounts and POST /auth/accounts; the second is an addition.
func (e *edge) provisionAccount(c *fiber.Ctx) error {
	in := readBody(c)
	n := account.NewAccount{
		ExternalRef: in.text("externalRef"), Name: in.text("name"), BVN: in.secret("bvn"), CallbackURL: in.optional("callbackUrl"),
		ExpectedAmount: in.amount("expectedAmount"), ExpiresAt: in.time("expiresAt"), Mode: in.text("mode"),
		Policy: policyOf(in), By: e.member(c), Standing: e.standing(c),
	}
	if err := in.err(); err != nil {
		return err
	}
	if err := mayRefund(c, n.Policy); err != nil {
		return err
	}
	key, done, err := e.keyOf(c, in.hinting("bvn"))
	if err == nil && !done {
		var p account.Provisioned
		p, err = e.Accounts.Provision(c.UserContext(), caller(c).ID, n, key)
		err = e.answerOnce(c, key, p.Result, e.turnedAway(c, err))
	}
	if err != nil {
		return err
	}
	e.warnOfCallback(c, "callbackUrl", n.CallbackURL)
	return nil
}

// policyOf reads an account's policy, an addition; nil when it is missing or null.
func policyOf(in *body) *account.Policy {
	p := in.object("policy")
	if p == nil {
		return nil
	}
	return &account.Policy{
		Exact: account.Action(p.text("exact")), Under: account.Action(p.text("under")), Over: account.Action(p.text("over")), Late: account.Action(p.text("late")),
	}
}

// mayRefund refuses a policy that refunds payments to a key that may not: money leaves by it.
func mayRefund(c *fiber.Ctx, p *account.Policy) error {
	if !p.Refunds() {
		return nil
	}
	return caller(c).Key.Allows(tenant.PayoutsCreate)
}

// splitOf reads an account's split, an addition; nil when it is missing or null.
func splitOf(in *body) *[]account.NewShare {
	s := in.object("split")
	if s == nil {
		return nil
	}
	shares := []account.NewShare{}
	for _, x := range s.objects("shares", account.MaxShares) {
		n := account.NewShare{AccountRef: x.text("accountRef"), Percent: x.text("percent"), Amount: x.text("amount")}
		if _, ok := x.value("remainder"); ok {
			n.Remainder = x.flag("remainder")
		}
		shares = append(shares, n)
	}
	return &shares
}

// listAccounts is GET /v1/accounts and GET /auth/accounts. Its search and status filters and its
// orders are an addition.
func (e *edge) listAccounts(c *fiber.Ctx) error {
	search, err := searchText(c)
	if err != nil {
		return err
	}
	sort, err := sortedBy(c, "created", "name", "balance")
	if err != nil {
		return err
	}
	f := account.Filter{Search: search, Status: account.Status(c.Query("status"))}
	return answerPage(c, "accounts", func(r page.Request) ([]account.Listed, page.Info, error) {
		r.Sort = sort
		return e.Accounts.List(c.UserContext(), caller(c).ID, f, r)
	})
}

// getAccount is GET /v1/accounts/:accountRef and GET /auth/accounts/:accountRef.
func (e *edge) getAccount(c *fiber.Ctx) error {
	a, err := e.Accounts.Get(c.UserContext(), caller(c).ID, pathParam(c, accountRef))
	return answer(c, a, err)
}

// updateAccount is PATCH /v1/accounts/:accountRef. A split takes the scope accounts:transfer, too,
// and a policy that refunds, or another expected amount beside one, takes payouts:create.
func (e *edge) updateAccount(c *fiber.Ctx) error {
	in := readBody(c)
	ch := account.Changes{Name: in.optional("name"), CallbackURL: in.optional("callbackUrl"), ExpectedAmount: in.amount("expectedAmount"), Policy: policyOf(in), Split: splitOf(in)}
	ch.NoRefunds = caller(c).Key.Allows(tenant.PayoutsCreate)
	if err := in.err(); err != nil {
		return err
	}
	if err := mayRefund(c, ch.Policy); err != nil {
		return err
	}
	if ch.Split != nil { // it moves money between accounts
		if err := caller(c).Key.Allows(tenant.AccountsTransfer); err != nil {
			return err
		}
	}
	a, err := e.Accounts.Update(c.UserContext(), caller(c).ID, pathParam(c, accountRef), ch, e.acting(c))
	if err != nil {
		return err
	}
	e.warnOfCallback(c, "callbackUrl", ch.CallbackURL)
	return c.JSON(a)
}

// expireAccount is POST /v1/accounts/:accountRef/expire. It reads no body. The close at the bank
// follows. Where the account's policy refunds late payments, it takes payouts:create, too.
func (e *edge) expireAccount(c *fiber.Ctx) error {
	key, done, err := e.keyOf(c, c.Request().Body())
	if err != nil || done {
		return err
	}
	end := account.Ending{Reason: "requested by the tenant", NoRefunds: caller(c).Key.Allows(tenant.PayoutsCreate), By: e.acting(c)}
	r, err := e.Accounts.Expire(c.UserContext(), caller(c).ID, pathParam(c, accountRef), end, key)
	return e.answerOnce(c, key, r, err)
}

// balance is GET /v1/accounts/:accountRef/balance and GET /auth/accounts/:accountRef/balance.
func (e *edge) balance(c *fiber.Ctx) error {
	b, err := e.Accounts.Balance(c.UserContext(), caller(c).ID, pathParam(c, accountRef))
	return answer(c, b, err)
}

// tenantBalance is GET /v1/balance, an addition: the sums over all accounts.
func (e *edge) tenantBalance(c *fiber.Ctx) error {
	f, err := e.Accounts.TenantBalance(c.UserContext(), caller(c).ID)
	return answer(c, f, err)
}

// history is GET /v1/accounts/:accountRef/history and GET /auth/accounts/:accountRef/history; the
// list is null when nothing is recorded.
func (e *edge) history(c *fiber.Ctx) error {
	list, err := e.Accounts.History(c.UserContext(), caller(c).ID, pathParam(c, accountRef))
	if err != nil {
		return err
	}
	if len(list) == 0 {
		list = nil
	}
	return c.JSON(struct {
		History []account.HistoryEntry `json:"history"`
	}{list})
}

// statement is GET /v1/accounts/:accountRef/statement, which has no filter, as specified.
func (e *edge) statement(c *fiber.Ctx) error { return e.statementPage(c, ledger.Filter{}) }

// filteredStatement is GET /auth/accounts/:accountRef/statement, an addition: lines by filter and
// order.
func (e *edge) filteredStatement(c *fiber.Ctx) error {
	f, err := statementFilter(c)
	if err != nil {
		return err
	}
	up, err := ascending(c)
	if err != nil {
		return err
	}
	f.NewestFirst = !up && c.Query("order") != ""
	return e.statementPage(c, f)
}

func (e *edge) statementPage(c *fiber.Ctx, f ledger.Filter) error {
	r, err := pageRequest(c, page.DefaultStatement)
	if err != nil {
		return err
	}
	s, err := e.Accounts.Statement(c.UserContext(), caller(c).ID, pathParam(c, accountRef), f, r)
	return answer(c, s, err)
}
