package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// load sends genuine events at a steady rate, whatever the result of those before: each is due at
// its own moment, and its time counts from there.
type load struct {
	p      *paid
	client *http.Client
	rate   int // a second
	again  int // how often an event is sent again that is not answered 200, as the bank does
}

func newLoad(p *paid, rate int) *load {
	return &load{p: p, rate: rate, client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
}

// accepted are the times that events took from the moment they were due until they were answered
// 200, in ascending order.
type accepted []time.Duration

// run sends for as long as d. Every event must be answered 200, in the end.
func (l *load) run(d time.Duration) accepted {
	l.p.t.Helper()
	events := make([]event, int(d.Seconds()*float64(l.rate)))
	for i := range events {
		events[i] = l.p.genuine()
	}
	took := make(accepted, len(events))
	var wg sync.WaitGroup
	begin := time.Now()
	for i, e := range events {
		due := begin.Add(time.Duration(i) * time.Second / time.Duration(l.rate))
		time.Sleep(time.Until(due)) // the rate is what is asked for
		wg.Go(func() {
			err := l.send(e)
			for n := 0; err != nil && n < l.again; n++ {
				err = l.send(e)
			}
			if err != nil {
				l.p.t.Errorf("event %d: %v", i, err)
			}
			took[i] = time.Since(due)
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took
}

func (l *load) send(e event) error {
	req, err := http.NewRequest("POST", l.p.apiURL+"/webhooks/provider", bytes.NewReader(e.body))
	if err != nil {
		return err
	}
	req.Header = e.headers.Clone()
	// An empty list sends no header; it lets net/http repeat the POST where the API has closed the
	// idle connection that it went out on.
	req.Header["Idempotency-Key"] = []string{}
	resp, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("answered %d: %s", resp.StatusCode, said)
	}
	return err
}

// at is a quantile, in percent.
func (a accepted) at(percent int) time.Duration {
	return a[(len(a)-1)*percent/100].Round(10 * time.Microsecond)
}

// String has the figures that a report wants.
func (a accepted) String() string {
	return fmt.Sprintf("%d events, p50 %s, p99 %s, longest %s", len(a), a.at(50), a.at(99), a.at(100))
}

// fromEnv is the number in the environment, or n: the long form of a test asks for more than a test
// run has time for.
func fromEnv(t testing.TB, name string, n int) int {
	t.Helper()
	if v := os.Getenv(name); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		require.NoError(t, err, name)
	}
	return n
}

// usage is what a process holds, as the kernel says: resident memory in KiB and open descriptors.
// Zero where it says nothing.
type usage struct{ rss, descriptors int }

func (p *process) usage() (u usage) {
	dir := fmt.Sprintf("/proc/%d/", p.PID)
	status, _ := os.ReadFile(dir + "status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			u.rss, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	open, _ := os.ReadDir(dir + "fd")
	u.descriptors = len(open)
	return u
}

// String is the usage for a report.
func (u usage) String() string {
	return fmt.Sprintf("%d MiB, %d descriptors", u.rss>>10, u.descriptors)
}
