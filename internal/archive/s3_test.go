package archive_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"ajo/internal/archive"
	"ajo/internal/secret"
)

// bucket is an S3-compatible server on loopback, with faults between it and the client.
type bucket struct {
	fault atomic.Pointer[func(w http.ResponseWriter, r *http.Request, next http.Handler)]
	calls atomic.Int64
	url   string
}

func newBucket(t *testing.T) *bucket {
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("ajo-archive"))
	s3 := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	b := &bucket{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.calls.Add(1)
		if fault := b.fault.Load(); fault != nil {
			(*fault)(w, r, s3)
			return
		}
		s3.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

func (b *bucket) open(t *testing.T) archive.Store {
	s, err := archive.OpenS3(archive.S3{
		Endpoint: b.url, Region: "us-east-1", Bucket: "ajo-archive", Prefix: "books", AccessKey: "key", SecretKey: secret.Redact("secret"), PathStyle: true,
	})
	require.NoError(t, err)
	return s
}

// An S3-compatible store does as a folder does.
func TestArchiveInS3(t *testing.T) {
	b := setup(t, 12)
	b.deliver(b.begin.Add(time.Hour), 40)
	content := b.content("deliveries")
	store := newBucket(t).open(t)
	s := b.with(store)
	require.Equal(t, "s3://ajo-archive/books", store.String())
	require.NoError(t, s.Run(b.ctx))
	require.Zero(t, b.rows("deliveries"))
	r, err := s.Verify(b.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, r.Findings)
	require.Empty(t, r.Unneeded)
	require.Greater(t, r.Objects, 1)
	for _, name := range []string{b.name("delivery_attempts", 0), b.name("deliveries", 0)} {
		_, err = s.Restore(b.ctx, name, by)
		require.NoError(t, err)
	}
	require.Equal(t, content, b.content("deliveries"))
	_, err = store.Get(b.ctx, "nothing")
	require.ErrorIs(t, err, archive.ErrNoObject)
	for _, bad := range []string{"", "host", "ftp://host", "https://host/path"} {
		_, err := archive.OpenS3(archive.S3{Endpoint: bad})
		require.Error(t, err, bad)
	}
}

// More than one part of an upload.
func TestLargeObjectInS3(t *testing.T) {
	t.Parallel()
	store := newBucket(t).open(t)
	const size = 40 << 20
	require.NoError(t, store.Put(t.Context(), "large", io.LimitReader(zeros{}, size)))
	r, err := store.Get(t.Context(), "large")
	require.NoError(t, err)
	defer func() { _ = r.Close() }()
	n, err := io.Copy(io.Discard, r)
	require.NoError(t, err)
	require.EqualValues(t, size, n)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Whatever the store does wrong, nothing is dropped, and when it is well again all is archived.
func TestFaultsOfS3(t *testing.T) {
	b := setup(t, 12)
	b.deliver(b.begin.Add(time.Hour), 40)
	content, name := b.content("deliveries"), b.name("deliveries", 0)
	bucket := newBucket(t)
	o := b.opts
	o.Store, o.Log = bucket.open(t), slog.New(slog.DiscardHandler)
	o.Stall, o.Lease = 300*time.Millisecond, 200*time.Millisecond
	release := make(chan struct{})
	for fault, f := range map[string]func(w http.ResponseWriter, r *http.Request, next http.Handler){
		"5xx to an upload": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodPut {
				http.Error(w, "", http.StatusServiceUnavailable)
				return
			}
			next.ServeHTTP(w, r)
		},
		"a truncated object": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ".zst") {
				c := httptest.NewRecorder()
				next.ServeHTTP(c, r)
				_, _ = w.Write(c.Body.Bytes()[:c.Body.Len()/2])
				return
			}
			next.ServeHTTP(w, r)
		},
		"another digest": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ".zst") {
				c := httptest.NewRecorder()
				next.ServeHTTP(c, r)
				for k, v := range c.Header() {
					w.Header()[k] = v
				}
				body := c.Body.Bytes()
				body[len(body)/2] ^= 1
				w.WriteHeader(c.Code)
				_, _ = w.Write(body)
				return
			}
			next.ServeHTTP(w, r)
		},
		"no bucket": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			r.URL.Path = strings.Replace(r.URL.Path, "ajo-archive", "another", 1)
			next.ServeHTTP(w, r)
		},
		"no answer": func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
			select {
			case <-r.Context().Done():
			case <-release:
			}
		},
	} {
		bucket.fault.Store(&f)
		_, err := archive.New(o).Archive(b.ctx, name)
		require.Error(t, err, fault)
		require.Equal(t, content, b.content("deliveries"), fault)
		b.Clock.Advance(time.Second)
		b.Exec(`UPDATE deliveries SET last_error = $1 WHERE id = (SELECT id FROM deliveries LIMIT 1)`, fault) // the next begins anew
		content = b.content("deliveries")
	}
	close(release)
	// slow is not wrong
	o.Stall, o.Lease = time.Minute, time.Minute
	b.Clock.Advance(time.Minute)
	slow := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		<-time.After(100 * time.Millisecond)
		next.ServeHTTP(w, r)
	}
	bucket.fault.Store(&slow)
	_, err := archive.New(o).Archive(b.ctx, name)
	require.NoError(t, err)
	require.Zero(t, b.rows("deliveries"))
}
