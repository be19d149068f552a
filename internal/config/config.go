// Package config reads the settings from the environment, once, at start.
//
// Every setting is a field of [Config], documented where it is declared. A missing or bad one is
// refused with its name, before anything is opened. For a new one, `go generate` writes the
// README's table; deploy/ajo.env.example ends with the output of `ajo settings --env`; package app
// passes it on; and if operators' commands need it, cmd/ajo/tools.go names it ([Some]).
package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"ajo/internal/partition"
	"ajo/internal/secret"
)

// The values of AJO_ENV.
const (
	Development = "development"
	Production  = "production"
)

// Config holds the settings. The names are a contract with deployments and outside test suites.
type Config struct {
	Env      string `env:"AJO_ENV" envDefault:"development" doc:"development or production; required where AJO_HTTP_ADDR or AJO_OPS_ADDR is not a loopback address"`
	HTTPAddr string `env:"AJO_HTTP_ADDR" envDefault:"127.0.0.1:8080" doc:"where the API listens"`
	OpsAddr  string `env:"AJO_OPS_ADDR" envDefault:"127.0.0.1:8081" doc:"where the operators' console, metrics, queue dashboard and pprof listen; if the port is in use, the process runs without them"`

	Drain time.Duration `env:"AJO_DRAIN" envDefault:"1s" doc:"how long the API still accepts requests after it is told to stop; /ready answers 503 and connections close after each answer, so that the load balancer moves away"`

	DatabaseURL     secret.Redacted `env:"AJO_DATABASE_URL,required" doc:"postgres://…"`
	DatabaseReadURL secret.Redacted `env:"AJO_DATABASE_READ_URL" doc:"postgres://… of a streaming standby, from which the API answers lists, statements, exports and the dashboard's overview while it is up to date; empty: from the primary"`
	DatabaseMax     int32           `env:"AJO_DATABASE_MAX_CONNS" envDefault:"16" doc:"connections of one process; multiplied by the number of processes it must stay below the server's max_connections"`
	RedisURL        secret.Redacted `env:"AJO_REDIS_URL,required" doc:"redis:// or rediss://; several hosts separated by commas: a Cluster, or Sentinels with ?master_name=… (and sentinel_password=…); must be noeviction"`

	EncryptionKeys secret.Redacted `env:"AJO_ENCRYPTION_KEYS,required" doc:"id:base64 of 32 bytes[,id:…]; the first encrypts, all decrypt"`

	ProviderURL                        string          `env:"AJO_PROVIDER_URL,required" doc:"the bank's API"`
	ProviderAccountID                  string          `env:"AJO_PROVIDER_ACCOUNT_ID,required" doc:"our account at the bank"`
	ProviderClientID                   string          `env:"AJO_PROVIDER_CLIENT_ID,required" doc:"the bank's client id"`
	ProviderClientSecret               secret.Redacted `env:"AJO_PROVIDER_CLIENT_SECRET,required" doc:"the bank's client secret"`
	ProviderWebhookSecret              secret.Redacted `env:"AJO_PROVIDER_WEBHOOK_SECRET,required" doc:"the key of the bank's webhook signatures"`
	ProviderWebhookSecretPrevious      secret.Redacted `env:"AJO_PROVIDER_WEBHOOK_SECRET_PREVIOUS" doc:"the previous key, accepted as well until the time in the next setting"`
	ProviderWebhookSecretPreviousUntil time.Time       `env:"AJO_PROVIDER_WEBHOOK_SECRET_PREVIOUS_UNTIL" doc:"until when the previous key is accepted, such as 2026-03-02T09:00:00Z; required if it is set"`
	ProviderSignatureHeader            string          `env:"AJO_PROVIDER_SIGNATURE_HEADER" envDefault:"provider-signature" doc:"header with the bank's signature"`
	ProviderTimestampHeader            string          `env:"AJO_PROVIDER_TIMESTAMP_HEADER" envDefault:"provider-timestamp" doc:"header with the bank's timestamp"`
	ProviderRate                       int             `env:"AJO_PROVIDER_RATE" envDefault:"75" doc:"calls a second to the bank from one process; -1: no limit"`
	ProviderPostRate                   int             `env:"AJO_PROVIDER_POST_RATE" envDefault:"15" doc:"POST calls a second, counted in AJO_PROVIDER_RATE too; -1: no limit"`
	ProviderRecipientRate              int             `env:"AJO_PROVIDER_RECIPIENT_RATE" envDefault:"5" doc:"payouts a minute to one recipient's account, from all workers together; -1: no limit"`

	IdentityURL   string          `env:"AJO_IDENTITY_URL" doc:"the NIN service; empty: every submission goes to pending_review"`
	IdentityAppID string          `env:"AJO_IDENTITY_APP_ID" doc:"the NIN service's app id"`
	IdentityKey   secret.Redacted `env:"AJO_IDENTITY_KEY" doc:"the NIN service's key"`

	TestURL    string          `env:"AJO_TEST_URL" doc:"address of the sandbox's API (ajo sandbox), to which test-mode requests are forwarded; empty: test mode is off"`
	TestSecret secret.Redacted `env:"AJO_TEST_SECRET" doc:"the key that signs forwarded requests; at least 32 characters, the same on the sandbox"`
	// Sandbox says that this process is the sandbox: its bank is simulated, and it sends no mail.
	Sandbox bool `env:"-"`

	SMTPURL  secret.Redacted `env:"AJO_SMTP_URL" doc:"smtp://user:password@host:port or smtps://…; empty: development writes .eml files, production refuses to start"`
	MailFrom string          `env:"AJO_MAIL_FROM" envDefault:"Ajo <no-reply@ajo.example>" doc:"sender of e-mails"`
	MailDir  string          `env:"AJO_MAIL_DIR" envDefault:".ajo/mail" doc:"folder of the .eml files"`

	CallbackAllow []netip.Prefix `env:"AJO_CALLBACK_ALLOW" doc:"private CIDRs, separated by commas, that callbacks may reach; development: loopback"`

	RateLimit     string `env:"AJO_RATE_LIMIT" envDefault:"600-M" doc:"requests per tenant with API keys, and the same number with sessions, of which members other than the owner share half; unit S, M, H or D"`
	RateLimitOpen string `env:"AJO_RATE_LIMIT_OPEN" envDefault:"20-M" doc:"requests of one address to endpoints without a credential"`

	TrustedProxies []netip.Prefix `env:"AJO_TRUSTED_PROXIES" doc:"CIDRs of proxies whose X-Forwarded-For is trusted"`

	DeliveryDelays  []time.Duration `env:"AJO_DELIVERY_DELAYS" envDefault:"2m,5m,11m,24m,53m" doc:"waits after failed delivery attempts; there is one attempt more than waits"`
	ConfirmDelays   []time.Duration `env:"AJO_CONFIRM_DELAYS" envDefault:"30s,1m,2m,5m,10m,15m,30m,1h" doc:"waits between checks against the bank's records; the last repeats"`
	ConfirmMisses   int             `env:"AJO_CONFIRM_MISSES" envDefault:"3" doc:"how many checks must find nothing before a payment is reversed"`
	ConfirmMinAge   time.Duration   `env:"AJO_CONFIRM_MIN_AGE" envDefault:"30m" doc:"minimum age at which a payment that the bank does not find is reversed"`
	ConfirmDeadline time.Duration   `env:"AJO_CONFIRM_DEADLINE" envDefault:"24h" doc:"age at which an unclear payment needs review"`

	// The third question about a payout comes 17 seconds after its submission, the seventh after
	// more than eight minutes: a new transfer may not be found at once, and the interbank leg takes
	// minutes.
	SettleDelays      []time.Duration `env:"AJO_SETTLE_DELAYS" envDefault:"2s,5s,10s,20s,45s,2m,5m,15m,30m" doc:"waits between the steps of a transfer; the last repeats"`
	SettleRechecks    []time.Duration `env:"AJO_SETTLE_RECHECKS" envDefault:"15m,2h,24h" doc:"waits between checks of a transfer that has ended, because a bank may return what it paid"`
	SettleLease       time.Duration   `env:"AJO_SETTLE_LEASE" envDefault:"10s" doc:"how long after a worker's last heartbeat its transfers stay leased to it; then another worker takes over"`
	SettleProvisional bool            `env:"AJO_SETTLE_PROVISIONAL" envDefault:"false" doc:"pay out money that the bank has not confirmed as received"`

	// The default is the central bank's schedule.
	FeeTiers string `env:"AJO_FEE_TIERS" envDefault:"4999.99=10.00,50000.00=25.00,*=50.00" doc:"the fee calculator's tiers, written upper limit=fee, in ascending order; the last limit is *"`

	SweepEvery time.Duration `env:"AJO_SWEEP_EVERY" envDefault:"15s" doc:"how often the sweeper looks for overdue work and enqueues it again; the alerts expect 1m at most"`

	ReconcileEvery  time.Duration `env:"AJO_RECONCILE_EVERY" envDefault:"15m" doc:"how often the books are compared with the bank's transaction list; the alerts expect 30m at most"`
	ReconcileWindow time.Duration `env:"AJO_RECONCILE_WINDOW" envDefault:"2h" doc:"how far back the first comparison goes, and for how long a period whose list lacked payments is read again; must exceed the lag of the bank's list"`
	ReconcileBack   time.Duration `env:"AJO_RECONCILE_BACK" envDefault:"72h" doc:"the age of the day that is compared a second time, to catch records that the bank lists late or changes; 0s: never"`

	Partition partition.Size `env:"AJO_PARTITION" envDefault:"month" doc:"how much time a partition of events and deliveries covers: month, week or day; a change applies to new partitions"`

	KeepReports time.Duration `env:"AJO_KEEP_REPORTS" envDefault:"9600h" doc:"how long reports of reconciliations are kept; at least 744h"`
	KeepAudit   time.Duration `env:"AJO_KEEP_AUDIT" envDefault:"0s" doc:"how long the audit log is kept; at least 8784h, a year; 0s: for ever"`

	KeepEvents     time.Duration `env:"AJO_KEEP_EVENTS" envDefault:"0s" doc:"how long the bodies of the bank's events stay in the database; then whole partitions go to the archive, and the events themselves stay; at least 744h; 0s: for ever"`
	KeepDeliveries time.Duration `env:"AJO_KEEP_DELIVERIES" envDefault:"0s" doc:"how long deliveries and their attempts stay in the database; then whole partitions go to the archive; at least 744h; 0s: for ever"`

	ArchiveDir         string          `env:"AJO_ARCHIVE_DIR" doc:"folder of the archive, the same for all workers"`
	ArchiveS3Endpoint  string          `env:"AJO_ARCHIVE_S3_ENDPOINT" doc:"https://host[:port] of an S3-compatible store of the archive, in place of a folder"`
	ArchiveS3Region    string          `env:"AJO_ARCHIVE_S3_REGION" doc:"its region, if it has one"`
	ArchiveS3Bucket    string          `env:"AJO_ARCHIVE_S3_BUCKET" doc:"the bucket"`
	ArchiveS3Prefix    string          `env:"AJO_ARCHIVE_S3_PREFIX" doc:"a prefix of the objects' names"`
	ArchiveS3AccessKey string          `env:"AJO_ARCHIVE_S3_ACCESS_KEY" doc:"the access key, which must be allowed to list, read and write objects; it never deletes any"`
	ArchiveS3SecretKey secret.Redacted `env:"AJO_ARCHIVE_S3_SECRET_KEY" doc:"the secret key"`
	ArchiveS3PathStyle bool            `env:"AJO_ARCHIVE_S3_PATH_STYLE" envDefault:"false" doc:"the bucket is in the path, not in the host name"`

	SpoolDir string `env:"AJO_SPOOL_DIR" envDefault:".ajo/spool" doc:"folder that keeps the bank's events while Postgres is unavailable; on a disk that outlives the process"`
	SpoolMax int64  `env:"AJO_SPOOL_MAX_MB" envDefault:"256" doc:"largest size of the spool, in MiB"`

	OpsUser     string          `env:"AJO_OPS_USER" envDefault:"ops" doc:"user name for the queue dashboard and pprof"`
	OpsPassword secret.Redacted `env:"AJO_OPS_PASSWORD" doc:"password for the queue dashboard and pprof; empty: pprof is closed, and the queue dashboard is open to sessions of the console only"`
	OpsWritable bool            `env:"AJO_OPS_WRITABLE" envDefault:"false" doc:"let the queue dashboard change queues, for sessions of the console with the role operator"`

	Failpoint string `env:"AJO_FAILPOINT" doc:"for tests: the process kills itself at this point, as with kill -9; name, or name:n for the nth time; ignored in production"`

	TraceEndpoint string `env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"http(s)://host:4318 of an OpenTelemetry collector, OTLP over HTTP; empty: nothing is traced"`
	TraceEvery    int    `env:"AJO_TRACE_EVERY" envDefault:"100" doc:"one request in this many is traced; 1 traces each"`

	LogFormat string `env:"LOG_FORMAT" doc:"json or pretty; development: pretty, production: json"`
}

