// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestYields: a request that something else keeps refusing does not hold up those that follow it
// (spec B4.3). It has its turn again after ten minutes.
func TestYields(t *testing.T) {
	t.Parallel()
	c := one()
	for _, name := range []string{"quorum", "a", "b"} {
		c.SetNode(name, notReady("a"))
	}
	x, y := nhc("x"), nhc("y")
	reject := func(now time.Time) {
		t.Helper()
		require.NotContains(t, c.Admit(x, []Request{due("quorum", 9), due("a", 5)}, now), "quorum")
		c.End(x, "quorum", Rejected, now)
	}
	reject(noon)
	require.Equal(t, []Asker{x}, c.Woken(noon), "the place is free for a")
	require.Equal(t, map[string]string{"quorum": busy}, begin(c, x, after(time.Second), due("quorum", 9), due("a", 5)))

	c = one()
	c.SetNode("b", notReady("a"))
	reject(noon)
	c.Admit(x, []Request{due("quorum", 9)}, noon)
	require.Equal(t, map[string]string{"b": busy}, begin(c, y, noon, due("b", 5)), "no asker has two places")
	c.End(x, "quorum", Rejected, noon)
	require.Equal(t, map[string]string{"quorum": busy}, begin(c, x, after(time.Second), due("quorum", 9)), "b waits for the place")
	require.Equal(t, []Asker{y}, c.Woken(after(time.Second)))

	reject(after(yieldFor))
	c.Expire(after(2*yieldFor - 1))
	require.True(t, c.yields(x, "quorum", after(2*yieldFor-1)), "as long again")
	require.Equal(t, after(2*yieldFor), c.NextChange(after(2*yieldFor-1)))
	c.Expire(after(2 * yieldFor))
	require.Empty(t, c.yielding)
	require.Empty(t, c.Admit(x, []Request{due("quorum", 9)}, after(2*yieldFor)))
	c.End(x, "quorum", Begun, after(2*yieldFor))
	require.False(t, c.yields(x, "quorum", after(2*yieldFor)), "it has begun")

	other := nhc("other")
	c.yielding[attempted{x, "a"}], c.yielding[attempted{other, "a"}] = after(2*yieldFor), after(2*yieldFor)
	c.Forget(x, after(2*yieldFor))
	require.False(t, c.yields(x, "a", after(2*yieldFor)), "P4: it is gone")
	require.True(t, c.yields(other, "a", after(2*yieldFor)))
}

// TestAdmittedIsWoken: what a dry run would begin is refused as soon as another remediation takes the place,
// and admitted again after it (spec 5.6, P2).
func TestAdmittedIsWoken(t *testing.T) {
	t.Parallel()
	c := one()
	for _, name := range []string{"would", "a"} {
		c.SetNode(name, notReady("a"))
	}
	dry, other := nhc("dry"), nhc("other")
	would := due("would", 9)
	would.Begins = false
	require.Empty(t, begin(c, dry, noon, would))
	require.Empty(t, c.Woken(noon), "nothing has changed")
	require.Empty(t, begin(c, other, noon, due("a", 5)), "it takes nothing from others")
	require.Equal(t, []Asker{dry}, c.Woken(noon))
	require.Empty(t, c.Woken(noon), "once")
	require.Equal(t, map[string]string{"would": busy}, begin(c, dry, noon, would))
	require.Empty(t, c.Woken(noon))
	c.SetNode("a", healthy("a"))
	c.Admit(other, nil, after(time.Second))
	require.Equal(t, []Asker{dry}, c.Woken(after(time.Second)))
	require.Empty(t, begin(c, dry, after(time.Second), would))

	require.Empty(t, begin(c, other, after(2*time.Second), due("a", 5)))
	c.Forget(dry, after(2*time.Second))
	require.Empty(t, c.Woken(after(2*time.Second)), "it is gone")
}
