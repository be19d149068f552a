package testenv

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// Reply is an answer that was read to its end.
type Reply struct {
	Status int
	Header http.Header
	Body   string
}

// HTTPClient is a client that shows answers as they are: it follows no redirect and inflates
// nothing. Its connections end with t.
func HTTPClient(t testing.TB) *http.Client {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// Send sends a request and reads its answer.
func Send(c *http.Client, req *http.Request) (Reply, error) {
	resp, err := c.Do(req)
	if err != nil {
		return Reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return Reply{resp.StatusCode, resp.Header, string(b)}, err
}
