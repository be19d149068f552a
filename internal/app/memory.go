package app

import (
	"os"
	"runtime/debug"
)

// How much a role's heap may grow, in percent of what is in use, before it is collected. A process keeps some 40 MiB of its own
// program resident. The API has its connections' buffers in use beside, and at Go's 100 would pass the 80 MiB that it is to keep
// within; the worker has little in use, and at 100 spends a fifth of its time on collections (docs/performance.md).
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
