package app

import (
	"os"
	"runtime/debug"
)

// How much a role's heap may grow, in percent of what is in use, before it is collected. A process keeps some 40 MiB of its own
// program resident; with the buffers of the API's connections, or the worker's backlog, in use beside, Go's 100 would lead past
// the 80 MiB that each is to keep within (docs/performance.md).
const (
	apiGC    = 60
	workerGC = 80
)

// gcPercent sets the growth, unless the operator has by GOGC.
func gcPercent(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
