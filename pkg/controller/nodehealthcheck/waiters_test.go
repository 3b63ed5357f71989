// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func TestWaiters(t *testing.T) {
	t.Parallel()
	var w waiters
	a, b := crTopic(testCR("a", "1")), leaseTopic("node-b")
	require.Empty(t, w.of(a))
	w.subscribe("one", sets.New(a, b))
	w.subscribe("two", sets.New(a))
	require.ElementsMatch(t, []string{"one", "two"}, w.of(a), "21.1: those that wait for it")
	require.Equal(t, []string{"one"}, w.of(b))
	w.subscribe("one", sets.New(b))
	require.Equal(t, []string{"two"}, w.of(a), "P4: it does not wait any more")
	w.unsubscribe("one")
	w.unsubscribe("two")
	require.Empty(t, w.of(a))
	require.Empty(t, w.of(b))
	require.Empty(t, w.byTopic, "nothing is left over")
}

func TestTopicNamesOneObject(t *testing.T) {
	t.Parallel()
	base := testCR("a", "1")
	for name, change := range map[string]func(*object.CR){
		"P9 kind":      func(cr *object.CR) { cr.Kind = "FenceRemediation" },
		"P9 group":     func(cr *object.CR) { cr.APIVersion = "example.org/v1" },
		"P9 namespace": func(cr *object.CR) { cr.Namespace = "other" },
		"P9 name":      func(cr *object.CR) { cr.Name = "b" },
	} {
		require.NotEqual(t, crTopic(base), crTopic(testCR("a", "1", change)), name)
	}
	require.Equal(t, crTopic(base), crTopic(testCR("a", "2", func(cr *object.CR) { cr.APIVersion = "example.com/v2" })), "11.4: the name is what is needed, in any version")
}
