package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// enter makes its first argument a root that cannot be written to, but for /var/lib/ajo, and runs
// the rest in it as the image's user, in a namespace of mounts that ends with it.
const enter = `mount --bind "$1" "$1" && mount -t tmpfs -o uid=65532,gid=65532,mode=0700 tmpfs "$1/var/lib/ajo" && mount -o remount,bind,ro "$1" "$1" &&
root=$1 && shift && exec setpriv --no-new-privs chroot --userspec=65532:65532 "$root" "$@"`

// What the Dockerfile puts into its last stage is enough: the same build, with the certificates and
// nothing else, runs every role as user 65532 on a read-only root. It logs the size and the time
// from start to /ready. (make image-check; needs root.)
func TestImageRoot(t *testing.T) {
	if os.Getenv("AJO_IMAGE_CHECK") == "" {
		t.Skip("a second build of the program, as root: make image-check")
	}
	require.Zero(t, os.Getuid(), "the check mounts and changes its root: run it as root")
	w := newWorld(t)
	root := imageRoot(t)
	info, err := os.Stat(filepath.Join(root, "ajo"))
	require.NoError(t, err)
	w.settings["AJO_SPOOL_DIR"], w.settings["AJO_MAIL_DIR"] = "/var/lib/ajo/spool", "/var/lib/ajo/mail"
	enters := func(args ...string) *process {
		cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c", enter, "sh", root, "/ajo"}, args...)...)
		p := startProgram(t, w.dir, w.with(map[string]string{"PATH": os.Getenv("PATH")}), cmd, args)
		w.procs = append(w.procs, p)
		return p
	}
	migrate := enters("migrate")
	require.Zero(t, migrate.exit(), "%s", migrate.out.tail(2000))

	const runs = 5
	var times []time.Duration
	for range runs {
		w.settings["AJO_HTTP_ADDR"] = freeAddress(t)
		w.settings["AJO_OPS_ADDR"] = freeAddress(t)
		begin := time.Now()
		api := enters("api")
		testenv.Eventually(t, startLimit, "/ready", func() bool {
			a, err := request("GET", "http://"+w.settings["AJO_HTTP_ADDR"]+"/ready", nil, http.Header{})
			return err == nil && a.status == 200
		})
		times = append(times, time.Since(begin).Round(time.Millisecond))
		require.Equal(t, "1.2.3", api.logged("the API listens")["version"])
		health := enters("health", "--url", "http://"+w.settings["AJO_OPS_ADDR"]+"/health")
		require.Zero(t, health.exit(), "%s", health.out.tail(2000))
		w.stops(api)
	}
	worker := enters("worker", "--queues", "ingest")
	worker.logged("the worker runs")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", worker.PID))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^Uid:\s+65532\s+65532\s+65532\s+65532$`, string(status))
	require.Regexp(t, `(?m)^CapEff:\s+0+$`, string(status))
	w.stops(worker)
	require.NoDirExists(t, filepath.Join(root, "var/lib/ajo/spool"), "what was written went to the volume")
	t.Logf("the binary has %.1f MB; /ready after %v", float64(info.Size())/1e6, times)
}

// imageRoot builds what the Dockerfile's last stage has, by the Dockerfile's own command.
func imageRoot(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/Dockerfile")
	require.NoError(t, err)
	build := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 .+ -o )/out/ajo (\./cmd/ajo)`).FindStringSubmatch(string(text))
	require.NotNil(t, build)
	root := t.TempDir()
	for dir := root; strings.HasPrefix(dir, os.TempDir()) && dir != os.TempDir(); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755)) // the image's user must get there
	}
	require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/ajo"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "etc/ssl/certs"), 0o755))
	authorities, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"), authorities, 0o644))
	cmd := exec.Command("sh", "-c", "VERSION=1.2.3; "+build[1]+filepath.Join(root, "ajo")+" "+build[2])
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return root
}
