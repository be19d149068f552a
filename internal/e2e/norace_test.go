//go:build !race

package e2e

// raceEnabled reports whether the tests look for data races; then the binary does too.
const raceEnabled = false
