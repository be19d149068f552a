package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/tenant"
)

// Credential is what an endpoint requires of its caller.
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

// anyScope marks endpoints that every API key may use, whatever its scopes; see unscoped.
const anyScope tenant.Scope = ""

// unscoped has the endpoints with [anyScope], and why they accept every key.
var unscoped = map[endpoint]string{
	{"GET", "/v1/transfers/banks"}: "the list of banks is the same for everybody, and public",
	{"GET", "/v1/fees/calculate"}:  "it computes with public tiers and with the price that its tenant has agreed to",
}

// Route is one endpoint. Scope is what an API key needs there, and Role is what a session's member
// needs. Limited rows are counted per address, as they need no credential.
type Route struct {
	Method, Path string
	Credential   Credential
	Scope        tenant.Scope
	Role         tenant.Role
	Limited      bool
	handle       func(*edge, *fiber.Ctx) error
}

// Routes are all the endpoints there are: the table of contents of this package. Exceptions stand
// with their subjects: [unscoped], withoutTOTP (totp.go), liveOnly (forward.go), replicaEndpoints
// (reads.go).
var Routes = []Route{
	// onboarding.go
	{"POST", "/register", None, "", "", true, (*edge).registerTenant},
	{"POST", "/auth/verify-email", None, "", "", true, (*edge).verifyEmail},
	{"POST", "/auth/login", None, "", "", true, (*edge).login},
	{"POST", "/auth/login-link", None, "", "", true, (*edge).loginByLink},
	{"POST", "/auth/forgot-password", None, "", "", true, (*edge).forgotPassword},
	{"POST", "/auth/reset-password", None, "", "", true, (*edge).resetPassword},
	{"POST", "/auth/logout", None, "", "", false, (*edge).logout},

	// tenant.go
	{"GET", "/auth/me", Session, "", tenant.Viewer, false, (*edge).me},
	{"POST", "/auth/password", Session, "", tenant.Viewer, false, (*edge).changePassword},
	{"POST", "/auth/rotate-key", Session, "", tenant.Owner, false, (*edge).rotateKey},
	{"POST", "/auth/business-kyc", Session, "", tenant.Owner, false, (*edge).businessKYC},
	{"POST", "/auth/webhook-url", SessionOrKey, tenant.WebhooksWrite, tenant.Developer, false, (*edge).setWebhookURL},
	{"POST", "/auth/webhook-secret", SessionOrKey, tenant.WebhooksWrite, tenant.Developer, false, (*edge).webhookSecret},

	// members.go
	{"POST", "/auth/accept-invitation", None, "", "", true, (*edge).acceptInvitation},
	{"GET", "/auth/member", Session, "", tenant.Viewer, false, (*edge).ownMember},
	{"GET", "/auth/members", Session, "", tenant.Viewer, false, (*edge).listMembers},
	{"POST", "/auth/members", Session, "", tenant.Owner, false, (*edge).invite},
	{"POST", "/auth/members/:id/role", Session, "", tenant.Owner, false, (*edge).setRole},
	{"POST", "/auth/members/:id/remove", Session, "", tenant.Owner, false, (*edge).removeMember},
	{"POST", "/auth/members/:id/hand-over", Session, "", tenant.Owner, false, (*edge).handOver},
	{"GET", "/auth/sessions", Session, "", tenant.Viewer, false, (*edge).listSessions},
	{"POST", "/auth/sessions/:id/end", Session, "", tenant.Viewer, false, (*edge).endSession},

	// totp.go
	{"POST", "/auth/totp", Session, "", tenant.Viewer, false, (*edge).setUpTOTP},
	{"POST", "/auth/totp/confirm", Session, "", tenant.Viewer, false, (*edge).confirmTOTP},
	{"POST", "/auth/totp/off", Session, "", tenant.Viewer, false, (*edge).endTOTP},
	{"POST", "/auth/totp-required", Session, "", tenant.Owner, false, (*edge).requireTOTP},

	// keys.go
	{"GET", "/auth/keys", Session, "", tenant.Developer, false, (*edge).listKeys},
	{"POST", "/auth/keys", Session, "", tenant.Developer, false, (*edge).createKey},
	{"POST", "/auth/keys/:id/rotate", Session, "", tenant.Developer, false, (*edge).rotateOneKey},
	{"POST", "/auth/keys/:id/revoke", Session, "", tenant.Developer, false, (*edge).revokeKey},

	// audit.go
	{"GET", "/auth/audit", Session, "", tenant.Owner, false, (*edge).listAudit},
	{"GET", "/auth/audit.csv", Session, "", tenant.Owner, false, (*edge).auditCSV},

	// misdirected.go
	{"GET", "/auth/misdirected", Session, "", tenant.Finance, false, (*edge).misdirected},

	// overview.go
	{"GET", "/auth/overview", Session, "", tenant.Viewer, false, (*edge).overview},

	// search.go
	{"GET", "/auth/search", Session, "", tenant.Viewer, false, (*edge).search},

	// accounts.go
	{"POST", "/v1/accounts", Key, tenant.AccountsWrite, "", false, (*edge).provisionAccount},
	{"GET", "/v1/accounts", Key, tenant.AccountsRead, "", false, (*edge).listAccounts},
	{"GET", "/v1/accounts/:accountRef", Key, tenant.AccountsRead, "", false, (*edge).getAccount},
	{"PATCH", "/v1/accounts/:accountRef", Key, tenant.AccountsWrite, "", false, (*edge).updateAccount},
	{"GET", "/v1/accounts/:accountRef/balance", Key, tenant.AccountsRead, "", false, (*edge).balance},
	{"GET", "/v1/accounts/:accountRef/history", Key, tenant.AccountsRead, "", false, (*edge).history},
	{"GET", "/v1/accounts/:accountRef/statement", Key, tenant.PaymentsRead, "", false, (*edge).statement},
	{"GET", "/v1/balance", Key, tenant.AccountsRead, "", false, (*edge).tenantBalance},
	{"POST", "/v1/accounts/:accountRef/expire", Key, tenant.AccountsWrite, "", false, (*edge).expireAccount},
	{"POST", "/auth/accounts", Session, "", tenant.Finance, false, (*edge).provisionAccount},
	{"GET", "/auth/accounts", Session, "", tenant.Viewer, false, (*edge).listAccounts},
	{"GET", "/auth/accounts/:accountRef", Session, "", tenant.Viewer, false, (*edge).getAccount},
	{"GET", "/auth/accounts/:accountRef/balance", Session, "", tenant.Viewer, false, (*edge).balance},
	{"GET", "/auth/accounts/:accountRef/history", Session, "", tenant.Viewer, false, (*edge).history},
	{"GET", "/auth/accounts/:accountRef/statement", Session, "", tenant.Viewer, false, (*edge).filteredStatement},

	// export.go
	{"GET", "/auth/accounts/:accountRef/statement.csv", Session, "", tenant.Viewer, false, (*edge).statementCSV},
	{"GET", "/auth/accounts/:accountRef/statement.pdf", Session, "", tenant.Viewer, false, (*edge).statementPDF},
	{"GET", "/auth/accounts/:accountRef/statement.xml", Session, "", tenant.Viewer, false, (*edge).statementXML},
	{"GET", "/auth/statement.csv", Session, "", tenant.Viewer, false, (*edge).allCSV},
	{"GET", "/auth/statement.pdf", Session, "", tenant.Viewer, false, (*edge).allPDF},
	{"GET", "/auth/statement.xml", Session, "", tenant.Viewer, false, (*edge).allXML},
	{"GET", "/auth/payments/:id/receipt.pdf", Session, "", tenant.Viewer, false, (*edge).paymentReceipt},
	{"GET", "/auth/transfers/:merchantTxRef/receipt.pdf", Session, "", tenant.Viewer, false, (*edge).transferReceipt},

	// holds.go
	{"POST", "/v1/accounts/:accountRef/holds", Key, tenant.HoldsWrite, "", false, (*edge).placeHold},
	{"GET", "/v1/accounts/:accountRef/holds", Key, tenant.HoldsRead, "", false, (*edge).listHolds},
	{"GET", "/auth/accounts/:accountRef/holds", Session, "", tenant.Viewer, false, (*edge).listHolds},
	{"GET", "/auth/accounts/:accountRef/recalls", Session, "", tenant.Viewer, false, (*edge).listRecalls},
	{"GET", "/v1/holds/:id", Key, tenant.HoldsRead, "", false, (*edge).getHold},
	{"POST", "/auth/accounts/:accountRef/holds", Session, "", tenant.Finance, false, (*edge).placeHold},
	{"POST", "/auth/holds/:id/release", Session, "", tenant.Finance, false, (*edge).releaseHold},
	{"POST", "/v1/holds/:id/release", Key, tenant.HoldsWrite, "", false, (*edge).releaseHold},

	// limits.go
	{"GET", "/v1/limits", Key, tenant.AccountsRead, "", false, (*edge).limits},

	// payments.go
	{"GET", "/v1/payments", Key, tenant.PaymentsRead, "", false, (*edge).listPayments},
	{"GET", "/v1/payments/:id", Key, tenant.PaymentsRead, "", false, (*edge).getPayment},
	{"GET", "/auth/payments", Session, "", tenant.Viewer, false, (*edge).listPayments},
	{"GET", "/auth/payments/:id", Session, "", tenant.Viewer, false, (*edge).getPayment},
	{"GET", "/auth/payments.csv", Session, "", tenant.Viewer, false, (*edge).paymentsCSV},

	// customers.go
	{"GET", "/v1/customers", Key, tenant.CustomersRead, "", false, (*edge).listCustomers},
	{"GET", "/v1/customers/:id", Key, tenant.CustomersRead, "", false, (*edge).getCustomer},
	{"PATCH", "/v1/customers/:id", Key, tenant.CustomersWrite, "", false, (*edge).renameCustomer},
	{"GET", "/v1/customers/:id/account", Key, tenant.AccountsRead, "", false, (*edge).customerAccount},
	{"POST", "/v1/customers/:id/kyc", Key, tenant.CustomersWrite, "", false, (*edge).submitKYC},
	{"GET", "/auth/customers", Session, "", tenant.Viewer, false, (*edge).listCustomers},
	{"GET", "/auth/customers/:id", Session, "", tenant.Viewer, false, (*edge).getCustomer},
	{"POST", "/auth/customers/:id/kyc", Session, "", tenant.Finance, false, (*edge).submitKYC},
	{"POST", "/auth/customers/:id/kyc/approve", Session, "", tenant.Finance, false, (*edge).approveKYC},
	{"POST", "/auth/customers/:id/kyc/reject", Session, "", tenant.Finance, false, (*edge).rejectKYC},

	// settle.go
	{"POST", "/v1/accounts/:accountRef/settle", Key, tenant.PayoutsCreate, "", false, (*edge).settle},
	{"POST", "/auth/accounts/:accountRef/settle", Session, "", tenant.Finance, false, (*edge).settle},
	{"POST", "/v1/accounts/:accountRef/transfer", Key, tenant.AccountsTransfer, "", false, (*edge).bookTransfer},

	// refunds.go
	{"POST", "/v1/entries/:id/refund", Key, tenant.PayoutsCreate, "", false, (*edge).refund},
	{"POST", "/auth/payments/:id/refund", Session, "", tenant.Finance, false, (*edge).refund},

	// transfers.go
	{"GET", "/v1/transfers", Key, tenant.PayoutsRead, "", false, (*edge).listTransfers},
	{"GET", "/v1/transfers/banks", Key, anyScope, "", false, (*edge).listBanks},
	{"POST", "/v1/transfers/lookup", Key, tenant.PayoutsRead, "", false, (*edge).lookup},
	{"GET", "/v1/transfers/:merchantTxRef", Key, tenant.PayoutsRead, "", false, (*edge).getTransfer},
	{"GET", "/auth/transfers", Session, "", tenant.Viewer, false, (*edge).listTransfers},
	{"GET", "/auth/transfers/banks", Session, "", tenant.Viewer, false, (*edge).listBanks},
	{"POST", "/auth/transfers/lookup", Session, "", tenant.Finance, false, (*edge).lookup},
	{"GET", "/auth/transfers/:merchantTxRef", Session, "", tenant.Viewer, false, (*edge).getTransfer},

	// beneficiaries.go
	{"POST", "/v1/beneficiaries", Key, tenant.BeneficiariesWrite, "", false, (*edge).saveBeneficiary},
	{"GET", "/v1/beneficiaries", Key, tenant.BeneficiariesRead, "", false, (*edge).listBeneficiaries},
	{"GET", "/v1/beneficiaries/:id", Key, tenant.BeneficiariesRead, "", false, (*edge).getBeneficiary},
	{"PATCH", "/v1/beneficiaries/:id", Key, tenant.BeneficiariesWrite, "", false, (*edge).renameBeneficiary},
	{"DELETE", "/v1/beneficiaries/:id", Key, tenant.BeneficiariesWrite, "", false, (*edge).removeBeneficiary},
	{"POST", "/auth/beneficiaries", Session, "", tenant.Finance, false, (*edge).saveBeneficiary},
	{"GET", "/auth/beneficiaries", Session, "", tenant.Viewer, false, (*edge).listBeneficiaries},
	{"PATCH", "/auth/beneficiaries/:id", Session, "", tenant.Finance, false, (*edge).renameBeneficiary},
	{"DELETE", "/auth/beneficiaries/:id", Session, "", tenant.Finance, false, (*edge).removeBeneficiary},
	{"POST", "/auth/beneficiaries/:id/exempt", Session, "", tenant.Owner, false, (*edge).exemptBeneficiary},

	// approvals.go
	{"GET", "/auth/payout-policy", Session, "", tenant.Viewer, false, (*edge).payoutPolicy},
	{"POST", "/auth/payout-policy", Session, "", tenant.Owner, false, (*edge).setPayoutPolicy},
	{"GET", "/auth/transfers/:merchantTxRef/approval", Session, "", tenant.Viewer, false, (*edge).approval},
	{"POST", "/auth/transfers/:merchantTxRef/approve", Session, "", tenant.Finance, false, (*edge).approveTransfer},
	{"POST", "/auth/transfers/:merchantTxRef/reject", Session, "", tenant.Finance, false, (*edge).rejectTransfer},

	// fees.go
	{"GET", "/v1/fees/calculate", Key, anyScope, "", false, (*edge).calculateFee},

	// events.go
	{"GET", "/v1/events", Key, tenant.WebhooksRead, "", false, (*edge).listEvents},

	// deadletters.go
	{"GET", "/v1/webhooks/dead-letters", Key, tenant.WebhooksRead, "", false, (*edge).deadLetters},

	// deliveries.go
	{"GET", "/auth/deliveries", Session, "", tenant.Viewer, false, (*edge).listDeliveries},
	{"GET", "/auth/deliveries/:id", Session, "", tenant.Viewer, false, (*edge).getDelivery},
	{"POST", "/auth/deliveries/replay", Session, "", tenant.Developer, false, (*edge).replaySince},
	{"POST", "/auth/deliveries/:id/replay", Session, "", tenant.Developer, false, (*edge).replayDelivery},

	// sandbox.go
	{"POST", "/v1/test/payments", Key, tenant.AccountsWrite, "", false, (*edge).testPayment},
	{"POST", "/auth/test/payments", Session, "", tenant.Developer, false, (*edge).testPayment},

	// webhook_events.go
	{"GET", "/auth/webhook-events", Session, "", tenant.Viewer, false, (*edge).webhookEvents},
	{"POST", "/auth/webhook-events", Session, "", tenant.Developer, false, (*edge).chooseWebhookEvents},
	{"POST", "/auth/webhook-test", Session, "", tenant.Developer, false, (*edge).testWebhook},

	// webhook_endpoints.go
	{"GET", "/auth/webhook-endpoints", SessionOrKey, tenant.WebhooksRead, tenant.Viewer, false, (*edge).webhookEndpoints},
	{"POST", "/auth/webhook-endpoints", SessionOrKey, tenant.WebhooksWrite, tenant.Developer, false, (*edge).addWebhookEndpoint},
	{"PATCH", "/auth/webhook-endpoints/:id", SessionOrKey, tenant.WebhooksWrite, tenant.Developer, false, (*edge).changeWebhookEndpoint},
	{"DELETE", "/auth/webhook-endpoints/:id", SessionOrKey, tenant.WebhooksWrite, tenant.Developer, false, (*edge).removeWebhookEndpoint},
	{"POST", "/auth/webhook-endpoints/:id/rotate-secret", SessionOrKey, tenant.WebhooksWrite, tenant.Developer, false, (*edge).rotateEndpointSecret},
	{"POST", "/auth/events/resend", SessionOrKey, tenant.WebhooksWrite, tenant.Developer, false, (*edge).resendEvent},

	// listen.go
	{"POST", "/auth/listen", Session, "", tenant.Developer, false, (*edge).listen},

	// provider_webhook.go
	{"POST", "/webhooks/provider", Signature, "", "", false, (*edge).providerWebhook},

	// health.go
	{"GET", "/health", None, "", "", false, (*edge).health},
	{"GET", "/ready", None, "", "", false, (*edge).ready},

	// document.go
	{"GET", "/openapi.json", None, "", "", false, (*edge).openAPIDocument},

	// docs.go
	{"GET", "/docs", None, "", "", false, (*edge).docs},
	{"GET", "/docs/:file", None, "", "", false, (*edge).docsAsset},

	// dashboard.go
	{"GET", "/", None, "", "", false, (*edge).root},
	{"GET", "/dashboard", None, "", "", false, (*edge).dashboardPage},
	{"GET", "/dashboard/", None, "", "", false, (*edge).dashboardPage},
	{"GET", "/dashboard/style.css", None, "", "", false, (*edge).dashboardStyle},
	{"GET", "/dashboard/:script", None, "", "", false, (*edge).dashboardScript},
}
