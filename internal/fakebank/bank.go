// Package fakebank is the upstream bank, simulated over real HTTP: the provider's wire with its
// quirks, the NIN service, and faults on demand. Tests bind it to a loopback port, `ajo fakebank`
// runs it as a process of its own.
//
// What always holds: a payout's merchantTxRef pays at most once; the wallet is the opening balance
// plus every inbound net, less every payout (with its fee, VAT and duty) that was not given back; a
// record never changes by being asked for, so that a rule of [Faults] alters answers and never the
// books; every time is the clock's, and work that falls due (a webhook's retry, a payout's end) is
// done before the next call is answered. The signature and the check digit are written from the
// specification's text, independently of the service that this bank is used to test.
package fakebank

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"ajo/internal/clock"
	"ajo/internal/money"
)

// The credentials of a bank that was given none: for development, on both sides.
const (
	DefaultClientID      = "dev-client"
	DefaultClientSecret  = "dev-client-secret"
	DefaultAccountID     = "dev-account-0001"
	DefaultWebhookSecret = "dev-webhook-secret"
)

// The names of the two signature headers.
const (
	DefaultSignatureHeader = "provider-signature"
	DefaultTimestampHeader = "provider-timestamp"
)

// The virtual accounts' own bank: the name that payers see, and the code that check digits are made
// with.
const (
	BankName = "Nombank MFB"
	BankCode = "090645"
)

// feeTiers are the inbound fees of the specification: below 5,000 ten naira, to 50,000 twenty-five,
// above it fifty.
var feeTiers = []struct{ from, fee money.Amount }{
	{money.Zero, money.FromKobo(10_00)},
	{money.FromKobo(5_000_00), money.FromKobo(25_00)},
	{money.FromKobo(50_000_01), money.FromKobo(50_00)},
}

// DefaultRetryDelays are the waits before a webhook's second to sixth attempt.
var DefaultRetryDelays = []time.Duration{2 * time.Minute, 5 * time.Minute, 11 * time.Minute, 24 * time.Minute, 53 * time.Minute}

// DefaultRecipientRate is how many payouts a minute the provider takes to one account.
const DefaultRecipientRate = 5

// Options say what bank [New] makes. The zero value is a bank with the development credentials, on
// the system clock, in memory only, that pays out at once and without a fee.
type Options struct {
	ClientID, ClientSecret, AccountID string

	WebhookURL      string // where events go; empty: nowhere, until SetWebhookURL
	WebhookSecret   string
	SignatureHeader string // provider-signature
	TimestampHeader string // provider-timestamp
	// after a webhook's attempt that was not answered 2xx; nil: the default, empty: no retries
	RetryDelays    []time.Duration
	WebhookTimeout time.Duration // of one attempt in all; 10 s

	TokenTTL       time.Duration // 30 min
	OpeningBalance money.Amount  // of the wallet
	// taken from the wallet beside each payout; zero by default
	PayoutFee, PayoutVAT, PayoutStampDuty money.Amount
	// how long a payout is under way; zero: it is paid when it is submitted
	PayoutDelay time.Duration
	// how many payouts a minute one account may get; more are answered 429. zero: any number
	RecipientRate int

	// what the NIN service asks for; empty: any that are not empty
	IdentityAppID, IdentityKey string

	// reproduces the decisions of rules with a Percent, and the account numbers; 0: numbers start
	// anywhere
	Seed      uint64
	StateFile string // JSON kept across runs; empty: nothing is written
	// how long payments and payouts are kept; zero: always
	KeepFor time.Duration
	Clock   clock.Clock
	Log     *slog.Logger
}

