// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func TestName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 253)
	tests := map[string]struct {
		node     string
		template *object.Template
		want     string
	}{
		"11.1 the name of the node":                  {node: "node-1.example.com", template: reboot(), want: "node-1.example.com"},
		"11.1 the name of the node, however long":    {node: long, template: reboot(), want: long},
		"11.1 the hash covers namespace/name":        {node: "node-1", template: reboot(supportsMultiple), want: "node-1-92b241e8"},
		"11.1 another namespace":                     {node: "node-1", template: reboot(supportsMultiple, named("other", "reboot")), want: "node-1-32f4437e"},
		"11.1 cluster-scoped template":               {node: "node-1", template: reboot(supportsMultiple, named("", "reboot")), want: "node-1-397f720d"},
		"11.1 exactly 253 characters are not cut":    {node: long[:244], template: reboot(supportsMultiple), want: long[:244] + "-92b241e8"},
		"11.1 254 are, and the hash covers the node": {node: long[:245], template: reboot(supportsMultiple), want: long[:244] + "-5e1cf3d2"},
		"11.1 the longest node":                      {node: long, template: reboot(supportsMultiple), want: long[:244] + "-77aef9a2"},
		"11.1 no part of the name ends in a dash":    {node: long[:240] + "--.-a.bcde", template: reboot(supportsMultiple), want: long[:240] + "-08a2b256"},
		"11.1 the presence of the annotation counts": {node: "node-1", template: reboot(func(t *object.Template) {
			t.Annotations = map[string]string{"remediation.medik8s.io/multiple-templates-support": "false"}
		}), want: "node-1-92b241e8"},
		"11.1 another annotation does not": {node: "node-1", template: reboot(func(t *object.Template) {
			t.Annotations = map[string]string{"example.com/multiple-templates-support": ""}
		}), want: "node-1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, object.Name(tc.node, tc.template))
		})
	}
}

// TestNameIsValidAndUnique holds for all names that a Node can have.
func TestNameIsValidAndUnique(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	templates := []*object.Template{
		reboot(supportsMultiple),
		reboot(supportsMultiple, named(testNamespace, "fence")),
		reboot(supportsMultiple, named("other", "reboot")),
		reboot(supportsMultiple, named(testNamespace+"/reboot", "")), // Impossible, but a hash must not be fooled by it either.
	}
	seen := map[string]string{}
	for range 3000 {
		node := randomNodeName(random)
		require.Empty(t, validation.IsDNS1123Subdomain(node), "the test itself: %q", node)
		require.Equal(t, node, object.Name(node, reboot()))
		for _, template := range templates {
			got := object.Name(node, template)
			require.Empty(t, validation.IsDNS1123Subdomain(got), "11.1: %q for node %q", got, node)
			require.Equal(t, got, object.Name(node, template), "11.1: the name is the lock")
			source := node + " " + template.Namespace + " " + template.Name
			if other, taken := seen[got]; taken {
				require.Equal(t, other, source, "11.1: %q stands for two things", got)
			}
			seen[got] = source
		}
	}
}

// Names of Nodes that differ only where they are cut off have different CRs.
func TestNameOfNodesThatDifferAtTheEnd(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 252)
	require.NotEqual(t, object.Name(long+"a", reboot(supportsMultiple)), object.Name(long+"b", reboot(supportsMultiple)), "11.1")
}

// randomNodeName returns a valid name, often as long as can be, and with dots and
// dashes close to where it is cut.
func randomNodeName(random *rand.Rand) string {
	length := 1 + random.IntN(253)
	if random.IntN(2) == 0 {
		length = 240 + random.IntN(14)
	}
	const alphabet = "ab01--.."
	name := make([]byte, length)
	for i := range name {
		name[i] = alphabet[random.IntN(len(alphabet))]
	}
	for i := range name {
		first, last := i == 0, i == len(name)-1
		part := first || last || name[i-1] == '.' || name[i-1] == '-'
		if name[i] == '.' && part || name[i] == '-' && (first || last || name[i-1] == '.' || name[i+1] == '.') {
			name[i] = 'x'
		}
	}
	return string(name)
}
