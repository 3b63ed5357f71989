// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view turns objects of the API server into answers for people: the state of all health
// checks, the next nodes, and the history. It is pure: its values, which kubectl nhc prints as tables
// or as JSON, only depend on a Snapshot and an instant. It decides nothing itself: pkg/health judges
// health, gate and storm, and the reason why a node waits comes from status.
package view

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Snapshot has the objects that were read from a cluster. The lists are sorted by
// namespace and name.
type Snapshot struct {
	NodeHealthChecks    []*v1alpha1.NodeHealthCheck
	MachineHealthChecks []*machinev1beta1.MachineHealthCheck
	Budgets             []*nhcv1alpha1.RemediationBudget
	Nodes               []*corev1.Node
	// Leader is nil if it was not read.
	Leader *Leader
	// Missing are the kinds that could not be read: then views of the snapshot are partial.
	Missing []Missing
}

// Missing is a kind that could not be read.
type Missing struct {
	// Resource is the plural name of the kind.
	Resource string `json:"resource"`
	// Outdated means that the kind was read, but cannot be followed at the moment.
	Outdated bool `json:"outdated,omitempty"`
	// Reason says in one sentence why, and what to do about it.
	Reason string `json:"reason"`
}

// misses reports whether a kind could not be read.
func (s *Snapshot) misses(resource string) bool {
	return slices.ContainsFunc(s.Missing, func(missing Missing) bool { return missing.Resource == resource })
}

// Apply adds a health check or a budget that is to be applied. It takes the place of the one of its name, and inherits
// what only the cluster knows of that.
func (s *Snapshot) Apply(object any) {
	switch object := object.(type) {
	case *v1alpha1.NodeHealthCheck:
		if before := replace(&s.NodeHealthChecks, object); before != nil {
			object.UID, object.Status = before.UID, before.Status
		}
	case *nhcv1alpha1.RemediationBudget:
		if before := replace(&s.Budgets, object); before != nil {
			object.UID, object.Status = before.UID, before.Status
		}
	case *machinev1beta1.MachineHealthCheck:
		replace(&s.MachineHealthChecks, object)
	}
}

// replace replaces the object of the same namespace and name in a list, and returns it. A new object comes at the end.
func replace[T metav1.Object](list *[]T, object T) (before T) {
	*list = slices.Clone(*list)
	i := slices.IndexFunc(*list, func(other T) bool {
		return other.GetNamespace() == object.GetNamespace() && other.GetName() == object.GetName()
	})
	if i < 0 {
		*list = append(*list, object)
		return before
	}
	before, (*list)[i] = (*list)[i], object
	return before
}
