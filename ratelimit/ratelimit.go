// Package ratelimit counts requests per tenant, per address and per account, and says when one is
// too many.
//
// The counts are kept in Redis, where all processes share them, in fixed windows. What always
// holds: no request fails because Redis does, and none waits for it longer than a quarter of a
// second. While Redis is away the same limits are kept in this process, and Redis is asked again in
// the background, never by a request. Specification, "Limits"; decisions, "Rate limits".
package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	redisstore "github.com/ulule/limiter/v3/drivers/store/redis"

	"ajo/internal/errs"
	"ajo/internal/metrics"
)

// ErrLimited is the refusal of a request over its limit.
var ErrLimited = errs.New(errs.TooMany, "rate limit exceeded")

const (
	prefix     = "ajo:limit"
	probeEvery = time.Second // while Redis is away
	probes     = 64          // keys: so many that each node of a Cluster has some
)

// timeout is that of one question to Redis. A variable, since tests on a busy machine must not take
// it for a Redis that is away.
var timeout = 250 * time.Millisecond

// perAccount is how often one account may try to log in, or to enter a code: ten times in a quarter
// of an hour.
var perAccount = limiter.Rate{Period: 15 * time.Minute, Limit: 10}

// Action is something that a session may not do too often, whatever else it does.
type Action string

// The actions.
const (
	WebhookTest Action = "webhook-test" // calls an address of the tenant's choice
	Resend      Action = "resend"       // is sent by the workers that send new events
	Listen      Action = "listen"       // is repeated as soon as it is answered
	Password    Action = "password"     // tries the present password
	Members     Action = "members"      // mails people of the tenant's choice
	TestWrite   Action = "test-write"   // is kept in the memory of the simulated bank
)

// perAction is how often a tenant may do it.
var perAction = map[Action]limiter.Rate{
	WebhookTest: {Period: time.Minute, Limit: 10},
	Resend:      {Period: time.Second, Limit: 10},
	Listen:      {Period: time.Minute, Limit: 600},
	Password:    perAccount,
	Members:     {Period: time.Hour, Limit: 200}, // twice as many as there may be
	TestWrite:   {Period: 24 * time.Hour, Limit: 2000},
}

// What each kind of limit decides.
var (
	byKey, byStranger    = metrics.NewLimit("key"), metrics.NewLimit("stranger")
	bySession, byMember  = metrics.NewLimit("session"), metrics.NewLimit("member")
	byAddress, byAccount = metrics.NewLimit("open"), metrics.NewLimit("account")
	byAction             = metrics.NewLimit("tenant")
)

// Limiter counts. It is safe for concurrent use; Close ends its background work.
type Limiter struct {
	perTenant, open limiter.Rate
	recent          recent
	local           limiter.Store
	shared          atomic.Pointer[limiter.Store] // nil while Redis is away
	client          redis.UniversalClient
	log             *slog.Logger
	lost            chan struct{}
	stop            context.CancelFunc
	done            sync.WaitGroup
}

// Options are what a Limiter needs. A limit is written as "600-M" (600 a minute; S, M, H or D).
type Options struct {
	// Client only names the server: the limiter opens a connection pool of its own to it, with
	// short timeouts and without retries, because a retried count counts twice. nil keeps the
	// limits in this process.
	Client redis.UniversalClient
	// PerTenant is for each tenant's key, and as much for its sessions.
	PerTenant string
	// Open is for each address, at the endpoints that need no credential.
	Open string
	Log  *slog.Logger
}

// New returns a limiter. A Redis that does not answer is no error; a bad limit is.
func New(o Options) (*Limiter, error) {
	l := &Limiter{
		local: memory.NewStoreWithOptions(limiter.StoreOptions{Prefix: prefix, CleanUpInterval: time.Minute}),
		log:   o.Log, lost: make(chan struct{}, 1),
	}
	var err error
	if l.perTenant, err = parse(o.PerTenant); err != nil {
		return nil, err
	}
	if l.open, err = parse(o.Open); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	if o.Client == nil {
		return l, nil
	}
	l.client = own(o.Client)
	if err := l.connect(); err != nil {
		metrics.LimitsAreLocal.Set(true)
		l.log.Warn("redis cannot count requests: rate limits are counted in this process", "error", err)
		l.lost <- struct{}{}
	}
	l.done.Go(func() { l.reconnect(ctx) })
	return l, nil
}

func parse(text string) (limiter.Rate, error) {
	r, err := limiter.NewRateFromFormatted(text)
	if err != nil || r.Limit < 1 {
		return r, fmt.Errorf("rate limit %q is not of the form 600-M (a count, then S, M, H or D)", text)
	}
	return r, nil
}

// Close ends the background work and the limiter's own connections.
func (l *Limiter) Close() error {
	l.stop()
	l.done.Wait()
	if l.client == nil {
		return nil
	}
	return l.client.Close()
}

// Key counts a request with a tenant's API key, which is given by its SHA-256. It is counted under
// the tenant: another key is no new allowance.
func (l *Limiter) Key(ctx context.Context, tenant [16]byte, credential [32]byte) Result {
	return l.metWith(credential, l.count(ctx, byKey, l.perTenant, "key:"+hex.EncodeToString(tenant[:])))
}

