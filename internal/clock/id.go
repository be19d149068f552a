package clock

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

var (
	// compared is the last comparison of this process, whichever [Synced] made it: ids go by it.
	compared atomic.Pointer[comparison]
	// newestID is the time of the newest id, as [idTime] has it.
	newestID atomic.Int64
)

// idStep is by how much the other clock may have gone back, as another server's that took over: as
// long as that, ids follow closely on the newest before it. What is further back is a clock that
// was far ahead, and has been set right.
const idStep = time.Minute

// idTime is a time as ids have it: milliseconds, and below them 12 bits of a part of one.
func idTime(t time.Time) int64 {
	return t.UnixMilli()<<12 | int64(t.Nanosecond())%int64(time.Millisecond)>>8
}

// NewID makes a UUIDv7 of the time by the database's clock, once the process has synced one. Rows
// that are found, or read on, by the time in their ids have such ids, and those of which the newest
// counts: events and deliveries, accounts, and what limits and policies hold. Each is greater than
// those before it in this process. (So are those of [uuid.NewV7], but they never go back: once a
// machine's clock was ahead, they stay ahead when it has been set right.)
func NewID() uuid.UUID {
	id := uuid.Must(uuid.NewRandom())
	for {
		// It is read before the time: so an earlier time is a clock's that went back.
		newest := newestID.Load()
		at := idTime(compared.Load().at(time.Now()))
		if at <= newest && newest-at <= idStep.Milliseconds()<<12 {
			at = newest + 1
		}
		if newestID.CompareAndSwap(newest, at) {
			// the version stands between the milliseconds and their part; the rest is random
			binary.BigEndian.PutUint64(id[:8], uint64(at>>12)<<16|7<<12|uint64(at&0xfff))
			return id
		}
	}
}
