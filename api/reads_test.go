package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/api"
)

// Each endpoint is read at the replica or at the primary for a reason: whoever adds one says where.
func TestOnlyListsStatementsAndExportsAreReadAtTheReplica(t *testing.T) {
	t.Parallel()
	primary := map[string]string{ // the GETs with a credential that are not
		"/auth/me":                                   "says who the session is",
		"/auth/webhook-events":                       "is a setting that the page writes next",
		"/auth/audit":                                "is read right after something was done",
		"/auth/audit.csv":                            "is read right after something was done",
		"/auth/member":                               "says who the session is",
		"/auth/members":                              "is read right after a member was invited or removed",
		"/auth/sessions":                             "is read right after a session was ended",
		"/auth/keys":                                 "is read right after a key was made or revoked",
		"/auth/webhook-endpoints":                    "is read right after one was added or changed",
		"/auth/deliveries/:id":                       "is the state of one thing",
		"/v1/transfers/banks":                        "is asked of the bank",
		"/auth/transfers/banks":                      "is asked of the bank",
		"/v1/fees/calculate":                         "reads two prices",
		"/v1/accounts/:accountRef":                   "is the state of one thing",
		"/auth/accounts/:accountRef":                 "is the state of one thing",
		"/v1/accounts/:accountRef/balance":           "settlements go by it",
		"/auth/accounts/:accountRef/balance":         "settlements go by it",
		"/v1/balance":                                "settlements go by it",
		"/v1/limits":                                 "settlements go by it",
		"/v1/beneficiaries":                          "is read right after one was saved",
		"/auth/beneficiaries":                        "is read right after one was saved",
		"/v1/beneficiaries/:id":                      "is the state of one thing",
		"/v1/holds/:id":                              "is the state of one thing",
		"/v1/events":                                 "ends where the primary's transactions do",
		"/auth/accounts/:accountRef/statement.pdf":   "is of one moment",
		"/auth/accounts/:accountRef/statement.xml":   "is of one moment",
		"/auth/statement.csv":                        "is of one moment",
		"/auth/statement.pdf":                        "is of one moment",
		"/auth/statement.xml":                        "is of one moment",
		"/v1/payments/:id":                           "is the state of one thing",
		"/auth/payments/:id":                         "is the state of one thing",
		"/auth/payments/:id/receipt.pdf":             "is the state of one thing",
		"/v1/customers/:id":                          "KYC",
		"/auth/customers/:id":                        "KYC",
		"/v1/customers/:id/account":                  "is the state of one thing",
		"/v1/transfers/:merchantTxRef":               "tells whether money has left",
		"/auth/transfers/:merchantTxRef":             "tells whether money has left",
		"/auth/transfers/:merchantTxRef/receipt.pdf": "tells whether money has left",
		"/auth/payout-policy":                        "is a setting that the page writes next",
		"/auth/transfers/:merchantTxRef/approval":    "is read right after a decision",
	}
	replica := 0
	for _, r := range api.Routes {
		why, named := primary[r.Path]
		switch {
		case r.Method != "GET", r.Credential == api.None:
			require.False(t, r.AtReplica(), "%s %s changes something, or is for everybody", r.Method, r.Path)
		case r.AtReplica():
			replica++
			require.False(t, named, "%s: %s", r.Path, why)
			require.False(t, strings.HasSuffix(r.Path, "/balance"), r.Path)
		default:
			require.True(t, named, "%s is read at neither", r.Path)
			delete(primary, r.Path)
		}
	}
	require.Equal(t, 22, replica, "all that the list names are routes")
	require.Empty(t, primary)
}
