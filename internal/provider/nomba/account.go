package nomba

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"ajo/internal/provider"
)

const (
	accountPath = "/v1/accounts/virtual"
	expiryForm  = "2006-01-02 15:04:05" // of expiryDate; in UTC, as the bank's other times
)

var nubanForm = regexp.MustCompile(`^[0-9]{10}$`)

// wireAccount is a virtual account as the bank shows it.
type wireAccount struct {
	AccountRef      text `json:"accountRef"`
	AccountName     text `json:"accountName"`
	BankName        text `json:"bankName"`
	Number          text `json:"bankAccountNumber"`
	BankAccountName text `json:"bankAccountName"`
	Expired         bool `json:"expired"`
}

// CreateAccount opens a virtual account under a.Ref, or returns the one that the reference has
// already (which may be closed).
//
// An unanswered call may have opened it, and how the bank refuses a reference that exists is not
// documented. So the POST is made once, and unless it gave a number, the bank is asked by reference
// before anything is said: a definite refusal is a [*provider.Rejection] only if the reference is
// unknown then, and any other error leaves it open whether there is an account; calling again with
// the same reference finishes it.
func (c *Client) CreateAccount(ctx context.Context, a provider.NewAccount) (opened provider.Account, err error) {
	defer c.observe("create_account", time.Now(), &err)
	if len(a.Ref) < 16 || len(a.Ref) > 64 {
		return opened, &Error{Call: "create_account", Msg: "the reference must have 16 to 64 characters", unsent: true}
	}
	body := struct {
		AccountRef     string      `json:"accountRef"`
		AccountName    string      `json:"accountName"`
		BVN            string      `json:"bvn,omitempty"`
		ExpectedAmount json.Number `json:"expectedAmount,omitempty"`
		ExpiryDate     string      `json:"expiryDate,omitempty"`
	}{AccountRef: a.Ref, AccountName: holderName(a.Name), BVN: a.BVN}
	if a.ExpectedAmount != nil {
		body.ExpectedAmount = a.ExpectedAmount.Number()
	}
	if a.ExpiresAt != nil {
		// Up to the next second: the number must not close before its time.
		body.ExpiryDate = a.ExpiresAt.UTC().Add(time.Second - 1).Format(expiryForm)
	}
	got, err := c.send(ctx, request{call: "create_account", method: http.MethodPost, path: accountPath, body: body})
	if err == nil {
		if opened, err = readAccount(got, a.Ref); err == nil {
			return opened, nil
		}
	}
	var e *Error
	if errors.As(err, &e) && e.unsent || ctx.Err() != nil {
		return provider.Account{}, err
	}
	found, askErr := c.account(ctx, "create_account", a.Ref)
	switch {
	case askErr == nil:
		return found, nil
	case errors.Is(askErr, provider.ErrUnknown):
		return provider.Account{}, err
	default:
		return provider.Account{}, &Error{
			Call: "create_account", Msg: "neither opened (" + err.Error() + ") nor found", Err: askErr,
		}
	}
}

// CloseAccount closes a virtual account. Closing a closed one succeeds; [provider.ErrUnknown] says
// that the bank has no account of that reference (any more, or yet). An unanswered call may have
// closed it: call again.
func (c *Client) CloseAccount(ctx context.Context, ref string) (err error) {
	defer c.observe("close_account", time.Now(), &err)
	a, err := c.ask(ctx, request{
		call: "close_account", method: http.MethodDelete, path: accountPath + "/" + url.PathEscape(ref),
	}, code01)
	if err != nil {
		return err
	}
	switch a.verdict() {
	case bare:
		return nil
	case success:
		var data struct {
			Expired *bool `json:"expired"`
		}
		if a.decode(&data) == nil && data.Expired != nil && !*data.Expired {
			return a.err("the account is still open")
		}
		return nil
	case later:
		return a.err("not closed")
	}
	// How the bank answers for a closed account is not documented: look.
	found, askErr := c.account(ctx, "close_account", ref)
	switch {
	case askErr == nil && found.Closed:
		return nil
	case errors.Is(askErr, provider.ErrUnknown):
		return askErr
	case askErr == nil && a.verdict() == refused:
		return a.rejection()
	default:
		return a.err("not closed")
	}
}

// FindAccount returns the account of a reference, open or closed, or [provider.ErrUnknown]. It only
// reads, so an unanswered call means nothing.
func (c *Client) FindAccount(ctx context.Context, ref string) (a provider.Account, err error) {
	defer c.observe("find_account", time.Now(), &err)
	return c.account(ctx, "find_account", ref)
}

// account asks for the account of a reference: [provider.ErrUnknown] where there is none. It only
// reads.
func (c *Client) account(ctx context.Context, call, ref string) (provider.Account, error) {
	a, err := c.ask(ctx, request{call: call, method: http.MethodGet, path: accountPath + "/" + url.PathEscape(ref)}, tooBusy)
	switch {
	case err != nil:
		return provider.Account{}, err
	case a.notKnown():
		return provider.Account{}, provider.ErrUnknown
	case a.verdict() == refused: // of the question: it says nothing about the account
		return provider.Account{}, a.err("the question was refused")
	}
	return readAccount(a, ref)
}

// readAccount reads an answer that must hold the account of ref. An answer without an account
// number is an error, whatever its code and HTTP status.
func readAccount(a answer, ref string) (provider.Account, error) {
	var w wireAccount
	switch a.verdict() {
	case success:
	case refused:
		return provider.Account{}, a.rejection()
	case duplicate:
		return provider.Account{}, a.err("the reference exists already")
	default:
		return provider.Account{}, a.err("no account in the answer")
	}
	if err := a.decode(&w); err != nil {
		return provider.Account{}, err
	}
	switch {
	case string(w.AccountRef) != ref:
		return provider.Account{}, a.err("the account in the answer is not the one asked for")
	case !nubanForm.MatchString(string(w.Number)):
		return provider.Account{}, a.err("no account number in the answer")
	}
	name := cmp.Or(w.BankAccountName, w.AccountName)
	return provider.Account{
		Ref: ref, Number: string(w.Number), Name: string(name), BankName: string(w.BankName), Closed: w.Expired,
	}, nil
}
