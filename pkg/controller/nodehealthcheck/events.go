// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/status"
)

// ReportingController is the name under which events are reported (spec 19.1).
const ReportingController = "NodeHealthCheck"

// eventReporter records events.
type eventReporter struct {
	recorder events.EventRecorder
}

// record records events of a NodeHealthCheck. Events about a node go to both objects. The
// references carry no resourceVersion: with one, repetitions would count as different
// events.
func (r eventReporter) record(nhc *v1alpha1.NodeHealthCheck, all []status.Event) {
	onNHC := &corev1.ObjectReference{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: nhc.Name, UID: nhc.UID}
	for i := range all {
		e := &all[i]
		if e.Node == nil {
			r.recorder.Eventf(onNHC, nil, e.Type, e.Reason, e.Action, "%s", e.Text())
			continue
		}
		onNode := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.Node.Name, UID: e.Node.UID}
		r.recorder.Eventf(onNHC, onNode, e.Type, e.Reason, e.Action, "%s", e.Text())
		if e.Node.Constraints.NodeDeleted {
			continue // Without the relation, the events of all deleted nodes would be one.
		}
		r.recorder.Eventf(onNode, onNHC, e.Type, e.Reason, e.Action, "%s", e.Text())
	}
}
