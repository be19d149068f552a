package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"ajo/internal/page"
)

const (
	bigAccount   = 1_000_000
	smallAccount = 1000
	spreadBook   = 200_000
	smallBook    = 10_000
	fullBook     = 10_000_000
)

// bigBook is the large book: as large as the goal says when the run is a full one, else what is
// made in a minute.
func (r *run) bigBook() bookOf {
	if r.short {
		return bookOf{spread: 2000, big: 5000, small: 100}
	}
	b := bookOf{spread: spreadBook, big: bigAccount, small: smallAccount}
	if r.full {
		b.spread = fullBook - bigAccount - smallAccount
	}
	return b
}

// littleBook is what the large one is compared with.
func (r *run) littleBook() bookOf {
	if r.short {
		return bookOf{spread: 200}
	}
	return bookOf{spread: smallBook}
}

// reading compares reads of an account with a long history to those of one with a short one, in the
// same book.
func (r *run) reading(ctx context.Context) error {
	filled, err := r.fill(ctx, r.bigBook())
	if err != nil {
		return err
	}
	f, err := r.copyOf(ctx, "read", filled)
	if err != nil {
		return err
	}
	defer f.close(ctx)
	big, small := f.accounts[r.spread()], f.accounts[r.spread()+1]
	c, err := dial(f.apiAddr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	// the page that begins after so much of the history
	at := func(part, parts int) func(*account) string {
		return func(a *account) string {
			return "/statement?limit=50&after=" + page.Seq(page.Statement, uuid.MustParse(a.id), int64(max(0, min(a.filled*part/parts, a.filled-50))))
		}
	}
	for _, read := range []struct {
		what string
		path func(*account) string
	}{
		{"balance", func(*account) string { return "/balance" }},
		{"statement, first page", func(*account) string { return "/statement?limit=50" }},
		{"statement, middle page", at(1, 2)},
		{"statement, last page", at(1, 1)},
	} {
		long, brief, err := r.compareReads(ctx, c, f, big, small, read.path)
		if err != nil {
			return fmt.Errorf("%s: %w", read.what, err)
		}
		r.add(figure{
			Row: "read", What: fmt.Sprintf("%s, account with %s entries ÷ with %s", read.what, grouped(big.filled), grouped(small.filled)), Unit: "×",
			Value: long.Seconds() / brief.Seconds(), Goal: 1.2, AtMost: true,
			Note: fmt.Sprintf("medians %s and %s, calls in turn", short(long), short(brief)),
		})
	}
	return r.filters(ctx, c, f, big)
}

// compareReads is the median time of a read on each of two accounts, whose calls take turns.
func (r *run) compareReads(ctx context.Context, c *connection, f *flow, big, small *account, path func(*account) string) (long, brief time.Duration, err error) {
	var times [2][]time.Duration
	requests := [2][]byte{}
	for i, a := range []*account{big, small} {
		requests[i] = httpRequest("GET", f.apiAddr, "/v1/accounts/"+a.ref+path(a), nil, "X-API-Key: "+a.key)
	}
	const warm = 100
	for n := range warm + r.scaled(1000) {
		for turn := range 2 {
			i := (n + turn) % 2 // neither is always the one that comes second
			begin := time.Now()
			status, body, err := c.do(requests[i])
			if err != nil {
				return 0, 0, err
			}
			if status != 200 {
				return 0, 0, refusal{i, status, string(body)}
			}
			if n >= warm {
				times[i] = append(times[i], time.Since(begin))
			}
		}
		if ctx.Err() != nil {
			return 0, 0, ctx.Err()
		}
	}
	slices.Sort(times[0])
	slices.Sort(times[1])
	return percentile(times[0], 500), percentile(times[1], 500), nil
}

// book compares the posting rate in a large book to that in a small one. They take turns, so that
// what drifts hits both.
func (r *run) book(ctx context.Context) error {
	large, err := r.fill(ctx, r.bigBook())
	if err != nil {
		return err
	}
	few := r.littleBook()
	little, err := r.fill(ctx, few)
	if err != nil {
		return err
	}
	var big, small []float64
	for i, turn := range []struct {
		of    *filled
		rates *[]float64
	}{{little, &small}, {large, &big}, {large, &big}, {little, &small}} {
		// The check of a whole book of 10,000,000 takes minutes: of those copies, the last one is
		// checked.
		rate, err := r.postInto(ctx, turn.of, !r.full || i == 2)
		if err != nil {
			return err
		}
		*turn.rates = append(*turn.rates, rate)
	}
	note := fmt.Sprintf("%.0f and %.0f/s ÷ %.0f and %.0f/s, 64 connections, %s", big[0], big[1], small[0], small[1], overAccounts(r.spread()))
	if !r.full {
		note += fmt.Sprintf("; the goal is for %s entries: BENCH_FULL=1", grouped(fullBook))
	}
	r.add(figure{
		Row: "book", What: fmt.Sprintf("posting with %s entries in the book ÷ with %s", grouped(r.bigBook().entries()), grouped(few.entries())), Unit: "×",
		Value: (big[0] + big[1]) / (small[0] + small[1]), Goal: 0.9, Note: note,
	})
	return nil
}

// postInto is the rate of accepted → posted in a copy of a filled book. Unless the whole book is to
// be checked, the counts and the sums of the accounts are.
func (r *run) postInto(ctx context.Context, of *filled, whole bool) (float64, error) {
	f, err := r.copyOf(ctx, "book", of)
	if err != nil {
		return 0, err
	}
	defer f.close(ctx)
	if _, _, err := f.posted(ctx, posting{accounts: f.accounts[:r.spread()], conns: 16, count: r.scaled(warmUp)}); err != nil {
		return 0, err
	}
	if err := f.checkpoint(ctx); err != nil {
		return 0, err
	}
	rate, _, err := f.posted(ctx, posting{accounts: f.accounts[:r.spread()], conns: 64, count: r.most(mostPosted) / 2, took: r.took / 2})
	if !whole {
		return rate, errors.Join(err, f.verifyCounts(ctx), f.verifyAccounts(ctx))
	}
	return rate, errors.Join(err, f.verify(ctx))
}

// grouped writes 1,000,000.
func grouped(n int) string { return message.NewPrinter(language.English).Sprint(n) }
