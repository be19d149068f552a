package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type (
	state string
	event string
)

// door has a state that is entered twice by one event, one that stays, and one that nothing leaves.
func door() Table[state, event] {
	return New("Door",
		Row[state, event]{Start, "build", "shut"},
		Row[state, event]{"shut", "open", "open"},
		Row[state, event]{"shut", "push", "shut"},
		Row[state, event]{"open", "shut", "shut"},
		Row[state, event]{"open", "push", "shut"},
		Row[state, event]{"open", "burn", "gone"},
		Row[state, event]{"shut", "burn", "gone"},
	)
}

// Only what stands in the table is allowed, and the start is no state.
func TestATable(t *testing.T) {
	t.Parallel()
	d := door()
	require.Equal(t, "Door", d.Name)
	for _, c := range []struct {
		from state
		on   event
		to   state
		ok   bool
	}{
		{Start, "build", "shut", true},
		{"shut", "open", "open", true},
		{"open", "push", "shut", true},
		{"open", "burn", "gone", true},
		{"shut", "build", "", false},
		{"open", "open", "", false},
		{"gone", "push", "", false},
		{Start, "burn", "", false},
		{"shut", "shut", "", false},
	} {
		to, ok := d.Next(c.from, c.on)
		require.Equal(t, c.to, to, c)
		require.Equal(t, c.ok, ok, c)
	}
	require.Equal(t, []string{"open", "shut"}, d.From("burn"))
	require.Equal(t, []string{"shut"}, d.From("open"))
	require.Empty(t, d.From("build"), "no row is there to be moved")
	require.Equal(t, []state{"shut", "open", "gone"}, d.States())
	require.Equal(t, []bool{true, true, true, false, false}, []bool{d.Knows(""), d.Knows("shut"), d.Knows("gone"), d.Knows("burn"), d.Knows("Shut")})
	require.Equal(t, []event{"build", "open", "push", "shut", "burn"}, d.Events())
	require.Equal(t, [][2]string{{"shut", "open"}, {"open", "shut"}, {"open", "gone"}, {"shut", "gone"}}, d.Moves())
	require.Equal(t, `stateDiagram-v2
    [*] --> shut: build
    shut --> open: open
    shut --> shut: push
    open --> shut: shut
    open --> shut: push
    open --> gone: burn
    shut --> gone: burn
    gone --> [*]
`, d.Mermaid())
}

// An event leads from a state to one other.
func TestATableIsUnambiguous(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "fsm Door: open on shut occurs twice", func() {
		New("Door", Row[state, event]{"shut", "open", "open"}, Row[state, event]{"shut", "open", "gone"})
	})
	require.NotPanics(t, func() {
		New("Door", Row[state, event]{"shut", "open", "open"}, Row[state, event]{"gone", "open", "open"}, Row[state, event]{"shut", "push", "open"})
	})
}
