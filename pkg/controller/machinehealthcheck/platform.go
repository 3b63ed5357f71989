// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// The optional kinds besides those of package remediation. An empty version means the version that
// the API server prefers.
var (
	featureGateKind           = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "FeatureGate"}
	clusterKind               = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}
	clusterAPIHealthCheckKind = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Kind: "MachineHealthCheck"}
)

// leftToClusterAPI returns the Machines that a MachineHealthCheck of Cluster API looks after.
func (c *Controller) leftToClusterAPI(namespace string) map[string]bool {
	left := map[string]bool{}
	for _, check := range c.objectsIn(clusterAPIHealthCheckKind, namespace) {
		targets, _, _ := unstructured.NestedStringSlice(check.Object, "status", "targets")
		for _, name := range targets {
			left[name] = true
		}
	}
	return left
}

// clusterPaused reports whether the Cluster of a Machine is paused.
func (c *Controller) clusterPaused(machine *machinehealth.Machine) bool {
	if machine.API() != v1beta1.MachineAPICluster || machine.Cluster == "" {
		return false
	}
	for _, cluster := range c.objectsIn(clusterKind, machine.Namespace) {
		if cluster.GetName() != machine.Cluster {
			continue
		}
		paused, _, _ := unstructured.NestedBool(cluster.Object, "spec", "paused")
		_, annotated := cluster.GetAnnotations()[v1beta1.AnnotationPaused]
		return paused || annotated
	}
	return false
}

// clusterUpgrading reports whether the cluster is being upgraded (spec 10.2), or may be: ClusterVersions cannot be read,
// and this process never could (spec P5).
func (c *Controller) clusterUpgrading() bool {
	if _, read := c.machines.LastCache(remediation.ClusterVersionKind); !read {
		_, err := c.machines.Cache(remediation.ClusterVersionKind)
		return watches.Unread(err)
	}
	return remediation.Progressing(c.objectsIn(remediation.ClusterVersionKind, ""))
}

// objectsIn returns the objects of an optional kind in a namespace, as they were read last. It returns
// none if the kind is not served.
func (c *Controller) objectsIn(kind schema.GroupVersionKind, namespace string) []*unstructured.Unstructured {
	indexer, read := c.machines.LastCache(kind)
	if !read {
		return nil
	}
	return watches.Indexed[*unstructured.Unstructured](indexer, cache.NamespaceIndex, namespace)
}
