package app

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// goMemory is how many bytes heap and stacks may fill before they are collected. A process
	// keeps some 36 MiB of its own program resident beside, and is to keep within 80
	// (docs/performance.md). Go's own pace, by percent of what is in use, collects five times as
	// often while little is in use, and leads past the 80 MiB while much is.
	goMemory = 42 << 20
	// headroom is how much may be filled of what is in use, in percent: with thousands of
	// connections goMemory would be filled by that alone, and the collector never rest.
	headroom = 160
	// paceEvery is how often that is looked at.
	paceEvery = 2 * time.Second
)

var paced sync.Once

// paceCollector sets the collector's pace for this process, for good. An operator's GOGC is left
// alone, and an operator's GOMEMLIMIT stays the most.
func paceCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	paced.Do(func() {
		most := debug.SetMemoryLimit(-1)
		limit := min(goMemory, most)
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(-1)
		use := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
		go func() {
			for range time.Tick(paceEvery) {
				metrics.Read(use)
				inUse := int64(use[0].Value.Uint64() + use[1].Value.Uint64())
				if next := min(max(goMemory, inUse*headroom/100), most); next != limit {
					limit = next
					debug.SetMemoryLimit(limit)
				}
			}
		}()
	})
}
