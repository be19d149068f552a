package ratelimit

import (
	"encoding/hex"
	"net/netip"
	"sync"
	"time"
)

// maxRemembered bounds each of the memories below. They save questions, and decide nothing that
// Redis does not decide too.
const maxRemembered = 10_000

// recent is what this process knows of credentials and addresses without asking anybody: who is
// over a limit until when, and which credentials have opened something. The latter lets nobody in:
// it only says that looking them up is worth it.
type recent struct {
	mu    sync.Mutex
	over  map[string]verdict
	met   map[[16]byte]struct{}
	older map[[16]byte]struct{} // the generation before
}

// verdict is that of a limit that was passed.
type verdict struct {
	limit int64
	until time.Time
}

// passed remembers a refusal.
func (m *recent) passed(key string, r Result, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.over) >= maxRemembered {
		for k, v := range m.over {
			if !v.until.After(now) {
				delete(m.over, k)
			}
		}
	}
	if m.over == nil || len(m.over) >= maxRemembered {
		m.over = map[string]verdict{}
	}
	m.over[key] = verdict{limit: r.Limit, until: now.Add(time.Duration(r.Reset) * time.Second)}
}

// isOver returns the refusal that is remembered and still holds.
func (m *recent) isOver(key string, now time.Time) (Result, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.over[key]
	if !ok {
		return Result{}, false
	}
	left := v.until.Sub(now)
	if left <= 0 {
		delete(m.over, key)
		return Result{}, false
	}
	return Result{Limit: v.limit, Reset: int64((left + time.Second - 1) / time.Second)}, true
}

// meet remembers a credential that has opened something, or forgets one that opens nothing any
// more.
func (m *recent) meet(credential [16]byte, good bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !good {
		delete(m.met, credential)
		delete(m.older, credential)
		return
	}
	if _, ok := m.met[credential]; ok {
		return
	}
	if m.met == nil || len(m.met) >= maxRemembered {
		m.older, m.met = m.met, map[[16]byte]struct{}{}
	}
	m.met[credential] = struct{}{}
}

func (m *recent) hasMet(credential [16]byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, now := m.met[credential]
	_, before := m.older[credential]
	return now || before
}

// Admit reports whether a credential, given by its SHA-256, may be looked up. It may not while its
// own tenant is over the limit, and, unless it has opened something before, while its address is:
// so that made-up credentials cost a look-up only as often as the limit says. A refusal is one to
// answer with.
func (l *Limiter) Admit(addr netip.Addr, credential [32]byte) Result {
	if r, over := l.recent.isOver(ownName(credential), time.Now()); over {
		byKey.Decided(false, false)
		return r
	}
	return l.AdmitToEnd(addr, credential)
}

// AdmitToEnd is Admit for a credential that is to be ended, which does not depend on what its
// tenant has used up.
func (l *Limiter) AdmitToEnd(addr netip.Addr, credential [32]byte) Result {
	if r, over := l.recent.isOver(strangerName(addr), time.Now()); over && !l.recent.hasMet([16]byte(credential[:16])) {
		byStranger.Decided(false, false)
		return r
	}
	return Result{OK: true}
}

// metWith records the result of counting a tenant's request with the credential.
func (l *Limiter) metWith(credential [32]byte, r Result) Result {
	if l.recent.meet([16]byte(credential[:16]), true); !r.OK {
		l.recent.passed(ownName(credential), r, time.Now())
	}
	return r
}

// Met remembers a credential that has opened something where nothing but strangers is counted.
func (l *Limiter) Met(credential [32]byte) { l.recent.meet([16]byte(credential[:16]), true) }

func ownName(credential [32]byte) string  { return "own:" + hex.EncodeToString(credential[:16]) }
func strangerName(addr netip.Addr) string { return "stranger:" + Network(addr) }
