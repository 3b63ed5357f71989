// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// dynamicClient serves the CRs. Methods that the Executor does not use are nil.
type dynamicClient struct {
	dynamic.Interface
	*world
}

func (c dynamicClient) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	for kind, t := range c.remediations {
		if t.resource == gvr.GroupResource() {
			return &crClient{world: c.world, table: t, kind: kind}
		}
	}
	panic("no such resource: " + gvr.String())
}

type crClient struct {
	dynamic.NamespaceableResourceInterface
	world           *world
	table           *table
	kind, namespace string
}

func (c *crClient) Namespace(namespace string) dynamic.ResourceInterface {
	clone := *c
	clone.namespace = namespace
	return &clone
}

func (c *crClient) Create(_ context.Context, raw *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string) (created *unstructured.Unstructured, err error) {
	w, node := c.world, c.world.doing.plan.Node.Name
	err = w.request(node, fmt.Sprintf("create %s %s", c.kind, raw.GetName()), func() error {
		key := crKey(raw)
		w.checkCreate(object.ParseCR(raw))
		if c.table.live[key] != nil {
			return apierrors.NewAlreadyExists(c.table.resource, raw.GetName())
		}
		stored := raw.DeepCopy()
		stored.SetUID(w.newUID())
		stored.SetCreationTimestamp(w.seconds())
		w.putCR(stored)
		w.created[stored.GetUID()] = w.version
		created = stored.DeepCopy()
		return nil
	})
	return created, err
}

func (c *crClient) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (raw *unstructured.Unstructured, err error) {
	w := c.world
	err = w.request(w.doing.plan.Node.Name, fmt.Sprintf("get %s %s", c.kind, name), func() error {
		i := c.table.live[c.namespace+"/"+name]
		if i == nil {
			return apierrors.NewNotFound(c.table.resource, name)
		}
		raw = i.raw.DeepCopy()
		return nil
	})
	return raw, err
}

func (c *crClient) Delete(_ context.Context, name string, options metav1.DeleteOptions, _ ...string) error {
	w := c.world
	return w.request(w.doing.plan.Node.Name, fmt.Sprintf("delete %s %s", c.kind, name), func() error {
		i := c.table.live[c.namespace+"/"+name]
		if i == nil {
			return apierrors.NewNotFound(c.table.resource, name)
		}
		if options.Preconditions == nil || options.Preconditions.UID == nil {
			w.violate(w.doing.plan.Node.Name, "16.1", "delete without uid")
		}
		if *options.Preconditions.UID != i.cr.UID {
			return apierrors.NewConflict(c.table.resource, name, errors.New("uid differs"))
		}
		w.checkDelete(i.cr)
		w.deleteCR(i.cr)
		return nil
	})
}

