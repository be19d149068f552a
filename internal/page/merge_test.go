package page

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	key := func(s string) byte { return s[0] }
	for _, c := range []struct {
		limit int
		lists [][]string
		want  []string
		more  bool
	}{
		{3, nil, nil, false},
		{3, [][]string{{"a1"}, {"a2", "b2"}}, []string{"a1", "b2"}, false},
		{2, [][]string{{"a1", "b1"}, {"b2", "a2"}}, []string{"a1", "b1"}, false},
		{2, [][]string{{"a1", "b1"}, {"b2", "c2"}}, []string{"a1", "b1"}, true},
	} {
		got, more := Merge(c.limit, key, c.lists...)
		require.Equal(t, c.want, got)
		require.Equal(t, c.more, more)
	}
}
