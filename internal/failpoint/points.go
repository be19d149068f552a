package failpoint

// Points are the names of all points, in the order in which a settlement passes them. A call's own "before" is left out where
// it would be the same place as the commit before it.
var Points = []string{
	"transfer/before-accept-commit",
	"transfer/after-accept-commit",
	"tasks/before-ring",
	"tasks/after-ring",
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
