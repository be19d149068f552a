package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// supervisor keeps one role running, as a service manager does: it restarts a process that ends,
// after a moment.
type supervisor struct {
	s    *chaosRun
	name string
	role string

	mu       sync.Mutex
	settings map[string]string // of the next process
	version  int               // counts their changes
	running  int               // the version that the running process has
	p        *process
	why      string // what ends the process that runs: empty, kill or stop
	leaving  bool   // the process that ends is the last
	done     chan struct{}
	ends     map[string]int // how the processes ended
	wrong    []string       // what no process may print, and what printed it
	spooled  int            // lines that say that an event went to the spool
}

// keep starts the role and returns at once.
func (s *chaosRun) keep(name, role string, changes map[string]string) *supervisor {
	k := &supervisor{s: s, name: name, role: role, settings: s.with(changes), done: make(chan struct{}), ends: map[string]int{}}
	go k.run()
	return k
}

func (k *supervisor) run() {
	defer close(k.done)
	for {
		k.mu.Lock()
		settings, version := k.settings, k.version
		k.mu.Unlock()
		p := startProgram(k.s.t, k.s.dir, settings, k.s.command([]string{k.role}), []string{k.role})
		k.mu.Lock()
		k.p, k.why, k.running = p, "", version
		leaving := k.leaving
		k.mu.Unlock()
		if leaving {
			p.Signal(syscall.SIGTERM)
		}
		<-p.Done()
		if k.ended(p) {
			return
		}
		// no role is started in a tight loop while Postgres is away
		time.Sleep(200 * time.Millisecond)
	}
}

// ended notes how a process ended and what it printed, and reports whether it was the last.
func (k *supervisor) ended(p *process) bool {
	text := string(p.out.all())
	p.out.forget()
	k.mu.Lock()
	defer k.mu.Unlock()
	how := fmt.Sprintf("code %d", p.State().ExitCode())
	if how == "code -1" {
		how = p.State().String()
	}
	if k.why != "" {
		how = k.why + ": " + how
	}
	k.ends[how]++
	k.p = nil
	k.s.secretsLock.Lock() // a tenant may just be signing up
	secrets := maps.Clone(k.s.secrets)
	k.s.secretsLock.Unlock()
	for what, secret := range secrets {
		if showsSecret(text, secret) {
			k.wrong = append(k.wrong, k.name+" printed the "+what)
		}
	}
	for _, bad := range []string{"DATA RACE", "panic:", "runtime error", "fatal error"} {
		if i := strings.Index(text, bad); i >= 0 {
			k.wrong = append(k.wrong, fmt.Sprintf("%s printed %q: %s", k.name, bad, text[i:min(i+2000, len(text))]))
		}
	}
	k.spooled += strings.Count(text, "an event went to the spool")
	k.s.keepLog(k.name, text)
	return k.leaving
}

// change gives the role other settings and has its process replaced, as in a rolling restart. It
// returns when a process with them runs.
func (k *supervisor) change(changes map[string]string) {
	k.mu.Lock()
	k.settings = maps.Clone(k.settings)
	maps.Copy(k.settings, changes)
	k.version++
	want := k.version
	k.mu.Unlock()
	for begin := time.Now(); time.Since(begin) < exitLimit; time.Sleep(20 * time.Millisecond) {
		k.mu.Lock()
		done, old := k.leaving || k.p != nil && k.running == want, k.running != want
		k.mu.Unlock()
		if done {
			return
		}
		if old {
			k.end(syscall.SIGTERM, "SIGTERM")
		}
	}
	k.s.t.Errorf("%s did not come back with its new settings", k.name)
}

// end sends the running process a signal, and reports whether there was one. What it is for stands
// in the table of ends.
func (k *supervisor) end(sig syscall.Signal, why string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.p == nil || k.p.Ended() || k.why != "" {
		return false
	}
	k.why = why
	k.p.Signal(sig)
	return true
}

// leave asks the role to stop for good and waits; false says that it had to be killed.
func (k *supervisor) leave() bool {
	k.mu.Lock()
	k.leaving = true
	p := k.p
	k.why = "last stop"
	k.mu.Unlock()
	if p != nil {
		p.Signal(syscall.SIGTERM)
	}
	select {
	case <-k.done:
		return true
	case <-time.After(exitLimit):
	}
	k.mu.Lock()
	p = k.p
	k.mu.Unlock()
	if p != nil {
		p.Kill()
	}
	<-k.done
	return false
}

// keepLog appends what a process printed to a file in the folder of results, if there is one.
func (s *chaosRun) keepLog(name, text string) {
	if s.out == "" {
		return
	}
	f, err := os.OpenFile(filepath.Join(s.out, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(text); err != nil {
		s.t.Error(err)
	}
}

// supervisors are those of all roles.
func (s *chaosRun) supervisors() []*supervisor { return slices.Concat(s.apis, s.workers) }

// ends counts how the processes of a role ended.
func ends(supervisors []*supervisor) map[string]int {
	all := map[string]int{}
	for _, k := range supervisors {
		k.mu.Lock()
		for how, n := range k.ends {
			all[k.role+", "+how] += n
		}
		k.mu.Unlock()
	}
	return maps.Clone(all)
}
