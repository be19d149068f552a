package main

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/config"
	"ajo/internal/secret"
)

// A leak of test mode is none of the live service: the sandbox of compose has only what is named
// for it, which is no secret of ajo.env but the one that both need, no live books and no archive.
func TestDeployedSandboxHasNoSecretOfTheLiveService(t *testing.T) {
	t.Parallel()
	sandbox := at(yamlDocs(t, "compose.yaml")[0], "services", "sandbox")
	require.Equal(t, []any{}, at(sandbox, "env_file"))
	secrets := []string{"POSTGRES_PASSWORD"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		if f.Type == reflect.TypeFor[secret.Redacted]() {
			name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
			secrets = append(secrets, name)
		}
	}
	require.Contains(t, secrets, "AJO_ENCRYPTION_KEYS")
	var shared []string
	for name, value := range at(sandbox, "environment").(map[string]any) {
		require.NotRegexp(t, "^AJO_(ARCHIVE|KEEP)_", name)
		for _, m := range regexp.MustCompile(`\$\{(\w+)`).FindAllStringSubmatch(fmt.Sprint(value), -1) {
			if slices.Contains(secrets, m[1]) {
				shared = append(shared, m[1])
			}
		}
	}
	require.Equal(t, []string{"AJO_TEST_SECRET"}, shared)
}
