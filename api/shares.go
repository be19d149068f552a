package api

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
)

// Some of what a session may ask for holds a place for long, and there are only so many. A tenant
// has a share of them, so that one that takes all it can get, or many that do, leave room for the
// others.

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
	ended  atomic.Bool // it had to make room, and answers with what there is
}

// enter takes a place for a call of the tenant; nil when there is none for it. Where all places are
// taken, the oldest call of the tenant that has most makes room, as long as that tenant keeps at
// least as many as the newcomer has then: so places that many tenants fill are shared out evenly.
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

// makeRoom ends a call of the tenant that has most, if that is more than own and the newcomer.
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

// leave gives the call's place back, if it still has one.
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

// exports are the places in which files are made. A tenant has one at a time, and its other
// requests wait for that one, so that of those who wait for a place none is there twice; they get
// it in the order in which they came.
type exports struct {
	places   chan struct{}
	mu       sync.Mutex
	byTenant map[uuid.UUID]*exporting
}

// exporting are the requests of a tenant: the one whose turn it is, and how many there are.
type exporting struct {
	turn chan struct{}
	all  int
}

func newExports(places int) *exports {
	return &exports{places: make(chan struct{}, places), byTenant: map[uuid.UUID]*exporting{}}
}

// enter waits for a place; leave gives it back. [errManyExports] when too many of the tenant's wait
// already, and [errBusy] when the request's time is up.
func (x *exports) enter(ctx context.Context, tenant uuid.UUID) (leave func(), err error) {
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

func (x *exports) join(tenant uuid.UUID) (*exporting, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	own := x.byTenant[tenant]
	if own == nil {
		own = &exporting{turn: make(chan struct{}, 1)}
		x.byTenant[tenant] = own
	}
	if own.all >= exportsPerTenant {
		return nil, errManyExports
	}
	own.all++
	return own, nil
}

func (x *exports) quit(tenant uuid.UUID, own *exporting) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if own.all--; own.all == 0 {
		delete(x.byTenant, tenant)
	}
}
