package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"ajo/internal/clock"
	"ajo/internal/provider"
)

const (
	banksKey      = "ajo:banks:" // and the host of the bank's API, with its port
	banksFresh    = time.Hour
	banksKept     = 30 * 24 * time.Hour // a stale list serves while the bank is down
	banksTimeout  = 250 * time.Millisecond
	banksAgain    = 30 * time.Second // how often one process checks a list that is not fresh
	banksPatience = 2 * time.Second  // for the bank, if there is a list to serve instead
)

// BankList is the list of banks that payouts can go to, kept in Redis for an hour. While the bank
// is down the last known list is served, however old.
type BankList struct {
	bank  provider.Bank
	key   string // in Redis
	redis redis.UniversalClient
	clock clock.Clock
	log   *slog.Logger

	// guards this process's own copy, with which a settlement asks neither Redis nor the bank
	mu     sync.Mutex
	listed time.Time // when the bank gave it
	names  map[string]string
	again  time.Time // when it is checked again
}

// NewBankList returns the list of the bank whose API is at a host: another bank's list, which the
// same Redis may have, is not taken for its. Without Redis (nil), it is this process's own.
func NewBankList(bank provider.Bank, host string, r redis.UniversalClient, c clock.Clock, log *slog.Logger) *BankList {
	return &BankList{bank: bank, key: banksKey + host, redis: r, clock: c, log: log}
}

// keptBanks is the value in Redis.
type keptBanks struct {
	At    time.Time
	Banks []provider.BankInfo
}

// Banks returns the list; [ErrBank] if the bank is down and no list was ever kept. Without Redis it
// asks the bank.
func (l *BankList) Banks(ctx context.Context) ([]provider.BankInfo, error) {
	k, err := l.newest(ctx)
	return k.Banks, err
}

// name returns the name of the bank with a code. Known is false only if the list is fresh and lacks
// the code: while the bank gives no list, the bank may be newer than an old list, and without any
// list no order is refused, since the holder is looked up before money leaves.
func (l *BankList) name(ctx context.Context, code string) (name string, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if !now.Before(l.again) {
		l.again = now.Add(banksAgain)
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), banksPatience)
		defer cancel()
		if k, err := l.newest(asking); err == nil {
			l.names, l.listed = make(map[string]string, len(k.Banks)), k.At
			for _, b := range k.Banks {
				l.names[b.Code] = b.Name
			}
			l.again = now.Add(max(banksAgain, banksFresh-now.Sub(k.At)))
		}
	}
	name, known = l.names[code]
	return name, known || !l.current(now)
}

// current reports whether this process has a list that is fresh: only such a list shows that there
// is no such bank. The lock is held.
func (l *BankList) current(now time.Time) bool {
	return l.names != nil && now.Sub(l.listed) < banksFresh+banksAgain
}

// errNoBanks is [ErrNoSender] while a fresh list, which there is not just now, may know the bank.
var errNoBanks = fmt.Errorf("the bank does not list banks: %w", ErrNoSender)

// find returns the bank of a record: by its code if the list has that, else by its name. Without a
// fresh list, a code is taken as it is. [ErrNoSender] if the list has neither, [errNoBanks] if it
// lacks the name and is not fresh.
func (l *BankList) find(ctx context.Context, code, bank string) (found, name string, err error) {
	switch {
	case l == nil && code != "":
		return code, "", nil
	case l == nil || code == "" && bank == "":
		return "", "", ErrNoSender
	case code != "":
		if name, known := l.name(ctx, code); known {
			return code, name, nil
		}
	}
	l.name(ctx, "") // checks the list again when it is time
	l.mu.Lock()
	defer l.mu.Unlock()
	same := 0
	for c, n := range l.names {
		if bank != "" && foldName(n) == foldName(bank) {
			found, name = c, n
			same++
		}
	}
	switch {
	case same == 1:
		return found, name, nil
	case bank != "" && !l.current(l.clock.Now()):
		return "", "", errNoBanks
	}
	return "", "", ErrNoSender // or two banks with one name
}

func (l *BankList) newest(ctx context.Context) (keptBanks, error) {
	kept, now := l.load(ctx), l.clock.Now()
	if kept != nil && now.Sub(kept.At) < banksFresh {
		return *kept, nil
	}
	ask := ctx
	if kept != nil {
		var cancel context.CancelFunc
		ask, cancel = context.WithTimeout(ctx, banksPatience)
		defer cancel()
	}
	banks, err := l.bank.Banks(ask)
	if err == nil {
		fresh := keptBanks{At: now, Banks: banks}
		l.save(ctx, fresh)
		return fresh, nil
	}
	if kept == nil {
		return keptBanks{}, errors.Join(ErrBank, err)
	}
	l.log.Warn("the bank does not list banks; the kept list is served", slog.Duration("age", now.Sub(kept.At)), slog.Any("err", err))
	return *kept, nil
}

func (l *BankList) load(ctx context.Context) *keptBanks {
	if l.redis == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, banksTimeout)
	defer cancel()
	b, err := l.redis.Get(ctx, l.key).Bytes()
	if err != nil {
		return nil
	}
	var k keptBanks
	if json.Unmarshal(b, &k) != nil || len(k.Banks) == 0 {
		return nil
	}
	return &k
}

func (l *BankList) save(ctx context.Context, k keptBanks) {
	if l.redis == nil {
		return
	}
	b, err := json.Marshal(k)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), banksTimeout)
	defer cancel()
	if err := l.redis.Set(ctx, l.key, b, banksKept).Err(); err != nil {
		l.log.Warn("the list of banks was not kept", slog.Any("err", err))
	}
}
