// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watched is for how long a test looks at what must not happen: longer than Kubernetes needs for it.
const watched = 30 * time.Second

// TestFencingFirst: the database on a node without network goes on writing, and has its volume for itself
// until a remediator has cut the power. The controller only asks for that.
func TestFencingFirst(t *testing.T) {
	t.Parallel()
	s := newStory(t, Options{}, false)
	node := s.nodeOfDatabase()
	s.fail(node, "a pulled cable", (*Node).Cut)
	s.await("remediation " + node.Name + " created")
	time.Sleep(watched)
	_, _, tainted, _ := s.timeline.find("node "+node.Name+" out of service", "\x00")
	require.False(t, tainted)
	_, _, elsewhere, _ := s.timeline.find("pod "+database+" runs on", "\x00")
	require.False(t, elsewhere)
	require.Equal(t, []string{node.Name}, s.writers())
	written := len(s.lines())
	require.Eventually(t, func() bool { return len(s.lines()) > written }, patience, time.Second, "it goes on writing")

	s.remediator()
	_, _, err := s.timeline.AwaitOther(t.Context(), "pod "+database+" runs on ", node.Name, patience)
	require.NoError(t, err)
	require.NoError(t, node.Join())
	s.await("remediation " + node.Name + " deleted")
	s.settle()
	require.Len(t, s.writers(), 2)
}
