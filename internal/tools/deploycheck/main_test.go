package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const deploy = "../../../deploy"

var passwords = []string{"POSTGRES_PASSWORD=a", "REDIS_PASSWORD=b", "GRAFANA_PASSWORD=c"}

// The files as they are.
func TestDeployment(t *testing.T) {
	for _, dir := range []string{"base", "example"} {
		found, err := checkKubernetes(filepath.Join(deploy, "kubernetes", dir))
		report(t, dir, found, err)
	}
	found, err := checkCompose(context.Background(), filepath.Join(deploy, "compose.yaml"), passwords)
	report(t, "compose.yaml", found, err)
}

func report(t *testing.T, what string, found []string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Errorf("%s: %s", what, f)
	}
}

// Every kind of mistake is found: each case breaks a copy of the real files in one place.
func TestMistakesAreFound(t *testing.T) {
	for name, c := range map[string]struct{ file, old, new, want string }{
		"unknown field":        {"kubernetes/base/api.yaml", "podManagementPolicy", "podManagmentPolicy", "additional properties 'podManagmentPolicy' not allowed"},
		"deep unknown field":   {"kubernetes/base/pod.yaml", "readOnlyRootFilesystem", "readonlyRootFilesystem", "additional properties 'readonlyRootFilesystem' not allowed"},
		"wrong type":           {"kubernetes/base/pod.yaml", "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 60s", "/spec/template/spec/terminationGracePeriodSeconds: got string, want integer"},
		"missing field":        {"kubernetes/base/migrate.yaml", "        - name: ajo\n          image: ajo\n", "        - image: ajo\n", "missing property 'name'"},
		"version of long ago":  {"kubernetes/base/api.yaml", "autoscaling/v2", "autoscaling/v2beta2", "there is no such version of the API"},
		"no such kind":         {"kubernetes/base/network.yaml", "kind: NetworkPolicy", "kind: NetworkRule", "there is no such kind"},
		"KEDA's field":         {"kubernetes/autoscaling/keda.yaml", "minReplicaCount", "minReplicas", "additional properties 'minReplicas' not allowed"},
		"the operator's field": {"kubernetes/monitoring/podmonitor.yaml", "interval: 15s", "interval: often", "interval: 'often' does not match pattern"},
		"does not render":      {"kubernetes/base/kustomization.yaml", "- workers.yaml", "- worker.yaml", "worker.yaml"},
		"no such workload":     {"kubernetes/autoscaling/keda.yaml", "    name: ajo-worker-ingest", "    name: ajo-ingest", `there is no Deployment "ajo-ingest" to scale`},
		"selects nothing":      {"kubernetes/base/network.yaml", "values: [api, worker]\n      - key", "values: [apis]\n      - key", "NetworkPolicy/receivers: its selector matches no pod"},
		"no such port":         {"kubernetes/base/api.yaml", "targetPort: http", "targetPort: web", "no pod that it selects has the port web"},
		"probe of no port":     {"kubernetes/base/pod.yaml", "port: ops", "port: health", "livenessProbe: the pod has no port health"},
		"selector of others":   {"kubernetes/base/workers.yaml", "    matchLabels: *labels", "    matchLabels: {queue: settle}", "its selector matches no pod"},

		"compose: unknown field":   {"compose.yaml", "read_only: true", "readonly: true", "readonly false schema"},
		"compose: no such service": {"compose.yaml", "depends_on: [prometheus]", "depends_on: [prometeus]", "prometeus"},
		"compose: no such volume":  {"compose.yaml", "postgres:/var/lib", "pgdata:/var/lib", "pgdata"},
		"compose: unset variable":  {"compose.yaml", "${REDIS_PASSWORD:?}", "${REDIS_PASS:?}", "REDIS_PASS"},
		"compose: not pinned":      {"compose.yaml", "redis:7.4-bookworm", "redis", `the image "redis" is not pinned`},
		"compose: writable":        {"compose.yaml", "    read_only: true\n    tmpfs: [/tmp]\n    cap_drop: [ALL]", "    tmpfs: [/tmp]", "service redis: read_only is not set"},
		"compose: open port":       {"compose.yaml", "127.0.0.1:8090:8090", "8090:8090", "port 8090 is published beyond loopback"},
		"compose: no such mount":   {"compose.yaml", "./prometheus:", "./prometeus:", "prometeus does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := broken(t, c.file, c.old, c.new)
			found, err := checkKubernetes(filepath.Join(dir, "kubernetes/example"))
			if strings.HasPrefix(c.file, "compose") {
				found, err = checkCompose(context.Background(), filepath.Join(dir, "compose.yaml"), passwords)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, c.want) }) {
				t.Errorf("found %q, not %q", found, c.want)
			}
		})
	}
}

// broken is a copy of the deployment's files with a mistake in one of them.
func broken(t *testing.T, file, old, replacement string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(deploy)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q", file, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, replacement, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
