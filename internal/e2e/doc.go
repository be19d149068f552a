// Package e2e drives the built binary from outside: `ajo migrate`, `ajo api` and `ajo worker` as
// processes of their own, with the settings in their environment and nothing else, the bank and a
// tenant's endpoint over real HTTP.
//
// It holds tests only. What they show: the main job by the API alone, and that a payment is posted
// exactly once, delivered at least once and confirmed, whatever happens to Redis and to the
// processes on its way. What a process prints is kept and must not contain a secret. `make chaos`
// (storm_test.go and its sisters) breaks everything at once, for minutes and under load, and then
// takes stock. A test's helpers stand in process_test.go (one process), world_test.go (all that a
// payment needs), tenant_test.go (the API's client and the tenant's endpoint) and proxy_test.go (a
// Redis that goes away).
//
// `make chaos-points` (crash_test.go, crash_units_test.go) kills the processes fifty times at each
// failpoint, with units of work under way that pass it; make test does so once.
//
// Moments that are drawn come from a seed, which the test logs; AJO_E2E_SEED draws the same again.
// AJO_E2E_PATIENT waits for leases to run out in real time, where the tests otherwise end them.
package e2e
