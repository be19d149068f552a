package config_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/config"
	"ajo/internal/spec"
)

func good() map[string]string {
	return map[string]string{
		"AJO_DATABASE_URL": "postgres://ajo:pw-seeded@127.0.0.1/ajo", "AJO_REDIS_URL": "redis://:pw-seeded@127.0.0.1", "AJO_ENCRYPTION_KEYS": "k:pw-seeded",
		"AJO_PROVIDER_URL": "https://bank.example", "AJO_PROVIDER_ACCOUNT_ID": "a", "AJO_PROVIDER_CLIENT_ID": "c",
		"AJO_PROVIDER_CLIENT_SECRET": "pw-seeded", "AJO_PROVIDER_WEBHOOK_SECRET": "pw-seeded",
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "limit.rate.value")
	c, err := config.Parse(good())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8080", c.HTTPAddr)
	require.Equal(t, []time.Duration{2 * time.Minute, 5 * time.Minute, 11 * time.Minute, 24 * time.Minute, 53 * time.Minute}, c.DeliveryDelays)
	require.Equal(t, 15*time.Second, c.SweepEvery)
	require.Equal(t, 3, c.ConfirmMisses)
	require.Equal(t, 30*time.Minute, c.ConfirmMinAge)
	require.Equal(t, 24*time.Hour, c.ConfirmDeadline)
	require.Equal(t, "provider-signature", c.ProviderSignatureHeader)
	require.Equal(t, "600-M", c.RateLimit)
	require.Len(t, c.CallbackAllow, 2, "development may call loopback")
	env := good()
	env["AJO_ENV"], env["AJO_SMTP_URL"] = "production", "smtps://mail.example"
	c, err = config.Parse(env)
	require.NoError(t, err)
	require.Empty(t, c.CallbackAllow)
	require.Equal(t, "json", c.LogFormat)
}

// Each required setting, missing or empty, and each bad value is refused with its name and without
// its value.
func TestRefusals(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "event.in.sig.secret")
	for name := range good() {
		env := good()
		delete(env, name)
		_, err := config.Parse(env)
		require.ErrorContains(t, err, name+" is not set")
		env[name] = ""
		_, err = config.Parse(env)
		require.ErrorContains(t, err, name)
	}
	for setting, bad := range map[string]string{
		"AJO_ENV": "prod", "AJO_PROVIDER_URL": "bank.example", "AJO_DELIVERY_DELAYS": "2m,x", "AJO_CONFIRM_DELAYS": "0s", "AJO_SETTLE_DELAYS": "-1s",
		"AJO_CONFIRM_MISSES": "0", "AJO_CONFIRM_MIN_AGE": "-1s", "AJO_CONFIRM_DEADLINE": "0s", "AJO_SWEEP_EVERY": "1ms", "AJO_CALLBACK_ALLOW": "10.0.0.0/99",
		"AJO_DATABASE_MAX_CONNS": "1", "AJO_SETTLE_PROVISIONAL": "perhaps", "AJO_SETTLE_RECHECKS": "0s", "AJO_SETTLE_LEASE": "2s", "LOG_FORMAT": "xml", "AJO_TRUSTED_PROXIES": "everyone",
		"AJO_IDENTITY_URL": "https://nin.example", "AJO_PROVIDER_SIGNATURE_HEADER": "bank-signature:", "AJO_PROVIDER_TIMESTAMP_HEADER": "Provider-Signature",
		"AJO_PROVIDER_RATE": "0", "AJO_PROVIDER_POST_RATE": "-2", "AJO_PROVIDER_RECIPIENT_RATE": "0",
	} {
		env := good()
		env[setting] = bad
		_, err := config.Parse(env)
		want := setting
		if setting == "AJO_IDENTITY_URL" {
			want = "AJO_IDENTITY_KEY"
		}
		require.ErrorContains(t, err, want, bad)
		require.NotContains(t, err.Error(), "pw-seeded")
	}
	env := good()
	env["AJO_ENV"] = "production"
	_, err := config.Parse(env)
	require.ErrorContains(t, err, "AJO_SMTP_URL is required in production")
	env["AJO_PROVIDER_URL"] = "http://bank.example"
	_, err = config.Parse(env)
	require.ErrorContains(t, err, "AJO_PROVIDER_URL must be https in production")
	env["AJO_SETTLE_DELAYS"] = "1s,30s"
	_, err = config.Parse(env)
	require.ErrorContains(t, err, "AJO_SETTLE_DELAYS must add up to at least 5m")
}

