package tenant

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"

	"ajo/internal/pg"
)

// The last use of a key is kept to useEvery, and written useWait after it was noted, for all keys
// together.
const (
	useEvery = time.Minute
	useWait  = 2 * time.Second
)

// keyUses notes the last uses of keys and writes them beside the requests. A use is noted only when
// the key's row, as the request has just read it, names none within [useEvery]; so a busy key costs
// one row a minute, and no request waits for it. What a crash or an error loses, the next use
// writes.
type keyUses struct {
	pool *pg.Pool
	log  *slog.Logger

	mu    sync.Mutex
	noted map[uuid.UUID]keyUse
	timer *time.Timer // nil: nothing is noted
	wg    sync.WaitGroup
	shut  bool
}

type keyUse struct {
	ID   uuid.UUID `pg:"id"`
	At   time.Time `pg:"at"`
	From string    `pg:"used_from"`
}

func newKeyUses(pool *pg.Pool, log *slog.Logger) *keyUses {
	return &keyUses{pool: pool, log: log, noted: map[uuid.UUID]keyUse{}}
}

// note notes a use of a key as its row was read.
func (u *keyUses) note(k Key, from netip.Addr, at time.Time) {
	if k.lastUsed != nil && at.Sub(*k.lastUsed) < useEvery {
		return
	}
	use := keyUse{ID: k.ID, At: at}
	if from.IsValid() {
		use.From = from.WithZone("").String()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.shut {
		return
	}
	u.noted[k.ID] = use
	if u.timer == nil {
		u.wg.Add(1)
		u.timer = time.AfterFunc(useWait, func() {
			defer u.wg.Done()
			ctx, cancel := context.WithTimeout(context.Background(), useEvery)
			defer cancel()
			u.write(ctx)
		})
	}
}

// write writes what is noted. Rows that somebody else has locked, because the key is being rotated
// or another process writes its use, are left to the next use; so it waits for nobody.
func (u *keyUses) write(ctx context.Context) {
	u.mu.Lock()
	uses := make([]keyUse, 0, len(u.noted))
	for _, use := range u.noted {
		uses = append(uses, use)
	}
	clear(u.noted)
	u.timer = nil
	u.mu.Unlock()
	if len(uses) == 0 {
		return
	}
	_, err := u.pool.Exec(ctx, `
		WITH free AS MATERIALIZED (
			SELECT k.id, u.at, nullif(u.used_from, '')::inet AS used_from FROM `+pg.Unnest[keyUse](2, "u")+` JOIN api_keys k ON k.id = u.id
			WHERE k.last_used_at IS NULL OR k.last_used_at <= u.at - $1::interval
			FOR NO KEY UPDATE OF k SKIP LOCKED)
		UPDATE api_keys k SET last_used_at = free.at, last_used_from = free.used_from FROM free WHERE k.id = free.id`, pg.Columns(uses, any(useEvery))...)
	if err != nil {
		u.log.LogAttrs(ctx, slog.LevelWarn, "the last uses of API keys were not recorded", slog.Any("err", err))
	}
}

// close writes what is noted, and notes nothing more.
func (u *keyUses) close(ctx context.Context) {
	u.mu.Lock()
	u.shut = true
	stopped := u.timer != nil && u.timer.Stop()
	u.mu.Unlock()
	if stopped {
		u.wg.Done()
	}
	u.write(ctx)
	u.wg.Wait()
}
