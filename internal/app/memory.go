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
	// headroom is how far the heap may grow beyond what is live, in percent of that: where goMemory
	// leaves less, the collector would hardly rest.
	headroom = 200
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
				bytes := func(i int) int64 { return int64(use[i].Value.Uint64()) }
				besides := bytes(1) - bytes(2) - bytes(3) - bytes(4) // stacks, gaps between objects, the runtime's own
				if next := min(max(goMemory, besides+bytes(0)*headroom/100), most); next != limit {
					limit = next
					debug.SetMemoryLimit(limit)
				}
			}
		}()
	})
}