// A command that needs few settings asks for no others, and has the defaults of those it needs.
func TestSomeSettings(t *testing.T) {
	t.Parallel()
	environ := map[string]string{"AJO_SETTLE_RECHECKS": "7m", "AJO_CONFIRM_DELAYS": "", "AJO_SWEEP_EVERY": "never"}
	read := func() (config.Config, error) {
		return config.Some(func(name string) string { return environ[name] }, "AJO_SETTLE_RECHECKS", "AJO_CONFIRM_DELAYS", "AJO_CONFIRM_MIN_AGE", "AJO_PROVIDER_RATE")
	}
	c, err := read()
	require.NoError(t, err)
	require.Equal(t, []time.Duration{7 * time.Minute}, c.SettleRechecks)
	require.Equal(t, 30*time.Minute, c.ConfirmMinAge)
	require.Len(t, c.ConfirmDelays, 8)
	for name, bad := range map[string]string{"AJO_SETTLE_RECHECKS": "0s", "AJO_CONFIRM_DELAYS": "1s,x", "AJO_CONFIRM_MIN_AGE": "-1s", "AJO_PROVIDER_RATE": "0"} {
		environ = map[string]string{name: bad}
		_, err := read()
		require.ErrorContains(t, err, name)
	}
}

// A start that forgot AJO_ENV is development only for its own machine.
func TestDevelopmentForOthersIsSaid(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"AJO_HTTP_ADDR", "AJO_OPS_ADDR"} {
		for _, addr := range []string{":8080", "0.0.0.0:8080", "[::]:8080", "192.0.2.7:8080", "[2001:db8::1]:8080", "ajo.example:8080", "[::ffff:192.0.2.7]:8080"} {
			env := good()
			env[name] = addr
			for _, unsaid := range []map[string]string{{}, {"AJO_ENV": ""}} {
				maps.Copy(env, unsaid)
				_, err := config.Parse(env)
				require.ErrorContains(t, err, "AJO_ENV is not set, and "+name+" is not a loopback address", addr)
			}
			env["AJO_ENV"] = "development"
			_, err := config.Parse(env)
			require.NoError(t, err, "said: %s", addr)
			env["AJO_ENV"], env["AJO_SMTP_URL"] = "production", "smtps://mail.example"
			_, err = config.Parse(env)
			require.NoError(t, err, addr)
		}
		for _, addr := range []string{"127.0.0.1:0", "127.1.2.3:8080", "[::1]:8080", "localhost:8080", "LOCALHOST:8080", "[::ffff:127.0.0.1]:8080"} {
			env := good()
			env[name] = addr
			_, err := config.Parse(env)
			require.NoError(t, err, addr)
		}
	}
}

// The bank's previous webhook secret has an end, always.
func TestPreviousWebhookSecret(t *testing.T) {
	t.Parallel()
	const name = "AJO_PROVIDER_WEBHOOK_SECRET_PREVIOUS"
	env := good()
	env[name] = "pw-seeded"
	_, err := config.Parse(env)
	require.ErrorContains(t, err, name+" and "+name+"_UNTIL must be set together")
	env[name+"_UNTIL"] = "next week"
	_, err = config.Parse(env)
	require.ErrorContains(t, err, name+"_UNTIL is not a valid")
	env[name+"_UNTIL"] = "2026-03-02T10:00:00+01:00"
	c, err := config.Parse(env)
	require.NoError(t, err)
	require.True(t, c.ProviderWebhookSecretPreviousUntil.Equal(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)))
	delete(env, name)
	_, err = config.Parse(env)
	require.ErrorContains(t, err, "must be set together")
}

