// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// testCheck returns a NodeHealthCheck.
func testCheck() *v1alpha1.NodeHealthCheck {
	return &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "workers-uid", Generation: 3}}
}

// testNode returns an unhealthy node.
func testNode(name string) *remediation.Node {
	return &remediation.Node{
		Name: name, UID: types.UID(name + "-uid"),
		Verdict: health.Verdict{State: health.Unhealthy, Type: "Ready", Status: "Unknown", Since: epoch.Add(-time.Minute), Deadline: epoch},
	}
}

// testCR returns a CR of a node.
func testCR(node, uid string) *object.CR {
	return &object.CR{
		TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "RebootRemediation"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "remediators", Name: node, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(epoch),
			Annotations: map[string]string{v1alpha1.AnnotationNodeName: node, v1alpha1.AnnotationTemplateName: "reboot"},
		},
	}
}