// Load reads and checks the environment. The error names every setting that is missing or bad.
func Load() (Config, error) { return Parse(env.ToMap(os.Environ())) }

// Parse reads and checks the settings in environ, as [Load] does those of the process.
func Parse(environ map[string]string) (Config, error) { return parseInto(environ, Config{}) }

func parseInto(environ map[string]string, c Config) (Config, error) {
	if err := env.ParseWithOptions(&c, env.Options{Environment: environ}); err != nil {
		return c, named(err)
	}
	if c.Env == Development && len(c.CallbackAllow) == 0 {
		c.CallbackAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	if c.LogFormat == "" {
		c.LogFormat = map[string]string{Production: "json"}[c.Env]
	}
	return c, errors.Join(c.check(), c.checkEnvironment(environ["AJO_ENV"] != ""))
}

// Defaults are the settings of an environment that has none; what is required is missing.
func Defaults() Config {
	c, _ := Some(func(string) string { return "" }) // the defaults are in order
	return c
}

// Some reads and checks only the named settings of an environment, with their defaults: for the
// operators' commands, which need few. It ignores the other settings.
func Some(getenv func(string) string, names ...string) (Config, error) {
	environ := map[string]string{}
	for _, name := range names {
		if v := getenv(name); v != "" {
			environ[name] = v
		}
	}
	var c Config
	var all, bad env.AggregateError
	if err := env.ParseWithOptions(&c, env.Options{Environment: environ}); errors.As(err, &all) {
		for _, e := range all.Errors {
			if !errors.As(e, &env.VarIsNotSetError{}) {
				bad.Errors = append(bad.Errors, e)
			}
		}
	} else if err != nil {
		return c, err
	}
	if len(bad.Errors) > 0 {
		return c, named(bad)
	}
	return c, errors.Join(slices.Concat(c.checkSchedules(), c.checkArchive(), c.checkRates())...)
}

// checkEnvironment refuses to run as development for others than this machine unless that was said:
// a production start that forgot AJO_ENV would approve KYC by its tenants, write mails to files and
// call private addresses.
func (c *Config) checkEnvironment(said bool) error {
	if said || c.Production() {
		return nil
	}
	for _, l := range []struct{ name, addr string }{{"AJO_HTTP_ADDR", c.HTTPAddr}, {"AJO_OPS_ADDR", c.OpsAddr}} {
		if !loopback(l.addr) {
			return fmt.Errorf("AJO_ENV is not set, and %s is not a loopback address: set AJO_ENV=production, or AJO_ENV=development if that is intended", l.name)
		}
	}
	return nil
}

// loopback reports whether an address to listen on is reached from this machine only. What cannot
// be read is refused where it is listened on.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Production reports whether the service runs for real.
func (c *Config) Production() bool { return c.Env == Production }

// check refuses what can be read but makes no sense.
func (c *Config) check() error {
	var bad []error
	refuse := func(when bool, name, why string) {
		if when {
			bad = append(bad, fmt.Errorf("%s %s", name, why))
		}
	}
	refuse(c.Env != Development && c.Env != Production, "AJO_ENV", "must be development or production")
	for _, r := range []struct {
		name  string
		value secret.Redacted
	}{
		{"AJO_DATABASE_URL", c.DatabaseURL},
		{"AJO_REDIS_URL", c.RedisURL},
		{"AJO_ENCRYPTION_KEYS", c.EncryptionKeys},
		{"AJO_PROVIDER_CLIENT_SECRET", c.ProviderClientSecret},
		{"AJO_PROVIDER_WEBHOOK_SECRET", c.ProviderWebhookSecret},
	} {
		refuse(r.value.IsZero(), r.name, "is empty")
	}
	refuse(c.ProviderWebhookSecretPrevious.IsZero() != c.ProviderWebhookSecretPreviousUntil.IsZero(),
		"AJO_PROVIDER_WEBHOOK_SECRET_PREVIOUS and AJO_PROVIDER_WEBHOOK_SECRET_PREVIOUS_UNTIL", "must be set together")
	bad = append(bad, c.checkForms()...)
	bad = append(bad, c.checkRates()...)
	refuse(!isWeb(c.ProviderURL), "AJO_PROVIDER_URL", "must be an http or https address")
	refuse(c.Production() && !c.Sandbox && strings.HasPrefix(c.ProviderURL, "http://"), "AJO_PROVIDER_URL", "must be https in production")
	refuse(c.ProviderAccountID == "", "AJO_PROVIDER_ACCOUNT_ID", "is empty")
	refuse(c.ProviderClientID == "", "AJO_PROVIDER_CLIENT_ID", "is empty")
	refuse(c.IdentityURL != "" && !isWeb(c.IdentityURL), "AJO_IDENTITY_URL", "must be an http or https address")
	refuse(c.IdentityURL != "" && (c.IdentityAppID == "" || c.IdentityKey.IsZero()), "AJO_IDENTITY_APP_ID and AJO_IDENTITY_KEY", "must be set with AJO_IDENTITY_URL")
	refuse(c.Production() && strings.HasPrefix(c.IdentityURL, "http://"), "AJO_IDENTITY_URL", "must be https in production")
	refuse(c.Production() && !c.Sandbox && c.SMTPURL.IsZero(), "AJO_SMTP_URL", "is required in production")
	refuse(c.SMTPURL.IsZero() && c.MailDir == "", "AJO_MAIL_DIR", "is empty")
	refuse(c.DatabaseMax < 4, "AJO_DATABASE_MAX_CONNS", "must be at least 4")
	bad = append(bad, c.checkTestMode()...)
	bad = append(bad, c.checkSchedules()...)
	refuse(c.ConfirmMisses < 1, "AJO_CONFIRM_MISSES", "must be at least 1")
	refuse(c.ConfirmDeadline <= 0, "AJO_CONFIRM_DEADLINE", "must be above zero")
	refuse(c.Production() && settlePatience(c.SettleDelays) < minSettlePatience, "AJO_SETTLE_DELAYS", "must add up to at least 5m in the first seven gaps: the bank may take minutes to know a payout")
	refuse(c.SettleLease < 3*time.Second, "AJO_SETTLE_LEASE", "must be at least 3s: a worker renews it while it waits for the bank")
	refuse(c.Drain < 0 || c.Drain > time.Minute, "AJO_DRAIN", "must be from 0s to 1m")
	refuse(c.SweepEvery < time.Second, "AJO_SWEEP_EVERY", "must be at least 1s")
	refuse(c.ReconcileEvery < time.Second, "AJO_RECONCILE_EVERY", "must be at least 1s")
	refuse(c.ReconcileBack < 0 || c.ReconcileBack > 31*24*time.Hour, "AJO_RECONCILE_BACK", "must be at least 0s and at most 744h")
	refuse(c.ReconcileWindow < c.ReconcileEvery || c.ReconcileWindow > 31*24*time.Hour, "AJO_RECONCILE_WINDOW", "must be at least AJO_RECONCILE_EVERY and at most 744h")
	refuse(c.KeepReports < 31*24*time.Hour, "AJO_KEEP_REPORTS", "must be at least 744h")
	refuse(c.KeepAudit != 0 && c.KeepAudit < 366*24*time.Hour, "AJO_KEEP_AUDIT", "must be 0s or at least 8784h")
	archived := func(name string, keep time.Duration) {
		refuse(keep != 0 && keep < 31*24*time.Hour, name, "must be 0s or at least 744h")
		refuse(keep != 0 && c.ArchiveDir == "" && c.ArchiveS3Endpoint == "", name, "needs an archive: AJO_ARCHIVE_DIR or AJO_ARCHIVE_S3_ENDPOINT")
	}
	archived("AJO_KEEP_EVENTS", c.KeepEvents)
	archived("AJO_KEEP_DELIVERIES", c.KeepDeliveries)
	bad = append(bad, c.checkArchive()...)
	refuse(c.SpoolDir == "", "AJO_SPOOL_DIR", "is empty")
	refuse(c.SpoolMax < 1, "AJO_SPOOL_MAX_MB", "must be at least 1")
	refuse(c.TraceEndpoint != "" && !isWeb(c.TraceEndpoint), "OTEL_EXPORTER_OTLP_ENDPOINT", "must be an http or https address")
	refuse(c.TraceEvery < 1, "AJO_TRACE_EVERY", "must be at least 1")
	refuse(c.LogFormat != "" && c.LogFormat != "json" && c.LogFormat != "pretty", "LOG_FORMAT", "must be json or pretty")
	return errors.Join(bad...)
}

// minTestSecret is how long the secret of test mode must be, in bytes.
const minTestSecret = 32

// checkTestMode refuses a half of its settings, and a secret that could be guessed.
func (c *Config) checkTestMode() (bad []error) {
	u, err := url.Parse(c.TestURL)
	if c.TestURL != "" && (err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.Trim(u.Path, "/") != "") {
		bad = append(bad, errors.New("AJO_TEST_URL must be http://host:port or https://host:port"))
	}
	if wanted := c.Sandbox || c.TestURL != ""; wanted && len(c.TestSecret.Reveal()) < minTestSecret {
		bad = append(bad, fmt.Errorf("AJO_TEST_SECRET must have at least %d characters", minTestSecret))
	}
	return bad
}

// checkArchive refuses an archive that cannot be opened.
func (c *Config) checkArchive() (bad []error) {
	if c.ArchiveS3Endpoint == "" {
		return nil
	}
	u, err := url.Parse(c.ArchiveS3Endpoint)
	for name, wrong := range map[string]bool{
		"AJO_ARCHIVE_S3_ENDPOINT must be https://host or https://host:port":                           err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.Trim(u.Path, "/") != "",
		"AJO_ARCHIVE_S3_ENDPOINT must be https in production":                                         c.Production() && err == nil && u.Scheme == "http",
		"AJO_ARCHIVE_DIR and AJO_ARCHIVE_S3_ENDPOINT must not both be set":                            c.ArchiveDir != "",
		"AJO_ARCHIVE_S3_BUCKET, _ACCESS_KEY and _SECRET_KEY must be set with AJO_ARCHIVE_S3_ENDPOINT": c.ArchiveS3Bucket == "" || c.ArchiveS3AccessKey == "" || c.ArchiveS3SecretKey.IsZero(),
	} {
		if wrong {
			bad = append(bad, errors.New(name))
		}
	}
	return bad
}

// checkSchedules refuses gaps that are none.
func (c *Config) checkSchedules() (bad []error) {
	for name, list := range map[string][]time.Duration{"AJO_DELIVERY_DELAYS": c.DeliveryDelays, "AJO_CONFIRM_DELAYS": c.ConfirmDelays, "AJO_SETTLE_DELAYS": c.SettleDelays, "AJO_SETTLE_RECHECKS": c.SettleRechecks} {
		if len(list) == 0 {
			bad = append(bad, fmt.Errorf("%s must have at least one gap, as in 2m,5m", name))
		}
		if slices.ContainsFunc(list, func(d time.Duration) bool { return d <= 0 }) {
			bad = append(bad, fmt.Errorf("%s must have gaps above zero", name))
		}
	}
	if c.ConfirmMinAge < 0 {
		bad = append(bad, errors.New("AJO_CONFIRM_MIN_AGE must not be negative"))
	}
	return bad
}

// minSettlePatience is what production must leave the bank, after the last submission of a payout,
// before the money is given back. (Package transfer gives it back after seven questions that the
// bank answers with "not known".)
const minSettlePatience = 5 * time.Minute

func settlePatience(delays []time.Duration) (sum time.Duration) {
	for i := range 7 {
		if len(delays) > 0 {
			sum += delays[min(i, len(delays)-1)]
		}
	}
	return sum
}

// named turns the library's errors, which name Go fields, into ones that name settings and never
// show a value.
func named(err error) error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return err
	}
	var out []error
	for _, e := range all.Errors {
		var missing env.VarIsNotSetError
		var bad env.ParseError
		switch {
		case errors.As(e, &missing):
			out = append(out, fmt.Errorf("%s is not set", missing.Key))
		case errors.As(e, &bad):
			out = append(out, fmt.Errorf("%s is not a valid %s", settingOf(bad.Name), kindOf(bad.Type)))
		default:
			out = append(out, e)
		}
	}
	return errors.Join(out...)
}

func settingOf(field string) string {
	f, ok := reflect.TypeFor[Config]().FieldByName(field)
	if !ok {
		return field
	}
	name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
	return name
}

// EnvFile returns the settings as a file of environment variables to fill in, as systemd and
// compose read it: the required ones empty, the others commented out with their defaults.
func EnvFile() string {
	var b strings.Builder
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		if tag.Get("doc") == "" {
			continue // no setting of the environment
		}
		name, required, _ := strings.Cut(tag.Get("env"), ",")
		if required == "" {
			name = "#" + name
		}
		fmt.Fprintf(&b, "# %s\n%s=%s\n", tag.Get("doc"), name, tag.Get("envDefault"))
	}
	return b.String()
}

// Table returns the settings as a markdown table: name, meaning, default.
func Table() string {
	var b strings.Builder
	b.WriteString("| name | meaning | default |\n|---|---|---|\n")
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		if tag.Get("doc") == "" {
			continue // no setting of the environment
		}
		name, required, _ := strings.Cut(tag.Get("env"), ",")
		def := tag.Get("envDefault")
		if required == "required" {
			def = "none, required"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, tag.Get("doc"), def)
	}
	return b.String()
}