func (o Options) withDefaults() Options {
	o.ClientID = cmp.Or(o.ClientID, DefaultClientID)
	o.ClientSecret = cmp.Or(o.ClientSecret, DefaultClientSecret)
	o.AccountID = cmp.Or(o.AccountID, DefaultAccountID)
	o.WebhookSecret = cmp.Or(o.WebhookSecret, DefaultWebhookSecret)
	o.SignatureHeader = cmp.Or(o.SignatureHeader, DefaultSignatureHeader)
	o.TimestampHeader = cmp.Or(o.TimestampHeader, DefaultTimestampHeader)
	o.TokenTTL = cmp.Or(o.TokenTTL, 30*time.Minute)
	o.WebhookTimeout = cmp.Or(o.WebhookTimeout, webhookTimeout)
	if o.RetryDelays == nil {
		o.RetryDelays = DefaultRetryDelays
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Bank is one simulated bank. All its methods are safe for concurrent use.
type Bank struct {
	// Faults are the rules by which this bank misbehaves.
	Faults *Faults

	opt     Options
	clock   clock.Clock
	log     *slog.Logger
	handler http.Handler
	calls   map[string]*atomic.Int64

	tokens tokens
	books  *books
	hooks  *hooks
	due    *schedule
	delay  atomic.Int64 // the payout delay, in nanoseconds

	ctx     context.Context // ends with Close; webhooks under way end with it
	cancel  context.CancelFunc
	work    closableGroup
	saver   saver
	loadErr error

	mu     sync.Mutex // guards the two below
	server *http.Server
	url    string
}

// New makes a bank and reads its state file, if it has one; what is wrong with that file is
// [Bank.Start]'s error.
func New(o Options) *Bank {
	o = o.withDefaults()
	b := &Bank{opt: o, clock: o.Clock, log: o.Log, Faults: newFaults(o.Seed)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.books = newBooks(o.OpeningBalance, o.Seed)
	b.hooks = newHooks(o.WebhookURL, o.WebhookSecret)
	b.due = newSchedule(b.ctx, o.Clock, &b.work)
	b.delay.Store(int64(o.PayoutDelay))
	b.handler = b.routes()
	if o.StateFile != "" {
		if b.loadErr = b.load(); b.loadErr == nil {
			b.work.Go(b.keepSaved)
		} else {
			b.log.Error("fake bank starts empty and keeps nothing", "error", b.loadErr)
		}
	}
	return b
}

// Start listens on addr (empty: a free loopback port) and returns the base URL. After [Bank.Stop]
// it may be called again.
func (b *Bank) Start(addr string) (string, error) {
	if b.loadErr != nil {
		return "", b.loadErr
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server != nil {
		return "", errors.New("fakebank: already started")
	}
	l, err := net.Listen("tcp", cmp.Or(addr, "127.0.0.1:0"))
	if err != nil {
		return "", fmt.Errorf("fakebank: %w", err)
	}
	s := &http.Server{Handler: b.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	open := b.work.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			b.log.Error("fake bank stopped serving", "error", err)
		}
	})
	if !open {
		return "", errors.Join(errors.New("fakebank: closed"), l.Close())
	}
	b.server, b.url = s, "http://"+l.Addr().String()
	return b.url, nil
}

// URL is the base URL that the bank listens on, or "" when it does not.
func (b *Bank) URL() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server == nil {
		return ""
	}
	return b.url
}

// Stop ends listening and cuts the connections, so that callers are refused; the books stay. Start
// makes it reachable again.
func (b *Bank) Stop() error {
	b.mu.Lock()
	s := b.server
	b.server = nil
	b.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.Close()
}

// Close stops listening, abandons what is scheduled or being sent, and writes the state file. It
// may be called twice.
func (b *Bank) Close() error {
	err := b.Stop()
	b.cancel()
	b.work.Wait()
	b.hooks.client.CloseIdleConnections()
	return errors.Join(err, b.save())
}

// SetWebhookURL says where events go from now on; empty: nowhere.
func (b *Bank) SetWebhookURL(url string) { b.hooks.url.Store(&url) }

// SetWebhookSecret has every event from now on signed with another secret, those that are sent
// again too.
func (b *Bank) SetWebhookSecret(secret string) { b.hooks.secret.Store(&secret) }

// SetPayoutDelay says how long later payouts are under way; zero: they are paid when they are
// submitted.
func (b *Bank) SetPayoutDelay(d time.Duration) { b.delay.Store(int64(d)) }

// After does something once so much time has passed on the bank's clock. It is forgotten when the
// bank is closed.
func (b *Bank) After(d time.Duration, do func()) {
	b.due.at(b.clock.Now().Add(d), func() { b.work.Go(do) })
}

// now is the time, after everything that is due by it has been done.
func (b *Bank) now() time.Time {
	b.due.run()
	return b.clock.Now()
}