// Session counts a request with a tenant's session, given by its token's SHA-256, beside those with
// its key: who logs in again, or twice, has no new allowance. The sessions of all members but the
// owner have half of it together: the owner can remove a member who uses it up.
func (l *Limiter) Session(ctx context.Context, tenant [16]byte, owner bool, credential [32]byte) Result {
	name := hex.EncodeToString(tenant[:])
	if !owner {
		half := limiter.Rate{Period: l.perTenant.Period, Limit: (l.perTenant.Limit + 1) / 2}
		if r := l.count(ctx, byMember, half, "member:"+name); !r.OK {
			return l.metWith(credential, r)
		}
	}
	return l.metWith(credential, l.count(ctx, bySession, l.perTenant, "session:"+name))
}

// Stranger counts a request with a credential that opens nothing under the caller's address, by a
// tenant's limit, so that trying credentials is limited too. A credential without the form of one
// is the zero one.
func (l *Limiter) Stranger(ctx context.Context, addr netip.Addr, credential [32]byte) Result {
	l.recent.meet([16]byte(credential[:16]), false)
	r := l.count(ctx, byStranger, l.perTenant, strangerName(addr))
	if !r.OK {
		l.recent.passed(strangerName(addr), r, time.Now())
	}
	return r
}

// Uncounted is the allowance of a request that could not be counted, because whose it is could not
// be found out here.
func (l *Limiter) Uncounted() Result {
	return Result{Limit: l.perTenant.Limit, Remaining: l.perTenant.Limit, Reset: max(1, int64(l.perTenant.Period/time.Second)), OK: true}
}

// Open counts a request to an endpoint that needs no credential under the caller's address.
func (l *Limiter) Open(ctx context.Context, addr netip.Addr) Result {
	return l.count(ctx, byAddress, l.open, "open:"+Network(addr))
}

// Account counts a try of one action ("login", "code") at one account. The account's name (an
// e-mail, an id) need not exist: a limit that only real accounts had would tell which are real. It
// is stored as a hash.
func (l *Limiter) Account(ctx context.Context, action, account string) Result {
	sum := sha256.Sum256([]byte(account))
	return l.count(ctx, byAccount, perAccount, action+":"+hex.EncodeToString(sum[:16]))
}

// Tenant counts an action of a tenant, which is given by its id.
func (l *Limiter) Tenant(ctx context.Context, a Action, id [16]byte) Result {
	return l.count(ctx, byAction, perAction[a], string(a)+":"+hex.EncodeToString(id[:]))
}

// Network is the key of an address: an IPv4 address, or the /64 that one IPv6 subscriber has to
// himself.
func Network(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.String()
		}
	}
	return addr.String()
}

func (l *Limiter) count(ctx context.Context, counts *metrics.Limit, rate limiter.Rate, key string) Result {
	if shared := l.shared.Load(); shared != nil {
		// The caller's own end must not look like a fault of Redis.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		got, err := (*shared).Get(ctx, key, rate)
		cancel()
		if err == nil {
			counts.Decided(!got.Reached, false)
			return resultOf(got, rate)
		}
		l.lose(shared, err)
	}
	got, err := l.local.Get(ctx, key, rate)
	counts.Decided(err != nil || !got.Reached, l.client != nil)
	if err != nil { // the memory store has no way to fail
		return Result{Limit: rate.Limit, Remaining: rate.Limit, OK: true}
	}
	return resultOf(got, rate)
}

// connect loads the store's script, and so finds out whether Redis is there. It writes nothing
// into keys, too, which makes none: a script can be loaded where nothing can be counted, as by a
// replica or a full Redis, or a node of a Cluster that is one.
func (l *Limiter) connect() error {
	s, err := redisstore.NewStoreWithOptions(l.client, limiter.StoreOptions{Prefix: prefix})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range probes {
			p.SetRange(ctx, prefix+":writable:"+strconv.Itoa(i), 0, "")
		}
		return nil
	}); err != nil {
		return err
	}
	l.shared.Store(&s)
	metrics.LimitsAreLocal.Set(false)
	return nil
}

// lose turns to the counts of this process. Late failures of a connection that was lost before
// change nothing.
func (l *Limiter) lose(store *limiter.Store, cause error) {
	if l.shared.CompareAndSwap(store, nil) {
		metrics.LimitsAreLocal.Set(true)
		l.log.Warn("redis cannot count requests: rate limits are counted in this process", "error", cause)
		l.lost <- struct{}{}
	}
}

// reconnect waits for a loss, and then tries once a second until Redis is back.
func (l *Limiter) reconnect(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.lost:
		}
		for retry := time.NewTicker(probeEvery); ; {
			select {
			case <-ctx.Done():
				retry.Stop()
				return
			case <-retry.C:
			}
			if l.connect() == nil {
				retry.Stop()
				break
			}
		}
		l.log.Info("rate limits are shared through redis again")
	}
}

// own returns a client of the same server with short timeouts and no retries. Another kind of
// client is used as it is.
func own(client redis.UniversalClient) redis.UniversalClient {
	switch c := client.(type) {
	case *redis.Client:
		o := *c.Options()
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
		return redis.NewClient(&o)
	case *redis.ClusterClient:
		o := *c.Options()
		o.MaxRetries, o.MaxRedirects, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, 1, true
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
		return redis.NewClusterClient(&o)
	}
	return client
}
