package nomba

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/verdicts.txt anew")

// The matrix: what each method makes of each answer.
var (
	matrixStatuses = []int{200, 201, 202, 302, 400, 401, 403, 404, 408, 409, 422, 425, 429, 500, 502, 503, 504}
	matrixBodies   = []struct{ name, body string }{
		{"00+data", ""}, // good data of the call
		{"00", `{"code":"00","description":"Success","status":true}`},
		{"00+null", `{"code":"00","data":null}`},
		{"00+{}", `{"code":"00","data":{}}`},
		{"01", `{"code":"01","description":"Try again"}`},
		{"02", `{"code":"02","description":"Validation"}`},
		{"05", `{"code":"05","description":"Not permitted"}`},
		{"06", `{"code":"06","description":"Do not retry"}`},
		{"06 dup", `{"code":"06","description":"Duplicate merchantTxRef"}`},
		{"02 used", `{"code":"02","description":"Reference already in use"}`},
		{"200", `{"code":"200","description":"SUCCESS","status":"true"}`},
		{"201", `{"code":"201","description":"PROCESSING","status":false}`},
		{"400", `{"code":"400","description":"Bad request"}`},
		{"num 400", `{"code":400,"description":"Bad request"}`},
		{"403", `{"code":"403"}`},
		{"404", `{"code":"404","description":"Not found"}`},
		{"422", `{"code":"422"}`},
		{"500", `{"code":"500"}`},
		{"99", `{"code":"99","description":"?"}`},
		{"num 0", `{"code":0,"data":{"id":"x"}}`},
		{"num 2", `{"code":2}`},
		{"num 404", `{"code":404,"message":"HTTP 404 Not Found"}`},
		{"kong", `{"message":"no Route matched with those values"}`},
		{"spring", `{"timestamp":"2026-11-22T03:00:00Z","status":404,"error":"Not Found","path":"/v1"}`},
		{"status", `{"status":true,"data":{"id":"x"}}`},
		{"empty", ``},
		{"text", `default backend - 404`},
		{"null", `null`},
		{"html", `<html><body>gateway</body></html>`},
		{"cut json", `{"code":"00","data":{"id":`},
	}
)

// TestVerdicts compares the whole matrix to the reviewed one in testdata. Questions that a method
// asks after its first call (CreateAccount, CloseAccount, Pay) are answered 404: not known.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	grids := map[string]map[string]string{}
	var mu sync.Mutex
	t.Run("ask", func(t *testing.T) {
		for name := range everyCall {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				grid := matrixOf(t, name)
				mu.Lock()
				defer mu.Unlock()
				grids[name] = grid
			})
		}
	})
	out.WriteString("What each method makes of each answer: O value, P pending, U not known, R rejected, E outcome unknown.\n")
	for _, name := range slices.Sorted(maps.Keys(grids)) {
		fmt.Fprintf(&out, "\n%-16s", name)
		for _, status := range matrixStatuses {
			fmt.Fprintf(&out, " %d", status)
		}
		out.WriteByte('\n')
		for _, b := range matrixBodies {
			fmt.Fprintf(&out, "  %-14s%s\n", b.name, grids[name][b.name])
		}
	}
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile("testdata/verdicts.txt", []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile("testdata/verdicts.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
}

// matrixOf makes one call for each cell, and checks what must hold in each whatever the table says.
func matrixOf(t *testing.T, name string) map[string]string {
	var mu sync.Mutex
	var nextStatus int
	var nextBody string
	c, _ := setup(t, func(w http.ResponseWriter, r *http.Request) {
		if asksAfterwards := name == "create_account" || name == "close_account" || name == "pay"; asksAfterwards && r.Method == http.MethodGet {
			say(w, 404, `{"code":"404"}`)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		say(w, nextStatus, nextBody)
	}, func(o *Options) { o.Retries = -1 })
	grid := map[string]string{}
	for _, b := range matrixBodies {
		for _, status := range matrixStatuses {
			body := b.body
			if b.name == "00+data" {
				body = good(goodData[name])
			}
			mu.Lock()
			nextStatus, nextBody = status, body
			mu.Unlock()
			s, err := everyCall[name](t.Context(), c)
			got := class(s, err)
			grid[b.name] += "   " + got
			always := fmt.Sprintf("%s: HTTP %d, %s: %s (%v)", name, status, b.name, got, err)
			hasCode := slices.Contains([]string{"02", "05", "06", "400", "403", "422"}, b.name)
			notNow := status >= 500 || slices.Contains([]int{401, 408, 409, 425, 429}, status)
			switch got {
			case "O", "P":
				ok := b.name == "00+data" || got == "P" && (b.name == "200" || b.name == "201" || name == "pay" && strings.HasPrefix(b.name, "00") && status < 300) || name == "close_account" && strings.HasPrefix(b.name, "00")
				require.True(t, ok && (status != 401 || b.name == "00+data"), always)
			case "R":
				require.Contains(t, []string{"create_account", "close_account", "lookup", "pay"}, name, always)
				require.True(t, !notNow && status != 302, always)
				require.True(t, hasCode || name == "lookup" && (status == 404 || b.name == "404"), always)
				require.True(t, inEnvelope(b.body), "a gateway's word: %s", always)
			case "U":
				require.Contains(t, []string{"transaction", "payout", "find_account", "close_account"}, name, always)
				if name != "close_account" { // that one has asked by GET
					require.True(t, inEnvelope(b.body), "a gateway's word: %s", always)
					require.True(t, !notNow && status != 302 && status != 403 && b.name != "html", always)
					require.True(t, status == 404 || b.name == "01" || strings.HasPrefix(b.name, "00"), always)
				}
			default:
				require.Equal(t, "E", got, always)
			}
		}
	}
	return grid
}

// inEnvelope reports whether a body is in the bank's own envelope: a JSON object whose code is a
// text.
func inEnvelope(body string) bool {
	var e struct{ Code any }
	if json.Unmarshal([]byte(body), &e) != nil {
		return false
	}
	text, _ := e.Code.(string)
	return text != ""
}
