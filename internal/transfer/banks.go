package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"ajo/internal/clock"
	"ajo/internal/provider"
)

const (
	banksKey      = "ajo:banks"
	banksFresh    = time.Hour
	banksKept     = 30 * 24 * time.Hour // a stale list serves while the bank is down
	banksTimeout  = 250 * time.Millisecond
	banksPatience = 2 * time.Second // for the bank, when there is a list to serve instead
)

// BankList is the list of banks that payouts can go to, kept in Redis for an hour. While the bank is down the last known
// list is served, however old.
type BankList struct {
	bank  provider.Bank
	redis redis.UniversalClient
	clock clock.Clock
	log   *slog.Logger
}

// NewBankList returns the list of the given bank.
func NewBankList(bank provider.Bank, r redis.UniversalClient, c clock.Clock, log *slog.Logger) *BankList {
	return &BankList{bank: bank, redis: r, clock: c, log: log}
}

// keptBanks is what stands in Redis.
type keptBanks struct {
	At    time.Time
	Banks []provider.BankInfo
}

// Banks returns the list; [ErrBank] when the bank is down and no list was ever kept. Redis away only costs a question to the bank.
func (l *BankList) Banks(ctx context.Context) ([]provider.BankInfo, error) {
	kept, now := l.load(ctx), l.clock.Now()
	if kept != nil && now.Sub(kept.At) < banksFresh {
		return kept.Banks, nil
	}
	ask := ctx
	if kept != nil {
		var cancel context.CancelFunc
		ask, cancel = context.WithTimeout(ctx, banksPatience)
		defer cancel()
	}
	banks, err := l.bank.Banks(ask)
	if err == nil {
		l.save(ctx, keptBanks{At: now, Banks: banks})
		return banks, nil
	}
	if kept == nil {
		return nil, errors.Join(ErrBank, err)
	}
	l.log.Warn("the bank does not list banks; the kept list is served", slog.Duration("age", now.Sub(kept.At)), slog.Any("err", err))
	return kept.Banks, nil
}

func (l *BankList) load(ctx context.Context) *keptBanks {
	ctx, cancel := context.WithTimeout(ctx, banksTimeout)
	defer cancel()
	b, err := l.redis.Get(ctx, banksKey).Bytes()
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
	b, err := json.Marshal(k)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), banksTimeout)
	defer cancel()
	if err := l.redis.Set(ctx, banksKey, b, banksKept).Err(); err != nil {
		l.log.Warn("the list of banks was not kept", slog.Any("err", err))
	}
}