// The sandbox ignores the settings of the live bank, of the NIN service and of mail, also bad ones:
// its bank is simulated, and is not as slow as one process's share of the real one.
func TestSandboxIgnoresTheBanksSettings(t *testing.T) {
	for name, value := range good() {
		t.Setenv(name, value)
	}
	for name, value := range map[string]string{
		"AJO_TEST_SECRET": strings.Repeat("s", 32), "AJO_PROVIDER_RATE": "8", "AJO_PROVIDER_POST_RATE": "0", "AJO_PROVIDER_SIGNATURE_HEADER": "bank-signature:",
		"AJO_PROVIDER_WEBHOOK_SECRET_PREVIOUS": "pw-seeded", "AJO_IDENTITY_URL": "nin.example", "AJO_SMTP_URL": "mail.example", "AJO_MAIL_FROM": "nobody",
		"AJO_TEST_URL": "sandbox", "AJO_DATABASE_READ_URL": "standby",
	} {
		t.Setenv(name, value)
	}
	c, err := config.LoadSandbox()
	require.NoError(t, err)
	require.Equal(t, []any{75, 15, "provider-signature"}, []any{c.ProviderRate, c.ProviderPostRate, c.ProviderSignatureHeader})
	require.NotEqual(t, "pw-seeded", c.ProviderClientSecret.Reveal())
	require.Equal(t, []string{"", "", ""}, []string{c.IdentityURL, c.TestURL, c.DatabaseReadURL.Reveal()})
	require.True(t, c.SMTPURL.IsZero())
}

// What cannot be read is refused with its name, and with what would be right, in the words of
// whoever sets it: no types of Go.
func TestBadSettingsSayWhatIsRight(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]struct{ value, says string }{
		"AJO_DELIVERY_DELAYS":       {"2", "AJO_DELIVERY_DELAYS is not a valid list of durations, such as 30s,5m,1h"},
		"AJO_CONFIRM_MIN_AGE":       {"soon", "AJO_CONFIRM_MIN_AGE is not a valid duration, such as 30s or 24h"},
		"AJO_CONFIRM_MISSES":        {"x", "AJO_CONFIRM_MISSES is not a valid whole number"},
		"AJO_SETTLE_PROVISIONAL":    {"maybe", "AJO_SETTLE_PROVISIONAL is not a valid boolean: true or false"},
		"AJO_CALLBACK_ALLOW":        {"10.0.0.0", "AJO_CALLBACK_ALLOW is not a valid list of CIDRs, such as 10.0.0.0/8,192.168.1.0/24"},
		"AJO_PARTITION":             {"year", "AJO_PARTITION is not a valid size: month, week or day"},
		"AJO_HTTP_ADDR":             {"nonsense", "AJO_HTTP_ADDR must be host:port"},
		"AJO_OPS_ADDR":              {"8081", "AJO_OPS_ADDR must be host:port"},
		"AJO_IDENTITY_URL":          {"nope", "AJO_IDENTITY_URL must be an http or https address"},
		"AJO_RATE_LIMIT":            {"600", "AJO_RATE_LIMIT must be a count and a period (S, M, H or D), such as 600-M"},
		"AJO_RATE_LIMIT_OPEN":       {"0-M", "AJO_RATE_LIMIT_OPEN must be a count and a period"},
		"AJO_MAIL_FROM":             {"nobody", "AJO_MAIL_FROM must be one e-mail address, such as Ajo <no-reply@ajo.example>"},
		"AJO_TRUSTED_PROXIES":       {"x", "AJO_TRUSTED_PROXIES is not a valid list of CIDRs"},
		"AJO_PROVIDER_RATE":         {"fast", "AJO_PROVIDER_RATE is not a valid whole number"},
		"AJO_DATABASE_MAX_CONNS":    {"1.5", "AJO_DATABASE_MAX_CONNS is not a valid whole number"},
		"AJO_ARCHIVE_S3_PATH_STYLE": {"so", "AJO_ARCHIVE_S3_PATH_STYLE is not a valid boolean"},
	} {
		env := good()
		env["AJO_IDENTITY_APP_ID"], env["AJO_IDENTITY_KEY"] = "app", "key"
		env[name] = bad.value
		_, err := config.Parse(env)
		require.ErrorContains(t, err, bad.says)
		require.NotContains(t, err.Error(), "time.Duration")
	}
}

func TestSeveralProblemsAreAllNamed(t *testing.T) {
	t.Parallel()
	env := maps.Clone(good())
	delete(env, "AJO_DATABASE_URL")
	delete(env, "AJO_REDIS_URL")
	_, err := config.Parse(env)
	require.ErrorContains(t, err, "AJO_DATABASE_URL is not set")
	require.ErrorContains(t, err, "AJO_REDIS_URL is not set")
}

func TestTableNamesEverySetting(t *testing.T) {
	t.Parallel()
	for line := range strings.SplitSeq(strings.TrimSpace(config.Table()), "\n") {
		require.Equal(t, 4, strings.Count(line, "|")-strings.Count(line, `\|`), line)
	}
	require.Contains(t, config.Table(), "| `AJO_SWEEP_EVERY` |")
}
