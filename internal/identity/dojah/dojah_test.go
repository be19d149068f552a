package dojah

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/identity"
)

const (
	nin  = "70123456789"
	name = "Ada Ngozi Obi"
)

func checker(t *testing.T, h http.HandlerFunc) *Checker {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := New(Options{URL: srv.URL + "/", AppID: "app", Key: "key-seeded"})
	require.NoError(t, err)
	return c
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func TestCheckNIN(t *testing.T) {
	t.Parallel()
	for label, tt := range map[string]struct {
		status int
		body   string
		want   identity.Result // zero: unavailable
	}{
		"one spelling":         {200, `{"entity":{"first_name":"ADA","last_name":"OBI","date_of_birth":"1990-01-01","nin":"70123456789"}}`, identity.Match},
		"the other spelling":   {200, `{"entity":{"firstname":"ADA","surname":"OBI","birthdate":"01-01-1990"}}`, identity.Match},
		"further fields":       {200, `{"entity":{"first_name":"ADA","middle_name":null,"last_name":"OBI","photo":"…","gender":1},"x":[]}`, identity.Match},
		"another name":         {200, `{"entity":{"first_name":"MUSA","last_name":"BELLO","nin":"70123456789"}}`, identity.Mismatch},
		"half a name":          {200, `{"entity":{"first_name":"ADA","last_name":""}}`, identity.Mismatch},
		"nobody's":             {404, `{"error":"NIN not found"}`, identity.NoSuch},
		"a gateway's page":     {404, ` <html>no such page</html>`, 0},
		"a gateway's text":     {404, `default backend - 404`, 0},
		"a gateway's JSON":     {404, `{"message":"no Route matched with those values"}`, 0},
		"a framework's JSON":   {404, `{"status":404,"error":"Not Found","path":"/api/v1/kyc/nin"}`, 0},
		"an empty 404":         {404, ``, 0},
		"an empty error":       {404, `{"error":""}`, 0},
		"no text in the error": {404, `{"error":null}`, 0},
		"another number":       {200, `{"entity":{"first_name":"ADA","last_name":"OBI","nin":"11111111111"}}`, 0},
		"no names":             {200, `{"entity":{}}`, 0},
		"no entity":            {200, `{"error":"try later"}`, 0},
		"null entity":          {200, `{"entity":null}`, 0},
		"an array":             {200, `[]`, 0},
		"garbage":              {200, `upstream said ` + nin, 0},
		"nothing":              {200, ``, 0},
		"truncated":            {200, `{"entity":{"first_name":"A`, 0},
		"too large":            {200, `{"x":"` + strings.Repeat("a", maxAnswer) + `"}`, 0},
		"wrong types":          {200, `{"entity":{"first_name":7,"last_name":"OBI"}}`, 0},
		"bad request":          {400, `{"error":"invalid nin ` + nin + `"}`, 0},
		"bad key":              {401, `{"error":"unauthorized"}`, 0},
		"no money":             {402, `{"error":"insufficient balance"}`, 0},
		"forbidden":            {403, ``, 0},
		"too many":             {429, ``, 0},
		"broken":               {500, ``, 0},
		"bad gateway":          {502, `<html>`, 0},
		"unavailable, but 200": {203, `{"entity":{"first_name":"ADA","last_name":"OBI"}}`, 0},
		"a redirect":           {302, ``, 0},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c := checker(t, answer(tt.status, tt.body))
			got, err := c.CheckNIN(t.Context(), nin, name)
			if tt.want == 0 {
				require.ErrorIs(t, err, identity.ErrUnavailable)
				require.NotContains(t, err.Error(), nin)
				require.Zero(t, got)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	c := checker(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/api/v1/kyc/nin" || r.URL.RawQuery != "nin="+nin ||
			r.Header.Get("AppId") != "app" || r.Header.Get("Authorization") != "key-seeded" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		_, _ = w.Write([]byte(`{"entity":{"first_name":"ADA","last_name":"OBI"}}`))
	})
	got, err := c.CheckNIN(t.Context(), nin, name)
	require.NoError(t, err)
	require.Equal(t, identity.Match, got)
}

func TestErrorsNeverHoldTheNumber(t *testing.T) {
	t.Parallel()
	dead := httptest.NewServer(nil)
	dead.Close()
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	t.Cleanup(func() { close(release); slow.Close() })
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = conn.Write([]byte("HTTP/1.1 nin=" + nin + "\r\n\r\n"))
			_ = conn.Close()
		}
	}))
	t.Cleanup(cut.Close)
	hop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, cut.URL+r.URL.String(), http.StatusFound)
	}))
	t.Cleanup(hop.Close)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for label, tt := range map[string]struct {
		url string
		ctx context.Context
		nin string
		is  error
	}{
		"nobody listens":  {dead.URL, t.Context(), nin, nil},
		"slow":            {slow.URL, t.Context(), nin, context.DeadlineExceeded},
		"cancelled":       {slow.URL, cancelled, nin, context.Canceled},
		"no HTTP":         {cut.URL, t.Context(), nin, nil},
		"redirected":      {hop.URL, t.Context(), nin, nil},
		"a bad number":    {slow.URL, t.Context(), nin + "0", nil},
		"an evil number":  {slow.URL, t.Context(), nin[:9] + "\x00&", nil},
		"an Arabic digit": {slow.URL, t.Context(), "7012345678٩", nil},
	} {
		t.Run(label, func(t *testing.T) {
			c, err := New(Options{URL: tt.url, AppID: "app", Key: "key-seeded", Timeout: 200 * time.Millisecond})
			require.NoError(t, err)
			got, err := c.CheckNIN(tt.ctx, tt.nin, name)
			require.Zero(t, got)
			require.ErrorIs(t, err, identity.ErrUnavailable)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
			var logged bytes.Buffer
			slog.New(slog.NewJSONHandler(&logged, nil)).Error("x", "err", err, "checker", c)
			for _, out := range []string{err.Error(), logged.String()} {
				require.NotContains(t, out, nin[:9])
				require.NotContains(t, out, "key-seeded")
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{},
		{URL: "ftp://x", AppID: "a", Key: "k"},
		{URL: "https://", AppID: "a", Key: "k"},
		{URL: "https://x?y=z", AppID: "a", Key: "k"},
		{URL: "https://u:p@x", AppID: "a", Key: "k"},
		{URL: "https://x", Key: "k"},
		{URL: "https://x", AppID: "a"},
	} {
		_, err := New(o)
		require.Error(t, err, "%+v", o)
	}
	var _ identity.Checker = (*Checker)(nil)
}
