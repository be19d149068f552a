package failpoint

// Points are the names of all points, in the order in which an account, a payment into it and a settlement from it pass
// them. A call's own "before" is left out where it would be the same place as the commit before it.
var Points = []string{
	"account/before-reserve-commit",
	"account/after-reserve-commit",
	"account/after-create",
	"account/before-provide-commit",
	"account/after-provide-commit",

	"payment/before-store-commit",
	"payment/after-store-commit",
	"tasks/before-ring",
	"tasks/after-ring",
	"payment/before-post-commit",
	"payment/after-post-commit",

	"webhook/before-claim-commit",
	"webhook/after-claim-commit",
	"webhook/after-call",
	"webhook/before-record-commit",
	"webhook/after-record-commit",

	"payment/before-claim-commit",
	"payment/after-claim-commit",
	"payment/after-ask",
	"payment/before-record-commit",
	"payment/after-record-commit",

	"account/before-expire-commit",
	"account/after-expire-commit",
	"account/before-claim-commit",
	"account/after-claim-commit",
	"account/after-close",
	"account/before-closed-commit",
	"account/after-closed-commit",

	"transfer/before-accept-commit",
	"transfer/after-accept-commit",
	"transfer/before-claim-commit",
	"transfer/after-claim-commit",
	"transfer/after-lookup",
	"transfer/before-submit-commit",
	"transfer/after-submit-commit",
	"transfer/after-pay",
	"transfer/before-ask",
	"transfer/after-ask",
	"transfer/before-postpone-commit",
	"transfer/after-postpone-commit",
	"transfer/before-end-commit",
	"transfer/after-end-commit",
	"transfer/before-wake-commit",
	"transfer/after-wake-commit",
}
