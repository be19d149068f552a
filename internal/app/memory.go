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

// workerMemory is what the worker's heap and stacks are kept below, in bytes, as long as the collector can: a backlog of checks and
// deliveries would double what is in use for some seconds. Beyond it the collector takes at most half of the processor.
const workerMemory = 44 << 20

// softLimit sets the limit, unless the operator has by GOMEMLIMIT.
func softLimit(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
}

// gcPercent sets the growth, unless the operator has by GOGC.
func gcPercent(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
