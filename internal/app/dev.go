package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ajo/internal/config"
	"ajo/internal/fakebank"
	"ajo/internal/partition"
	"ajo/internal/secret"
	"ajo/internal/stack"
	"ajo/internal/supervise"
	"ajo/migrations"
)

// DevOptions say where `ajo dev` keeps its data and what it does.
type DevOptions struct {
	Dir     string // ".ajo"
	Install bool   // missing servers are installed with the machine's package manager
	Once    bool   // end after the demo payment, for tests
	// Commands are what the console runs.
	Commands Commands
	Out      io.Writer
}

// devConfirmDelays confirm the demo payment within seconds; the real schedule begins after 30 s.
var devConfirmDelays = []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute}

// Dev runs everything on one machine, in one process: private Postgres and Redis, the fake bank,
// the API, workers for all queues and the operations listener. It sends one payment through the
// whole chain, prints where things are, and runs until ctx ends. A second run finds the data of the
// first. If the payment fails, all else runs, unless it is all that was asked for.
func Dev(ctx context.Context, o DevOptions) (err error) {
	say := func(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", args...) }
	started := time.Now()
	say("Ajo %s, for development. Data and logs are in %s; `make reset` removes them.", Version(), o.Dir)
	s, err := stack.Start(ctx, stack.Options{Dir: filepath.Join(o.Dir, "dev"), Install: o.Install, Log: func(f string, a ...any) { say("  "+f, a...) }})
	if err != nil {
		return err
	}
	defer s.Stop()
	logFile, err := os.OpenFile(filepath.Join(o.Dir, "dev.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logFile.Close()) }()
	d := &devRun{DevOptions: o, say: say, log: processLog(logFile, "pretty", slog.LevelInfo)}
	defer d.stopParts()
	if err := d.start(ctx, s); err != nil {
		return err
	}
	say("  everything is up after %s", time.Since(started).Round(time.Millisecond))
	// what was done with the demo tenant must not keep all else from running
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{{"the demo payment", d.demo}, {"the link to the dashboard", d.makeLink}} {
		err := part.do(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			continue
		}
		if err = fmt.Errorf("%s: %w (see %s)", part.name, err, logFile.Name()); o.Once {
			return err
		}
		say("  %v", err)
	}
	d.summary()
	if o.Once {
		return nil
	}
	select {
	case <-ctx.Done():
		say("\nstopping …")
		return nil
	case err := <-s.Failed():
		return err
	case err := <-d.failed:
		return err
	}
}

// devRun is what [Dev] runs.
type devRun struct {
	DevOptions
	say    func(format string, args ...any)
	log    *slog.Logger
	cfg    config.Config
	bank   *fakebank.Bank
	api    *API
	ops    *Ops
	test   *supervise.Process // the sandbox
	failed <-chan error
	stops  []func()

	bankURL string
	key     secret.Redacted // the demo tenant's API key; empty: it does not work any more
	nuban   string          // the demo customer's account number; empty: there was no demo payment
	link    string          // opens the dashboard once, as the demo tenant; empty: there is none
}

func (d *devRun) stopParts() {
	for i := len(d.stops) - 1; i >= 0; i-- {
		d.stops[i]()
	}
}

// start starts the parts in the order of their dependencies.
func (d *devRun) start(ctx context.Context, s *stack.Stack) error {
	if applied, err := upgrade(ctx, s.DatabaseURL, partition.Month, migrations.Options{}); err != nil {
		return err
	} else if len(applied) > 0 {
		d.say("  migrated: %s", strings.Join(applied, ", "))
	}
	if err := onFree("127.0.0.1:8090", d.startBank); err != nil {
		return err
	}
	if err := d.configure(s); err != nil {
		return err
	}
	if err := d.startSandbox(ctx, s); err != nil {
		return err
	}
	worker, err := StartWorker(ctx, d.cfg, d.log.With(slog.String("role", "worker")), AllQueues())
	if err != nil {
		return err
	}
	d.stops = append(d.stops, worker.Stop)
	err = onFree("127.0.0.1:8080", func(addr string) (err error) {
		d.cfg.HTTPAddr = addr
		d.api, d.failed, err = StartAPI(ctx, d.cfg, d.log.With(slog.String("role", "api")))
		return err
	})
	if err != nil {
		return err
	}
	d.stops = append(d.stops, d.api.Stop)
	d.bank.SetWebhookURL(d.api.URL + "/webhooks/provider")
	err = onFree("127.0.0.1:8081", func(addr string) (err error) {
		d.cfg.OpsAddr = addr
		if d.ops, err = StartOps(d.cfg, d.log, d.Commands); d.ops == nil && err == nil {
			return syscall.EADDRINUSE
		}
		return err
	})
	if err != nil {
		return err
	}
	d.stops = append(d.stops, d.ops.Stop)
	release, err := d.publishSettings()
	if err != nil {
		return err
	}
	d.stops = append(d.stops, release)
	return d.test.Await(ctx, sandboxLimit, supervise.Listening(strings.TrimPrefix(d.cfg.TestURL, "http://")))
}

// configure makes the settings of the development machine. Keys and passwords are generated once
// and kept in the data folder.
func (d *devRun) configure(s *stack.Stack) error {
	keys, err := d.kept("encryption-keys", func() string { return secret.NewKey("dev").Reveal() })
	if err != nil {
		return err
	}
	password, err := d.kept("ops-password", func() string { return strings.ToLower(rand.Text()[:16]) })
	if err != nil {
		return err
	}
	testSecret, err := d.kept("test-secret", func() string { return secret.NewSigningSecret().Reveal() })
	if err != nil {
		return err
	}
	port, err := supervise.FreePort()
	if err != nil {
		return err
	}
	d.cfg, err = config.Parse(map[string]string{
		"AJO_DRAIN": "0s", "AJO_DATABASE_URL": s.DatabaseURL, "AJO_REDIS_URL": s.RedisURL, "AJO_ENCRYPTION_KEYS": keys,
		"AJO_PROVIDER_URL": d.bankURL, "AJO_PROVIDER_ACCOUNT_ID": fakebank.DefaultAccountID,
		"AJO_PROVIDER_CLIENT_ID": fakebank.DefaultClientID, "AJO_PROVIDER_CLIENT_SECRET": fakebank.DefaultClientSecret,
		"AJO_PROVIDER_WEBHOOK_SECRET": fakebank.DefaultWebhookSecret, "AJO_MAIL_DIR": filepath.Join(d.Dir, "mail"),
		"AJO_SPOOL_DIR": filepath.Join(d.Dir, "spool"),
		// any will do
		"AJO_IDENTITY_URL": d.bankURL, "AJO_IDENTITY_APP_ID": "dev", "AJO_IDENTITY_KEY": "dev",
		"AJO_OPS_PASSWORD": password, "AJO_OPS_WRITABLE": "false",
		"AJO_TEST_URL": fmt.Sprintf("http://127.0.0.1:%d", port), "AJO_TEST_SECRET": testSecret,
	})
	d.cfg.ConfirmDelays = devConfirmDelays
	return err
}

func (d *devRun) startBank(addr string) error {
	d.bank = fakebank.New(fakebank.Options{
		Log: d.log.With(slog.String("role", "fakebank")), StateFile: filepath.Join(d.Dir, "fakebank.json"), PayoutDelay: 3 * time.Second,
		RecipientRate: fakebank.DefaultRecipientRate,
	})
	url, err := d.bank.Start(addr)
	if err != nil {
		return errors.Join(err, d.bank.Close())
	}
	d.stops = append(d.stops, func() {
		if err := d.bank.Close(); err != nil {
			d.say("the fake bank: %v", err)
		}
	})
	d.bankURL = url
	return nil
}

// kept returns the content of a file in the data folder; on the first run draw creates it.
func (d *devRun) kept(name string, draw func() string) (string, error) {
	path := filepath.Join(d.Dir, name)
	b, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	v := draw()
	return v, os.WriteFile(path, []byte(v+"\n"), 0o600)
}

// onFree starts what listens on addr, or where that is taken, on a free port. It tries another one
// as long as somebody else was faster.
func onFree(addr string, start func(addr string) error) (err error) {
	for range 10 {
		if err = start(freeAddr(addr)); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return err
}

// freeAddr returns addr if it is free, else a free port of the same host.
func freeAddr(addr string) string {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		_ = l.Close()
		return addr
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		if port, err := supervise.FreePort(); err == nil {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}
	return addr // the role that listens on it reports the error
}
