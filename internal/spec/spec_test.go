package spec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowsAreRows(t *testing.T) {
	rows, err := Rows()
	require.NoError(t, err)
	require.Greater(t, len(rows), 100)
	for _, r := range rows {
		require.Regexp(t, `^[a-z0-9.-]+$`, r.ID)
		require.NotEmpty(t, r.Says)
	}
}
