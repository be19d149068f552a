package clock

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

var (
	// idOffset is by how much the machine's clock is ahead of the one that the ids of this process
	// go by, as the last [Synced.Sync] has found; in nanoseconds.
	idOffset atomic.Int64
	// newestID is the time of the newest id, in milliseconds.
	newestID atomic.Int64
)

// idStep is by how much the other clock may have gone back, as another server's that took over: as
// long as that, ids have the time of the newest before it. What is further back is a clock that was
// far ahead, and has been set right.
const idStep = time.Minute

// NewID makes a UUIDv7 of the time by the database's clock, once the process has synced one. Rows
// that are found, or read on, by the time in their ids have such ids: events and deliveries.
func NewID() uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	made := binary.BigEndian.Uint64(id[:8]) // 48 bits of milliseconds, and 16 others
	at := int64(made>>16) - time.Duration(idOffset.Load()).Milliseconds()
	newest := newestID.Load()
	if at < newest && newest-at <= idStep.Milliseconds() {
		at = newest
	}
	newestID.CompareAndSwap(newest, at) // of two at once, either is as new
	binary.BigEndian.PutUint64(id[:8], uint64(at)<<16|made&0xffff)
	return id
}
