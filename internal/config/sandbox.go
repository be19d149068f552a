package config

import (
	"crypto/rand"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

// sandboxDefaults are the settings that the sandbox has where the environment has none. Its bank
// answers within seconds, so a developer need not wait longer.
var sandboxDefaults = map[string]string{
	"AJO_CONFIRM_DELAYS": "2s,5s,10s,20s,30s,1m,5m", "AJO_SETTLE_RECHECKS": "20s,40s,2m,15m", "AJO_RECONCILE_EVERY": "30s",
	"AJO_SWEEP_EVERY": "5s", "AJO_SPOOL_DIR": ".ajo/sandbox/spool",
}

// LoadSandbox reads and checks the environment of `ajo sandbox`. The bank and the NIN service are
// simulated, and no mail is sent: their settings are ignored, as are those that the live API alone
// has, and whoever starts the simulation sets their addresses.
func LoadSandbox() (Config, error) {
	environ := env.ToMap(os.Environ())
	maps.DeleteFunc(environ, func(name, _ string) bool {
		return slices.ContainsFunc([]string{"AJO_PROVIDER_", "AJO_IDENTITY_", "AJO_SMTP_", "AJO_MAIL_", "AJO_TEST_URL", "AJO_DATABASE_READ_URL"},
			func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	for name, v := range sandboxDefaults {
		if environ[name] == "" {
			environ[name] = v
		}
	}
	environ["AJO_PROVIDER_URL"] = "http://simulated"
	for _, name := range []string{"ACCOUNT_ID", "CLIENT_ID", "CLIENT_SECRET", "WEBHOOK_SECRET"} {
		environ["AJO_PROVIDER_"+name] = rand.Text() // which both sides take from here
	}
	return parseInto(environ, Config{Sandbox: true})
}
