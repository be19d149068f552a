package app

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// goMemory is how many bytes heap and stacks may fill before the collector runs. The program
	// itself keeps about 36 MiB resident besides, and the goal is 80 MiB (docs/performance.md).
	// Go's default pace, a percentage of live memory, collects five times as often while little is
	// live, and exceeds 80 MiB while much is.
	goMemory = 42 << 20
	// heapGrowth is how large the heap may become, in percent of what of it is live: where goMemory
	// leaves less, the collector would hardly rest.
	heapGrowth = 200
	// paceEvery is how often the pace is adjusted.
	paceEvery = 2 * time.Second
)

var paced sync.Once

// paceCollector sets the collector's pace for the life of the process. An operator's GOGC is
// respected, and GOMEMLIMIT remains the upper limit.
func paceCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	paced.Do(func() {
		most := debug.SetMemoryLimit(-1)
		limit := min(goMemory, most)
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(-1)
		use := []metrics.Sample{
			{Name: "/gc/heap/live:bytes"},
			{Name: "/memory/classes/total:bytes"},
			{Name: "/memory/classes/heap/released:bytes"},
			{Name: "/memory/classes/heap/free:bytes"},
			{Name: "/memory/classes/heap/objects:bytes"},
		}
		go func() {
			for range time.Tick(paceEvery) {
				metrics.Read(use)
				live, besides := int64(use[0].Value.Uint64()), int64(use[1].Value.Uint64())
				for _, part := range use[2:] { // what is left: stacks, gaps between objects, the runtime's own
					besides -= int64(part.Value.Uint64())
				}
				if next := min(max(goMemory, besides+live*heapGrowth/100), most); next != limit {
					limit = next
					debug.SetMemoryLimit(limit)
				}
			}
		}()
	})
}
