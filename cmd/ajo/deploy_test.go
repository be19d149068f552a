package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"ajo/api"
	"ajo/internal/config"
	"ajo/internal/metrics"
	"ajo/tasks"
)

// What stands in deploy/ is compared with the program here: commands, flags, queues, settings, and
// what they add up to. That the files are well-formed is checked by make check-deploy.
const deploy = "../../deploy/"

// yamlDocs reads the documents of a file.
func yamlDocs(t *testing.T, path string) (docs []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(deploy + path)
	require.NoError(t, err)
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			require.NotEmpty(t, docs)
			return docs
		}
		require.NoError(t, err, path)
		docs = append(docs, doc)
	}
}

// at follows a path of names through maps; a number is an index.
func at(v any, path ...string) any {
	for _, p := range path {
		switch c := v.(type) {
		case map[string]any:
			v = c[p]
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i >= len(c) {
				return nil
			}
			v = c[i]
		default:
			return nil
		}
	}
	return v
}

func texts(v any) (out []string) {
	list, _ := v.([]any)
	for _, s := range list {
		out = append(out, s.(string))
	}
	return out
}

// commands are all command lines of the program in deploy/, without its own name, by where they
// stand.
func commands(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, file := range []string{"kubernetes/base/api.yaml", "kubernetes/base/workers.yaml", "kubernetes/base/migrate.yaml"} {
		for _, doc := range yamlDocs(t, file) {
			if args := texts(at(doc, "spec", "template", "spec", "containers", "0", "args")); args != nil {
				all[file+" "+at(doc, "metadata", "name").(string)] = args
			}
		}
	}
	for name, s := range at(yamlDocs(t, "compose.yaml")[0], "services").(map[string]any) {
		if image, _ := at(s, "image").(string); !strings.HasPrefix(image, "${AJO_IMAGE") {
			continue
		}
		all["compose.yaml "+name] = texts(at(s, "command"))
		if test := texts(at(s, "healthcheck", "test")); test != nil {
			require.Equal(t, []string{"CMD", "/ajo"}, test[:2])
			all["compose.yaml, health of "+name] = test[2:]
		}
	}
	units, err := filepath.Glob(deploy + "systemd/*.service")
	require.NoError(t, err)
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		require.NoError(t, err)
		line := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/ajo (.+)$`).FindStringSubmatch(string(text))
		require.NotNil(t, line, unit)
		all[filepath.Base(unit)] = strings.Fields(strings.ReplaceAll(line[1], "${QUEUES}", "ingest"))
	}
	text, err := os.ReadFile(deploy + "Dockerfile")
	require.NoError(t, err)
	for _, line := range regexp.MustCompile(`(?m)CMD \[(.+)\]$`).FindAllStringSubmatch(string(text), -1) {
		args := strings.Split(strings.ReplaceAll(line[1], `"`, ""), ", ")
		all["Dockerfile "+line[1]] = slices.DeleteFunc(args, func(s string) bool { return s == "/ajo" })
	}
	require.Greater(t, len(all), 15)
	return all
}

// Every command and flag is the program's, and every queue is one of its queues.
func TestDeployedCommands(t *testing.T) {
	t.Parallel()
	for where, args := range commands(t) {
		cmd, rest, err := newRootCmd().Find(args)
		require.NoError(t, err, where)
		require.NotEqual(t, "ajo", cmd.Name(), where)
		require.NoError(t, cmd.ParseFlags(rest), where)
		require.Empty(t, cmd.Flags().Args(), where)
		if cmd.Name() == "worker" {
			_, err := parseQueues(cmd.Flag("queues").Value.String())
			require.NoError(t, err, where)
		}
	}
}

