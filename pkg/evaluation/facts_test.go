// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package evaluation

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestFacts: what a Node says about itself.
func TestFacts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node *corev1.Node
		want Facts
	}{
		"17.1 no Node":                 {},
		"nothing":                      {testNode("n"), Facts{UID: "n-uid"}},
		"12.1 control plane":           {testNode("n", labelled("node-role.kubernetes.io/control-plane", "")), Facts{UID: "n-uid", ControlPlane: true}},
		"12.5 etcd":                    {testNode("n", labelled("node-role.kubernetes.io/etcd", "true")), Facts{UID: "n-uid", ControlPlane: true, Etcd: remediation.EtcdByRole}},
		"15.1 excluded":                {testNode("n", labelled(v1alpha1.LabelExclude, "true")), Facts{UID: "n-uid", Excluded: true, Labelled: true}},
		"15.2 an empty value":          {testNode("n", labelled(v1alpha1.LabelExclude, "")), Facts{UID: "n-uid", ExclusionIgnored: true, Labelled: true}},
		"15.2 another value":           {testNode("n", labelled(v1alpha1.LabelExclude, "yes")), Facts{UID: "n-uid", Labelled: true}},
		"10.2 to be configured":        {testNode("n", annotated(remediation.AnnotationDesiredConfig, "b")), Facts{UID: "n-uid", Reconfiguring: true}},
		"16.6 confirmed, by any value": {testNode("n", annotated(v1alpha1.AnnotationManuallyConfirmedHealthy, "no")), Facts{UID: "n-uid", ConfirmedHealthy: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, FactsOf(tc.node))
		})
	}
}
