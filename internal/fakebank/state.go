package fakebank

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ajo/internal/clock"
)

// saveEvery is how often a state file is written while there are changes; a large one is written
// less often, so that it takes at most 1/saveShare of a processor.
const (
	saveEvery = time.Second
	saveShare = 10
)

// stateFile is what a bank keeps across runs. Money is decimal text; the wallet may be negative.
// The place in the row of account numbers is not kept: each run without a seed begins at another
// one, so that a number that was issued after the file was last written, before the process died,
// is not issued again. The service has its account, and would refuse the number for another.
type stateFile struct {
	Wallet       string            `json:"wallet"`
	Accounts     []Account         `json:"accounts"`
	Transactions []Transaction     `json:"transactions"`
	Payouts      []Payout          `json:"payouts"`
	Webhooks     []Webhook         `json:"webhooks"` // those still to be sent
	People       map[string]Person `json:"people"`
}

type saver struct {
	mu    sync.Mutex // one writer at a time
	saved int64      // the books' change count that is on disk
}

// keepSaved writes the state file now and then, off everybody's path.
func (b *Bank) keepSaved() {
	var next time.Time
	clock.Every(b.ctx, saveEvery, func() {
		begun := time.Now()
		if begun.Before(next) {
			return
		}
		if b.opt.KeepFor > 0 {
			b.books.forget(b.clock.Now().Add(-b.opt.KeepFor))
		}
		if err := b.save(); err != nil {
			b.log.Error("fake bank's state was not written", "error", err)
		}
		next = time.Now().Add((saveShare - 1) * time.Since(begun))
	})
}

// save writes the state file if there is one and something has changed. A file that could not be
// read is left alone.
func (b *Bank) save() error {
	if b.opt.StateFile == "" || b.loadErr != nil {
		return nil
	}
	b.saver.mu.Lock()
	defer b.saver.mu.Unlock()
	changes := b.books.changes.Load()
	if changes == b.saver.saved {
		return nil
	}
	text, err := json.Marshal(b.state())
	if err != nil {
		return fmt.Errorf("fakebank: state: %w", err)
	}
	if err := replaceFile(b.opt.StateFile, text); err != nil {
		return fmt.Errorf("fakebank: state: %w", err)
	}
	b.saver.saved = changes
	return nil
}

// state copies what is to be kept.
func (b *Bank) state() stateFile {
	b.books.mu.RLock()
	s := stateFile{Wallet: b.books.wallet.String(), People: maps.Clone(b.books.people)}
	for _, a := range b.books.opened {
		s.Accounts = append(s.Accounts, *a)
	}
	for _, r := range b.books.lines {
		if r.tx != nil {
			s.Transactions = append(s.Transactions, *r.tx)
		} else {
			s.Payouts = append(s.Payouts, *r.out)
		}
	}
	b.books.mu.RUnlock()
	b.hooks.mu.Lock()
	defer b.hooks.mu.Unlock()
	for _, d := range b.hooks.all {
		if d.State == HookWaiting {
			s.Webhooks = append(s.Webhooks, d.copy())
		}
	}
	return s
}

// load reads the state file and takes up what was under way: payouts end and webhooks are sent when
// they are due.
func (b *Bank) load() error {
	text, err := os.ReadFile(b.opt.StateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("fakebank: state: %w", err)
	}
	var s stateFile
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("fakebank: state file %s: %w", b.opt.StateFile, err)
	}
	k := b.books
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.wallet.Scan(s.Wallet); err != nil {
		return fmt.Errorf("fakebank: state file %s: %w", b.opt.StateFile, err)
	}
	maps.Copy(k.people, s.People)
	for i := range s.Accounts {
		k.open(&s.Accounts[i])
	}
	for i := range s.Transactions {
		k.enter(&s.Transactions[i], s.Transactions[i].Time)
	}
	for i := range s.Payouts {
		p := &s.Payouts[i]
		k.enterPayout(p)
		if p.NextAt != nil {
			b.due.at(*p.NextAt, func() { b.advance(p.Ref) })
		}
	}
	for _, w := range s.Webhooks {
		d := &delivery{Webhook: w, first: make(chan struct{})}
		at := b.clock.Now()
		if w.NextAt != nil {
			at = *w.NextAt
		}
		b.hooks.remember(d)
		b.due.at(at, func() { b.send(d) })
	}
	b.saver.saved = k.changes.Load()
	return nil
}

// replaceFile writes a file whole or not at all.
func replaceFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".fakebank-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