// Each deployment as a whole serves each queue, and in one place.
func TestDeployedQueues(t *testing.T) {
	t.Parallel()
	served := map[string][]string{}
	for where, args := range commands(t) {
		if file, _, _ := strings.Cut(where, " "); args[0] == "worker" && !strings.HasSuffix(file, ".service") {
			queues, err := parseQueues(args[2])
			require.NoError(t, err)
			for k := range queues {
				served[file] = append(served[file], string(k))
			}
		}
	}
	var want []string
	for _, k := range tasks.Kinds {
		want = append(want, string(k))
	}
	require.Len(t, served, 2)
	for file, queues := range served {
		require.ElementsMatch(t, want, queues, file)
	}
	var scaled []string
	for _, s := range yamlDocs(t, "kubernetes/autoscaling/keda.yaml") {
		query := at(s, "spec", "triggers", "0", "metadata", "query").(string)
		queue := regexp.MustCompile(`^max\(ajo_queue_oldest_due_seconds\{queue="(\w+)"\}\)$`).FindStringSubmatch(query)
		require.NotNil(t, queue, query)
		require.Equal(t, "ajo-worker-"+queue[1], at(s, "spec", "scaleTargetRef", "name"))
		require.GreaterOrEqual(t, at(s, "spec", "minReplicaCount"), 1, "a queue without a server has no retries")
		scaled = append(scaled, queue[1])
	}
	require.ElementsMatch(t, want, scaled)
	source, err := os.ReadFile("../../internal/metrics/queue.go")
	require.NoError(t, err)
	require.Contains(t, string(source), `"ajo_queue_oldest_due_seconds"`)
}

// Prometheus calls a metric's label exported_… if the target has a label of that name: whoever asks
// for one queue would get the figures of all, from the pods of that queue.
func TestScrapedLabels(t *testing.T) {
	t.Parallel()
	monitor := yamlDocs(t, "kubernetes/monitoring/podmonitor.yaml")[0]
	labels := texts(at(monitor, "spec", "podTargetLabels"))
	require.NotEmpty(t, labels)
	target := []string{"job", "instance", "namespace", "pod", "container", "endpoint"} // the operator's own
	for _, label := range labels {
		target = append(target, regexp.MustCompile(`\W`).ReplaceAllString(label, "_"))
	}
	queues := 0
	for _, m := range metrics.Declared() {
		for _, label := range m.Labels {
			require.NotContains(t, target, label, m.Name)
			if label == "queue" {
				queues++
			}
		}
	}
	require.NotZero(t, queues)
}

// Whoever calls addresses of a tenant's choice may reach them on any port: who delivers, who asks
// an approval hook, and the API, which tests a webhook.
func TestDeployedCallers(t *testing.T) {
	t.Parallel()
	var selector any
	for _, doc := range yamlDocs(t, "kubernetes/base/network.yaml") {
		if at(doc, "metadata", "name") == "receivers" {
			selector = at(doc, "spec", "podSelector", "matchExpressions")
		}
	}
	require.Len(t, selector, 2)
	calls := map[any]bool{}
	for _, file := range []string{"kubernetes/base/api.yaml", "kubernetes/base/workers.yaml", "kubernetes/base/migrate.yaml"} {
		for _, doc := range yamlDocs(t, file) {
			labels, ok := at(doc, "spec", "template", "metadata", "labels").(map[string]any)
			if !ok {
				continue
			}
			matches := true
			for _, e := range selector.([]any) {
				label, _ := labels[at(e, "key").(string)].(string)
				in := slices.Contains(texts(at(e, "values")), label)
				matches = matches && in == (at(e, "operator") == "In")
			}
			calls[at(doc, "metadata", "name")] = matches
		}
	}
	require.Equal(t, map[any]bool{
		"ajo-api": true, "ajo-worker-deliver": true, "ajo-worker-settle": true,
		"ajo-worker-ingest": false, "ajo-worker-confirm": false, "ajo-worker-expire": false, "ajo-migrate": false,
	}, calls)
}

// Every setting that is named is one of the program's, and the file to fill in has them all.
func TestDeployedSettings(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile(deploy + "ajo.env.example")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(example), "\n\n"+config.EnvFile()), "append the output of `ajo settings --env`")

	ofCompose := []string{"AJO_IMAGE", "AJO_PORT"} // variables of compose.yaml itself
	name := regexp.MustCompile(`\b(AJO_[A-Z0-9_]*[A-Z0-9]|LOG_FORMAT)\b`)
	require.NoError(t, filepath.WalkDir(deploy, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, n := range name.FindAllString(string(text), -1) {
			if !slices.Contains(ofCompose, n) && !strings.Contains(config.Table(), "`"+n+"`") {
				t.Errorf("%s names %s, which is no setting", path, n)
			}
		}
		return err
	}))
}