func (c *crClient) Patch(_ context.Context, name string, kind types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string) (patched *unstructured.Unstructured, err error) {
	w, node := c.world, c.world.doing.plan.Node.Name
	err = w.request(node, fmt.Sprintf("annotate %s %s", c.kind, name), func() error {
		i := c.table.live[c.namespace+"/"+name]
		if i == nil {
			return apierrors.NewNotFound(c.table.resource, name)
		}
		var content struct {
			Metadata struct {
				UID             types.UID         `json:"uid"`
				ResourceVersion string            `json:"resourceVersion"`
				Annotations     map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		decoder := json.NewDecoder(strings.NewReader(string(patch)))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&content); err != nil || kind != types.MergePatchType || len(content.Metadata.Annotations) != 1 {
			w.violate(node, "11.2", "patch of more than one annotation: %s", patch)
		}
		if content.Metadata.UID != i.cr.UID {
			return apierrors.NewInvalid(i.raw.GroupVersionKind().GroupKind(), name, nil)
		}
		if content.Metadata.ResourceVersion != "" && content.Metadata.ResourceVersion != i.cr.ResourceVersion {
			return apierrors.NewConflict(c.table.resource, name, errors.New("resourceVersion differs"))
		}
		if w.denied[c.kind] {
			return apierrors.NewForbidden(c.table.resource, name, errors.New("the webhook is down"))
		}
		w.checkMark(i.cr, content.Metadata.Annotations)
		w.writes[i.cr.UID]++
		w.changeCR(i.cr, func(raw *unstructured.Unstructured) {
			annotations := raw.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			maps.Copy(annotations, content.Metadata.Annotations)
			raw.SetAnnotations(annotations)
		})
		patched = c.table.live[c.namespace+"/"+name].raw.DeepCopy()
		return nil
	})
	return patched, err
}

// kubeClient serves Leases and Nodes. Methods that the Executor does not use are nil.
type kubeClient struct {
	kubernetes.Interface
	*world
}

func (c kubeClient) CoordinationV1() coordinationclient.CoordinationV1Interface {
	return coordinationV1{world: c.world}
}

func (c kubeClient) CoreV1() coreclient.CoreV1Interface { return coreV1{world: c.world} }

type coordinationV1 struct {
	coordinationclient.CoordinationV1Interface
	*world
}

func (c coordinationV1) Leases(string) coordinationclient.LeaseInterface {
	return leaseClient{world: c.world}
}

type coreV1 struct {
	coreclient.CoreV1Interface
	*world
}

func (c coreV1) Nodes() coreclient.NodeInterface { return nodeClient{world: c.world} }

type leaseClient struct {
	coordinationclient.LeaseInterface
	world *world
}

func (c leaseClient) Create(_ context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (written *coordinationv1.Lease, err error) {
	w := c.world
	err = w.request(w.doing.plan.Node.Name, "create lease "+lease.Name+" "+w.terms(lease), func() error {
		w.checkLease(nil, lease)
		if w.leases.live[lease.Name] != nil {
			return apierrors.NewAlreadyExists(execute.LeaseResource, lease.Name)
		}
		stored := lease.DeepCopy()
		stored.UID = w.newUID()
		w.putLease(stored)
		written = stored
		return nil
	})
	return written, err
}

func (c leaseClient) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (written *coordinationv1.Lease, err error) {
	w := c.world
	err = w.request(w.doing.plan.Node.Name, "update lease "+lease.Name+" "+w.terms(lease), func() error {
		i := w.leases.live[lease.Name]
		switch {
		case i == nil:
			return apierrors.NewNotFound(execute.LeaseResource, lease.Name)
		case lease.ResourceVersion == "":
			w.violate(w.doing.plan.Node.Name, "14.4", "update of a lease without resourceVersion")
		case lease.ResourceVersion != i.lease.ResourceVersion || lease.UID != i.lease.UID:
			return apierrors.NewConflict(execute.LeaseResource, lease.Name, errors.New("resourceVersion differs"))
		}
		w.checkLease(i.lease, lease)
		stored := lease.DeepCopy()
		w.putLease(stored)
		written = stored
		return nil
	})
	return written, err
}

func (c leaseClient) Delete(_ context.Context, name string, options metav1.DeleteOptions) error {
	w := c.world
	return w.request(w.doing.plan.Node.Name, "delete lease "+name, func() error {
		i := w.leases.live[name]
		if i == nil {
			return apierrors.NewNotFound(execute.LeaseResource, name)
		}
		conditions := options.Preconditions
		if conditions == nil || conditions.UID == nil || conditions.ResourceVersion == nil {
			w.violate(w.doing.plan.Node.Name, "14.9", "delete of a lease without preconditions")
		}
		if *conditions.UID != i.lease.UID || *conditions.ResourceVersion != i.lease.ResourceVersion {
			return apierrors.NewConflict(execute.LeaseResource, name, errors.New("uid or resourceVersion differs"))
		}
		w.checkRelease(i.lease)
		w.remove(w.leases, name)
		return nil
	})
}

type nodeClient struct {
	coreclient.NodeInterface
	world *world
}

func (c nodeClient) Patch(_ context.Context, name string, _ types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string) (*corev1.Node, error) {
	w := c.world
	err := w.request(name, "remove the confirmation from node "+name, func() error {
		node := w.node(name)
		if node == nil {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
		}
		var content struct {
			Metadata struct {
				UID         types.UID          `json:"uid"`
				Annotations map[string]*string `json:"annotations"`
			} `json:"metadata"`
		}
		decoder := json.NewDecoder(strings.NewReader(string(patch)))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&content)
		value, confirmation := content.Metadata.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
		if err != nil || !confirmation || value != nil || len(content.Metadata.Annotations) != 1 {
			w.violate(name, "11.2 16.6", "a Node is only changed by a patch of one key: %s", patch)
		}
		if content.Metadata.UID != node.UID {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, name, nil)
		}
		if hasConfirmation(node) {
			w.changeNode(name, func(node *corev1.Node) {
				delete(node.Annotations, v1alpha1.AnnotationManuallyConfirmedHealthy)
			})
		}
		return nil
	})
	return nil, err
}

// mapping tells where CRs of a kind are served.
func (w *world) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	t := w.remediations[gvk.Kind]
	if t == nil {
		return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind()}
	}
	return &meta.RESTMapping{Resource: t.resource.WithVersion(gvk.Version), GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace}, nil
}
