package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// healthTimeout is above what /ready waits for its dependencies.
const healthTimeout = 5 * time.Second

// newHealthCmd is for the health checks of containers: the image has no shell and no curl.
func newHealthCmd() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:     "health",
		Short:   "Check the health of a running role; exit code 1 when it is unhealthy",
		Example: "  ajo health\n  ajo health --url http://127.0.0.1:8080/ready",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return askHealth(cmd.Context(), url, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&url, "url", "http://127.0.0.1:8081/health", "what to check; the default is the operations listener, which every role has")
	return cmd
}

// askHealth prints the answer of url, and fails unless its status is 200.
func askHealth(ctx context.Context, url string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(out, io.LimitReader(resp.Body, 4096)); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return nil
}