// What all processes may do at once, when everything is scaled out, is what the bank and Postgres
// bear.
func TestDeployedSums(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(deploy + "kubernetes/base/settings.env")
	require.NoError(t, err)
	common := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^(AJO_\w+)=(\d+)$`).FindAllStringSubmatch(string(text), -1) {
		common[m[1]], err = strconv.Atoi(m[2])
		require.NoError(t, err)
	}
	replicas := map[string]int{}
	for _, s := range yamlDocs(t, "kubernetes/autoscaling/keda.yaml") {
		replicas[at(s, "spec", "scaleTargetRef", "name").(string)] = at(s, "spec", "maxReplicaCount").(int)
	}
	var processes, surge, calls, posts int
	count := func(doc map[string]any, n, ask int) {
		own := map[string]int{}
		for _, e := range orEmpty(at(doc, "spec", "template", "spec", "containers", "0", "env")) {
			own[at(e, "name").(string)], err = strconv.Atoi(at(e, "value").(string))
			require.NoError(t, err)
		}
		value := func(name string) int {
			if v, ok := own[name]; ok {
				return v
			}
			return common[name]
		}
		processes += n
		calls += ask * value("AJO_PROVIDER_RATE")
		posts += ask * value("AJO_PROVIDER_POST_RATE")
	}
	reading := maxReconciling
	for _, doc := range yamlDocs(t, "kubernetes/base/workers.yaml") {
		if doc["kind"] == "Deployment" {
			queue := at(doc, "spec", "selector", "matchLabels", "queue").(string)
			n := replicas["ajo-worker-"+queue]
			ask := n
			if !slices.Contains([]string{"confirm", "settle", "expire"}, queue) { // it asks only to reconcile
				ask = min(n, reading)
				reading -= ask
			}
			count(doc, n, ask)
			surge += (n + 3) / 4 // a quarter, Kubernetes' default, rounded up
		}
	}
	for _, doc := range yamlDocs(t, "kubernetes/base/api.yaml") {
		if doc["kind"] == "HorizontalPodAutoscaler" {
			n := at(doc, "spec", "maxReplicas").(int)
			count(yamlDocs(t, "kubernetes/base/api.yaml")[0], n, n)
		}
	}
	require.Equal(t, 21, processes, "settings.env and docs/operations.md have this number")
	require.Equal(t, 252, processes*common["AJO_DATABASE_MAX_CONNS"], "settings.env and docs/operations.md have this number")
	require.Equal(t, 336, (processes+surge)*common["AJO_DATABASE_MAX_CONNS"], "settings.env and docs/operations.md have this number")
	require.Greater(t, at(yamlDocs(t, "postgres/patroni.yaml")[0], "bootstrap", "dcs", "postgresql", "parameters", "max_connections"), 336)
	require.LessOrEqual(t, calls, bankCalls)
	require.LessOrEqual(t, posts, bankPosts)
}

const (
	// what the bank takes a second, and how much of it is POST calls
	bankCalls, bankPosts = 75, 15
	// maxReconciling is how many processes read the bank's list for a reconciliation at once,
	// whatever their queues are: one for the last hours, and one for a day that is read once more.
	maxReconciling = 2
)

// So it is with the processes of compose.yaml, and with those of systemd.
func TestSharesOfOneMachine(t *testing.T) {
	t.Parallel()
	calls, posts := 0, 0
	for name, s := range at(yamlDocs(t, "compose.yaml")[0], "services").(map[string]any) {
		n := 1
		switch name {
		case "api", "worker-money":
		case "worker-deliver": // the one that is scaled
			n = maxReconciling
		default:
			continue
		}
		calls += n * at(s, "environment", "AJO_PROVIDER_RATE").(int)
		posts += n * at(s, "environment", "AJO_PROVIDER_POST_RATE").(int)
	}
	require.Equal(t, []int{bankCalls, bankPosts}, []int{calls, posts}, "compose.yaml")

	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	m := regexp.MustCompile(`printf 'AJO_PROVIDER_RATE=(\d+)\\nAJO_PROVIDER_POST_RATE=(\d+)\\n' >> /etc/ajo/(\S+)`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, m, 3)
	calls, posts = 0, 0
	for i, file := range []string{"ajo.env", "worker-confirm.env", "worker-settle.env"} {
		require.Equal(t, file, m[i][3])
		n := 1
		if file == "ajo.env" { // the API, the worker of expire, and those that reconcile
			n = 2 + maxReconciling
		}
		for sum, digits := range map[*int]string{&calls: m[i][1], &posts: m[i][2]} {
			v, err := strconv.Atoi(digits)
			require.NoError(t, err)
			*sum += n * v
		}
	}
	require.Equal(t, []int{bankCalls, bankPosts}, []int{calls, posts}, "systemd")
}

func orEmpty(v any) []any {
	list, _ := v.([]any)
	return list
}

// The commands that docs/operations.md has an operator type are the program's, and so are the
// settings.
func TestOperationsCommands(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	found := regexp.MustCompile("`ajo ([^`<…]+)").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(found), 10)
	for _, m := range found {
		args := strings.Fields(m[1])
		cmd, rest, err := newRootCmd().Find(args)
		require.NoError(t, err, m[1])
		require.NotEqual(t, "ajo", cmd.Name(), m[1])
		for _, arg := range rest {
			if flag, ok := strings.CutPrefix(arg, "--"); ok {
				require.NotNil(t, cmd.Flag(flag), m[1])
			}
		}
	}
	for _, n := range regexp.MustCompile(`AJO_[A-Z0-9_]+[A-Z0-9]`).FindAllString(string(text), -1) {
		require.Contains(t, config.Table(), "`"+n+"`")
	}
}

// The alert of slow requests leaves out the routes that wait for others, or hash a password: those
// that a session uses as well as those of a key, and each that is sent a password.
func TestSlowRoutesAreAlike(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(deploy + "prometheus/rules.yaml")
	require.NoError(t, err)
	found := regexp.MustCompile(`p99_5m\{route!~"([^"]+)"\}`).FindSubmatch(rules)
	require.NotNil(t, found)
	excepted := regexp.MustCompile("^(?:" + string(found[1]) + ")$")

	document := yamlDocs(t, "../api/openapi.yaml")[0]
	routes := map[string]bool{}
	for _, r := range api.Routes {
		routes[r.Path] = true
	}
	waiting := 0
	for path := range routes {
		if rest, byKey := strings.CutPrefix(path, "/v1/"); byKey && routes["/auth/"+rest] {
			require.Equal(t, excepted.MatchString(path), excepted.MatchString("/auth/"+rest), rest)
		}
		in := regexp.MustCompile(`:(\w+)`).ReplaceAllString(path, "{$1}")
		schema, _ := at(document, "paths", in, "post", "requestBody", "content", "application/json", "schema", "$ref").(string)
		fields, _ := at(document, "components", "schemas", filepath.Base(schema), "properties").(map[string]any)
		for name := range fields {
			if strings.Contains(strings.ToLower(name), "password") {
				require.True(t, excepted.MatchString(path), "%s is sent a %s", path, name)
				waiting++
			}
		}
	}
	require.Greater(t, waiting, 8)
	for _, asksTheBank := range []string{"/v1/accounts", "/v1/accounts/:accountRef/settle", "/v1/beneficiaries", "/v1/transfers/banks", "/v1/transfers/lookup"} {
		require.True(t, routes[asksTheBank] && excepted.MatchString(asksTheBank), asksTheBank)
	}
	for _, quick := range []string{"/webhooks/provider", "/auth/me", "/v1/payments", "/auth/accounts/:accountRef/statement"} {
		require.True(t, routes[quick] && !excepted.MatchString(quick), quick)
	}
}
