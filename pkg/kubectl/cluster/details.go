// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// ReadDetails reads what is shown of one node besides a snapshot. What cannot be read is added to
// what is missing in the snapshot.
func ReadDetails(ctx context.Context, clients *Clients, snapshot *view.Snapshot, node, leaseNamespace string) (*view.Details, error) {
	details := &view.Details{Remediations: map[types.UID]view.Remediation{}}
	lease, err := clients.Kube.CoordinationV1().Leases(leaseNamespace).Get(ctx, object.LeaseName(node), metav1.GetOptions{})
	if err == nil {
		details.Lease = lease
	} else if !apierrors.IsNotFound(err) {
		if err := clients.miss(snapshot, "get", leases, err); err != nil {
			return nil, err
		}
	}
	// Events about Nodes are in this namespace. Those of this API group are what most users may read.
	about := fields.Set{"involvedObject.kind": "Node", "involvedObject.name": node}.String()
	list, err := clients.Kube.CoreV1().Events(corev1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: about})
	if err == nil {
		details.Events = list.Items
	} else if err := clients.miss(snapshot, "list", events, err); err != nil {
		return nil, err
	}
	if details.GoneMachines, err = clients.goneMachines(ctx, snapshot, node); err != nil {
		return nil, err
	}
	for _, nhc := range snapshot.NodeHealthChecks {
		entry := view.EntryOf(nhc, node)
		if entry == nil {
			continue
		}
		for _, listed := range entry.Remediations {
			resource, err := clients.readRemediation(ctx, &listed.Resource, details)
			if err == nil || apierrors.IsNotFound(err) {
				continue
			}
			if err := clients.miss(snapshot, "get", resource, err); err != nil {
				return nil, err
			}
		}
	}
	return details, nil
}

// readRemediation reads a remediation object, and returns the name of its resource.
func (c *Clients) readRemediation(ctx context.Context, reference *corev1.ObjectReference, details *view.Details) (resource string, err error) {
	client, resource, err := c.Referred(reference)
	if err != nil {
		return resource, err
	}
	read, err := client.Get(ctx, reference.Name, metav1.GetOptions{})
	if err != nil {
		return resource, err
	}
	details.Remediations[read.GetUID()] = view.Remediation{Known: true, Deleting: read.GetDeletionTimestamp() != nil, Conditions: conditionsOf(read)}
	return resource, nil
}

// Referred returns a client for the kind and the namespace of a reference, and the name of the resource.
func (c *Clients) Referred(reference *corev1.ObjectReference) (dynamic.ResourceInterface, string, error) {
	mapping, err := c.mapping(reference.GroupVersionKind())
	if err != nil {
		return nil, reference.Kind, err
	}
	client := c.Dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return client.Namespace(reference.Namespace), mapping.Resource.Resource, nil
	}
	return client, mapping.Resource.Resource, nil
}

// machines is how Machines are called where they cannot be read.
const machines = "machines"

// ReadMachine reads a Machine of one of the APIs, nil if there is none. What cannot be read is missing in the
// snapshot.
func ReadMachine(ctx context.Context, clients *Clients, snapshot *view.Snapshot, namespace, name string) (*machinehealth.Machine, error) {
	for _, kind := range []schema.GroupVersionKind{remediation.OpenShiftMachineKind, remediation.ClusterAPIMachineKind} {
		read, err := clients.machine(ctx, kind, namespace, name)
		if err == nil {
			return machinehealth.ParseMachine(read), nil
		}
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err := clients.miss(snapshot, "get", machines+"."+kind.Group, err); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (c *Clients) machine(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	mapping, err := c.mapping(kind)
	if err != nil {
		return nil, err
	}
	return c.Dynamic.Resource(mapping.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

// goneMachines returns the Machines that the annotations of a Node name and that do not exist. What cannot be read, or is
// not served here, may exist.
func (c *Clients) goneMachines(ctx context.Context, snapshot *view.Snapshot, name string) (gone []string, err error) {
	i := slices.IndexFunc(snapshot.Nodes, func(node *corev1.Node) bool { return node.Name == name })
	if i < 0 {
		return nil, nil
	}
	openShift, clusterAPI := remediation.MachineNames(snapshot.Nodes[i].Annotations)
	for _, machine := range []struct {
		kind schema.GroupVersionKind
		name types.NamespacedName
	}{{remediation.OpenShiftMachineKind, openShift}, {remediation.ClusterAPIMachineKind, clusterAPI}} {
		if machine.name.Name == "" {
			continue
		}
		switch _, err := c.machine(ctx, machine.kind, machine.name.Namespace, machine.name.Name); {
		case ctxEnded(err):
			return nil, Explain(err, "get", machines)
		case apierrors.IsNotFound(err) && !NotServed(err):
			gone = append(gone, fmt.Sprintf("Machine %s of %s", machine.name, machine.kind.Group))
		}
	}
	return gone, nil
}

// conditionsOf reads the conditions of a remediation object as leniently as the controller does: what it decides by has
// to be seen (spec 11.7).
func conditionsOf(remediation *unstructured.Unstructured) (conditions []view.Condition) {
	list, _, _ := unstructured.NestedSlice(remediation.Object, "status", "conditions") // What is no list has none.
	for _, item := range list {
		fields, _ := item.(map[string]any)
		text := func(key string) string { s, _ := fields[key].(string); return s }
		if text("type") == "" {
			continue
		}
		condition := view.Condition{Type: text("type"), Status: text("status"), Reason: text("reason"), Message: text("message")}
		var since metav1.Time
		if err := since.UnmarshalQueryParameter(text("lastTransitionTime")); err == nil && !since.IsZero() {
			condition.Since = &since
		}
		conditions = append(conditions, condition)
	}
	return conditions
}
