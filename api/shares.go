package api

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
)

// Some calls of a session hold a slot for long, and slots are limited. Each tenant has a share of
// them, so that one tenant, or many, cannot take all of them.

// listeners are the calls that wait for events.
type listeners struct {
	places   int
	mu       sync.Mutex
	inAll    int
	byTenant map[uuid.UUID][]*listening // each tenant's, the oldest first
}

// listening is a call that waits.
type listening struct {
	tenant uuid.UUID
	ended  atomic.Bool // it had to make room, and answers with the events so far
}

// enter takes a slot for a call of the tenant; nil when there is none for it. When all slots are
// taken, the oldest call of the tenant that has most makes room, as long as that tenant keeps at
// least as many as the newcomer then has. So slots are shared evenly among many tenants.
func (l *listeners) enter(tenant uuid.UUID) *listening {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := len(l.byTenant[tenant])
	if own >= listenPerTenant || l.inAll >= l.places && !l.makeRoom(own) {
		return nil
	}
	if l.byTenant == nil {
		l.byTenant = map[uuid.UUID][]*listening{}
	}
	call := &listening{tenant: tenant}
	l.byTenant[tenant] = append(l.byTenant[tenant], call)
	l.inAll++
	return call
}

// makeRoom ends a call of the tenant that has most, if that is more than own plus the newcomer.
func (l *listeners) makeRoom(own int) bool {
	var most []*listening
	for _, calls := range l.byTenant {
		if len(calls) > len(most) {
			most = calls
		}
	}
	if len(most) <= own+1 {
		return false
	}
	most[0].ended.Store(true)
	l.remove(most[0])
	return true
}

// leave frees the call's slot, if it still has one.
func (l *listeners) leave(call *listening) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(call)
}

func (l *listeners) remove(call *listening) {
	calls := l.byTenant[call.tenant]
	for i, c := range calls {
		if c != call {
			continue
		}
		l.inAll--
		if len(calls) == 1 {
			delete(l.byTenant, call.tenant)
		} else {
			l.byTenant[call.tenant] = append(calls[:i:i], calls[i+1:]...)
		}
		return
	}
}

// slots are what requests of a kind take while they are worked on, of each tenant only so many at a
// time. Its other requests wait for these, so that no tenant waits for a slot of all with more of
// them. Slots are given in order of arrival.
type slots struct {
	places   chan struct{}
	each     int // that a tenant has at a time
	most     int // requests of a tenant, those that wait too; 0: any number
	mu       sync.Mutex
	byTenant map[uuid.UUID]*ofTenant
}

// ofTenant are the requests of a tenant: those that run or wait for a slot, and how many there are.
type ofTenant struct {
	turn chan struct{}
	all  int
}

// newExports are the slots in which files are created: one of a tenant at a time.
func newExports(places int) *slots {
	return &slots{places: make(chan struct{}, places), each: 1, most: exportsPerTenant, byTenant: map[uuid.UUID]*ofTenant{}}
}

// newReads are the slots in which lists are read, of a process with so many connections: three
// quarters of them, and a tenant has a third of these. The rest is for all other requests.
func newReads(connections int) *slots {
	places := max(2, connections*3/4)
	return &slots{places: make(chan struct{}, places), each: max(1, places/3), byTenant: map[uuid.UUID]*ofTenant{}}
}

// newChecks are the slots in which NINs are checked: as many as there are connections to the NIN
// service (package dojah), of which a tenant has a quarter. A check that has to wait for a
// connection counts as unanswered after ten seconds, and its customer waits for a person.
func newChecks() *slots {
	return &slots{places: make(chan struct{}, checksAtOnce), each: checksAtOnce / 4, byTenant: map[uuid.UUID]*ofTenant{}}
}

// enter waits for a slot; leave frees it. [errManyExports] when too many requests of the tenant
// wait already, and [errBusy] when the request has waited too long.
func (x *slots) enter(ctx context.Context, tenant uuid.UUID) (leave func(), err error) {
	own, err := x.join(tenant)
	if err != nil {
		return nil, err
	}
	select {
	case own.turn <- struct{}{}:
	case <-ctx.Done():
		x.quit(tenant, own)
		return nil, errBusy
	}
	select {
	case x.places <- struct{}{}:
	case <-ctx.Done():
		<-own.turn
		x.quit(tenant, own)
		return nil, errBusy
	}
	return func() {
		<-x.places
		<-own.turn
		x.quit(tenant, own)
	}, nil
}

func (x *slots) join(tenant uuid.UUID) (*ofTenant, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	own := x.byTenant[tenant]
	if own == nil {
		own = &ofTenant{turn: make(chan struct{}, x.each)}
		x.byTenant[tenant] = own
	}
	if x.most > 0 && own.all >= x.most {
		return nil, errManyExports
	}
	own.all++
	return own, nil
}

func (x *slots) quit(tenant uuid.UUID, own *ofTenant) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if own.all--; own.all == 0 {
		delete(x.byTenant, tenant)
	}
}
