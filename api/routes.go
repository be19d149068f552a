package api

import "github.com/gofiber/fiber/v2"

// Credential is what an endpoint asks of its caller.
type Credential uint8

// The credentials (specification, "Endpoints").
const (
	None         Credential = iota
	Session                 // cookie service_session
	Key                     // header X-API-Key
	SessionOrKey            // the key where one is sent, else the cookie
	Signature               // the bank's HMAC; the use case checks it
)

// String returns the credential's name, for tests and the description of the interface.
func (c Credential) String() string {
	return [...]string{"None", "Session", "Key", "SessionOrKey", "Signature"}[c]
}

// Route is one endpoint. Limited rows are counted per address, as they need no credential.
type Route struct {
	Method, Path string
	Credential   Credential
	Limited      bool
	handle       func(*edge, *fiber.Ctx) error
}

// Routes are all the endpoints there are: the table of contents of this package.
var Routes = []Route{
	// onboarding.go
	{"POST", "/register", None, true, (*edge).registerTenant},
	{"POST", "/auth/verify-email", None, true, (*edge).verifyEmail},
	{"POST", "/auth/login", None, true, (*edge).login},
	{"POST", "/auth/login-link", None, true, (*edge).loginByLink},
	{"POST", "/auth/forgot-password", None, true, (*edge).forgotPassword},
	{"POST", "/auth/reset-password", None, true, (*edge).resetPassword},
	{"POST", "/auth/logout", None, false, (*edge).logout},

	// tenant.go
	{"GET", "/auth/me", Session, false, (*edge).me},
	{"POST", "/auth/password", Session, false, (*edge).changePassword},
	{"POST", "/auth/rotate-key", Session, false, (*edge).rotateKey},
	{"POST", "/auth/business-kyc", Session, false, (*edge).businessKYC},
	{"POST", "/auth/webhook-url", SessionOrKey, false, (*edge).setWebhookURL},
	{"POST", "/auth/webhook-secret", SessionOrKey, false, (*edge).webhookSecret},

	// misdirected.go
	{"GET", "/auth/misdirected", Session, false, (*edge).misdirected},

	// overview.go
	{"GET", "/auth/overview", Session, false, (*edge).overview},

	// accounts.go
	{"POST", "/v1/accounts", Key, false, (*edge).provisionAccount},
	{"GET", "/v1/accounts", Key, false, (*edge).listAccounts},
	{"GET", "/v1/accounts/:accountRef", Key, false, (*edge).getAccount},
	{"PATCH", "/v1/accounts/:accountRef", Key, false, (*edge).updateAccount},
	{"GET", "/v1/accounts/:accountRef/balance", Key, false, (*edge).balance},
	{"GET", "/v1/accounts/:accountRef/history", Key, false, (*edge).history},
	{"GET", "/v1/accounts/:accountRef/statement", Key, false, (*edge).statement},
	{"GET", "/v1/balance", Key, false, (*edge).tenantBalance},
	{"POST", "/v1/accounts/:accountRef/expire", Key, false, (*edge).expireAccount},
	{"GET", "/auth/accounts", Session, false, (*edge).listAccounts},
	{"GET", "/auth/accounts/:accountRef", Session, false, (*edge).getAccount},
	{"GET", "/auth/accounts/:accountRef/balance", Session, false, (*edge).balance},
	{"GET", "/auth/accounts/:accountRef/history", Session, false, (*edge).history},
	{"GET", "/auth/accounts/:accountRef/statement", Session, false, (*edge).filteredStatement},

	// export.go
	{"GET", "/auth/accounts/:accountRef/statement.csv", Session, false, (*edge).statementCSV},
	{"GET", "/auth/accounts/:accountRef/statement.pdf", Session, false, (*edge).statementPDF},

	// holds.go
	{"POST", "/v1/accounts/:accountRef/holds", Key, false, (*edge).placeHold},
	{"GET", "/v1/accounts/:accountRef/holds", Key, false, (*edge).listHolds},
	{"GET", "/v1/holds/:id", Key, false, (*edge).getHold},
	{"POST", "/v1/holds/:id/release", Key, false, (*edge).releaseHold},

	// customers.go
	{"GET", "/v1/customers", Key, false, (*edge).listCustomers},
	{"GET", "/v1/customers/:id", Key, false, (*edge).getCustomer},
	{"PATCH", "/v1/customers/:id", Key, false, (*edge).renameCustomer},
	{"GET", "/v1/customers/:id/account", Key, false, (*edge).customerAccount},
	{"POST", "/v1/customers/:id/kyc", Key, false, (*edge).submitKYC},
	{"GET", "/auth/customers", Session, false, (*edge).listCustomers},
	{"GET", "/auth/customers/:id", Session, false, (*edge).getCustomer},
	{"POST", "/auth/customers/:id/kyc/approve", Session, false, (*edge).approveKYC},
	{"POST", "/auth/customers/:id/kyc/reject", Session, false, (*edge).rejectKYC},

	// settle.go
	{"POST", "/v1/accounts/:accountRef/settle", Key, false, (*edge).settle},
	{"POST", "/v1/accounts/:accountRef/transfer", Key, false, (*edge).bookTransfer},

	// refunds.go
	{"POST", "/v1/entries/:id/refund", Key, false, (*edge).refundEntry},

	// transfers.go
	{"GET", "/v1/transfers", Key, false, (*edge).listTransfers},
	{"GET", "/v1/transfers/banks", Key, false, (*edge).listBanks},
	{"POST", "/v1/transfers/lookup", Key, false, (*edge).lookup},
	{"GET", "/v1/transfers/:merchantTxRef", Key, false, (*edge).getTransfer},
	{"GET", "/auth/transfers", Session, false, (*edge).listTransfers},
	{"GET", "/auth/transfers/:merchantTxRef", Session, false, (*edge).getTransfer},

	// fees.go
	{"GET", "/v1/fees/calculate", Key, false, (*edge).calculateFee},

	// deadletters.go
	{"GET", "/v1/webhooks/dead-letters", Key, false, (*edge).deadLetters},

	// deliveries.go
	{"GET", "/auth/deliveries", Session, false, (*edge).listDeliveries},
	{"GET", "/auth/deliveries/:id", Session, false, (*edge).getDelivery},
	{"POST", "/auth/deliveries/:id/replay", Session, false, (*edge).replayDelivery},

	// webhook_events.go
	{"GET", "/auth/webhook-events", Session, false, (*edge).webhookEvents},
	{"POST", "/auth/webhook-events", Session, false, (*edge).chooseWebhookEvents},
	{"POST", "/auth/webhook-test", Session, false, (*edge).testWebhook},

	// listen.go
	{"POST", "/auth/listen", Session, false, (*edge).listen},

	// provider_webhook.go
	{"POST", "/webhooks/provider", Signature, false, (*edge).providerWebhook},

	// health.go
	{"GET", "/health", None, false, (*edge).health},
	{"GET", "/ready", None, false, (*edge).ready},

	// document.go
	{"GET", "/openapi.json", None, false, (*edge).openAPIDocument},

	// docs.go
	{"GET", "/docs", None, false, (*edge).docs},
	{"GET", "/docs/:file", None, false, (*edge).docsAsset},

	// dashboard.go
	{"GET", "/", None, false, (*edge).root},
	{"GET", "/dashboard", None, false, (*edge).dashboardPage},
	{"GET", "/dashboard/", None, false, (*edge).dashboardPage},
	{"GET", "/dashboard/style.css", None, false, (*edge).dashboardStyle},
	{"GET", "/dashboard/:script", None, false, (*edge).dashboardScript},
}
