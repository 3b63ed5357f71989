// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// The index of the caches of Machines: by the Node that they name, or the name that stands for it. The indexes of
// the caches of CRs: by the MachineHealthChecks that own them, by the name under which they count, and by the
// control plane label.
const (
	machinesByNode    = "node"
	crsByOwner        = "machineHealthCheck"
	crsByName         = "nameOfMachine"
	crsByControlPlane = "controlPlaneMachine"
	controlPlaneLabel = "true"
	nodesByCluster    = "cluster"
)

var machineIndexers = cache.Indexers{
	cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	machinesByNode: func(obj any) ([]string, error) {
		if machine, ok := obj.(*machinehealth.Machine); ok {
			return []string{machine.SlotName()}, nil
		}
		return nil, nil
	},
}

var crIndexers = cache.Indexers{
	crsByOwner: func(obj any) (owners []string, _ error) {
		for _, key := range ownersOf(obj.(*object.CR)) {
			owners = append(owners, key.String())
		}
		return owners, nil
	},
	crsByName: func(obj any) ([]string, error) {
		if cr := obj.(*object.CR); len(ownersOf(cr)) > 0 {
			return []string{crName(cr)}, nil
		}
		return nil, nil
	},
	crsByControlPlane: func(obj any) ([]string, error) {
		if obj.(*object.CR).ControlPlane() {
			return []string{controlPlaneLabel}, nil
		}
		return nil, nil
	},
}

// ownersOf returns the MachineHealthChecks that own a CR.
func ownersOf(cr *object.CR) (owners []cache.ObjectName) {
	for i := range cr.OwnerReferences {
		if reference := &cr.OwnerReferences[i]; reference.Kind == v1beta1.Kind && reference.APIVersion == v1beta1.SchemeGroupVersion.String() {
			owners = append(owners, cache.NewObjectName(cr.Namespace, reference.Name))
		}
	}
	return owners
}

// nodeIndexers index Nodes by the Cluster that they belong to, as Cluster API writes it.
var nodeIndexers = cache.Indexers{
	nodesByCluster: func(obj any) ([]string, error) {
		node, _ := obj.(*corev1.Node)
		if cluster := clusterOf(node); cluster.Name != "" {
			return []string{cluster.String()}, nil
		}
		return nil, nil
	},
}

// clusterOf returns the Cluster that a Node belongs to by its annotations, zero if to none. The Node may be nil.
func clusterOf(node *corev1.Node) cache.ObjectName {
	if node == nil {
		return cache.ObjectName{}
	}
	name, namespace := node.Annotations[remediation.AnnotationClusterAPIName], node.Annotations[remediation.AnnotationClusterAPINamespace]
	if name == "" || namespace == "" {
		return cache.ObjectName{}
	}
	return cache.NewObjectName(namespace, name)
}
