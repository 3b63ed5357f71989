// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// platformOwner is the owner that wants the optional kinds: the controller itself.
const platformOwner = "platform"

// platformKinds are the optional kinds of OpenShift and Cluster API.
var platformKinds = sets.New(
	remediation.MachineHealthCheckKind, remediation.OpenShiftMachineKind,
	remediation.ClusterVersionKind, remediation.ClusterAPIMachineKind,
)

// platformContent are the paths of the fields that decisions read, for optional kinds by name: the
// conditions that a MachineHealthCheck looks at, or that a ClusterVersion has. A change there concerns
// all NodeHealthChecks. A kind without a path is only looked up when it is needed.
var platformContent = map[string][]string{
	remediation.MachineHealthCheckKind.Kind: {"spec", "unhealthyConditions"},
	remediation.ClusterVersionKind.Kind:     {"status", "conditions"},
}

// parsePlatform keeps the parts of an optional object that decisions read.
func parsePlatform(object *unstructured.Unstructured) runtime.Object {
	return watches.Trim(object, platformContent[object.GetKind()]...)
}

// platformHandler handles optional objects. Changes of content that decisions read concern all
// NodeHealthChecks.
func (c *Controller) platformHandler() cache.ResourceEventHandler {
	changed := func(object any) {
		if u, ok := object.(*unstructured.Unstructured); ok && platformContent[u.GetKind()] != nil {
			c.Wake(c.index.Names())
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: changed,
		UpdateFunc: func(before, object any) {
			if !watches.SameContent(before, object) {
				changed(object)
			}
		},
		DeleteFunc: func(object any) { changed(watches.LastKnown(object)) },
	}
}

// platformState is what a sync observes of the platform.
type platformState struct {
	// conflict means that MachineHealthChecks look after the same machines, or did at the
	// last reading.
	conflict bool
	// problem says why a conflict cannot be found out if a permission is missing. unknown
	// means that this process has never found it out: then status says whether there was one.
	problem *remediation.Problem
	unknown bool
	// machineHealthChecks reports whether there is any.
	machineHealthChecks bool
	// progressing means that a ClusterVersion says so, or did at the last reading.
	progressing bool
	// access says why ClusterVersions cannot be read, nil if they can or are not served.
	// unseen means that this process has never read them: then status says how it was before.
	access *remediation.Problem
	unseen bool
	// openShiftMachines reports whether these are served.
	openShiftMachines bool
}

// observePlatform observes the platform for a NodeHealthCheck. The error is
// watches.ErrPending if something has not been read yet and soon will be.
func (c *Controller) observePlatform(nhc *v1alpha1.NodeHealthCheck, state *nhcState) (platformState, error) {
	var s platformState
	if err := c.observeMachineHealthChecks(&s); err != nil {
		return s, err
	}
	if err := c.observeClusterVersions(&s); err != nil {
		return s, err
	}
	for _, kind := range []schema.GroupVersionKind{remediation.OpenShiftMachineKind, remediation.ClusterAPIMachineKind} {
		// A CR gets its owners when it is created, and never again.
		if _, err := c.platform.Cache(kind); errors.Is(err, watches.ErrPending) {
			return s, err
		}
	}
	mapping, _ := c.platform.Mapping(remediation.OpenShiftMachineKind)
	s.openShiftMachines = mapping != nil
	s.recall(nhc, state)
	return s, nil
}

// observeMachineHealthChecks finds out about a conflict. A known one lasts until
// MachineHealthChecks can be read again or are no longer served. A missing permission is a
// problem, because the controller would miss a new conflict (spec 6.1, 6.9).
func (c *Controller) observeMachineHealthChecks(s *platformState) error {
	checks, err := c.platformObjects(remediation.MachineHealthCheckKind)
	if errors.Is(err, watches.ErrPending) {
		return err
	}
	if err == nil {
		c.platformSeen.checks.Store(&seenChecks{conflict: remediation.Conflicts(checks), exist: len(checks) > 0})
	}
	if last := c.platformSeen.checks.Load(); last != nil {
		// MachineHealthChecks of this process are in no conflict. It may not be known yet which controller looks after them
		// (spec M15.1).
		unread := c.machineHealthChecks.ActiveUnread() // Asked first: who is active is known before.
		conflict := last.conflict && !c.machineHealthChecks.Active()
		if conflict && errors.Is(unread, watches.ErrPending) {
			return unread
		}
		s.conflict, s.unknown, s.machineHealthChecks = conflict && unread == nil, conflict && unread != nil, last.exist
	} else {
		s.unknown = true
	}
	if forbidden, denied := errors.AsType[*watches.ForbiddenError](err); denied && !s.conflict {
		s.problem = remediation.PlatformForbidden(forbidden.Verb, forbidden.Resource)
	}
	return nil
}

// observeClusterVersions finds out about an upgrade. A known one lasts until
// ClusterVersions can be read again or are no longer served (spec 10.2).
func (c *Controller) observeClusterVersions(s *platformState) error {
	versions, err := c.platformObjects(remediation.ClusterVersionKind)
	if errors.Is(err, watches.ErrPending) {
		return err
	}
	if err == nil {
		c.platformSeen.progressing.Store(new(remediation.Progressing(versions)))
	}
	if last := c.platformSeen.progressing.Load(); last != nil {
		s.progressing = *last
	} else {
		s.unseen = true
	}
	switch forbidden, denied := errors.AsType[*watches.ForbiddenError](err); {
	case denied:
		s.access = remediation.PlatformForbidden(forbidden.Verb, forbidden.Resource)
	case err != nil:
		s.access = remediation.PlatformUnreadable(remediation.ClusterVersionKind)
	}
	return nil
}

// platformObjects returns all objects of an optional kind. It returns none if the kind is
// not served.
func (c *Controller) platformObjects(kind schema.GroupVersionKind) ([]*unstructured.Unstructured, error) {
	indexer, err := c.platform.Cache(kind)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, object := range indexer.List() {
		if u, ok := object.(*unstructured.Unstructured); ok {
			objects = append(objects, u)
		}
	}
	return objects, nil
}

// machinesOf returns the Machines of a Node, as far as they can be read, and nil if it names
// none. Without a Machine, the NodeHealthCheck is the only owner and remediation goes on.
func (c *Controller) machinesOf(node *corev1.Node) *remediation.Machines {
	openShift, clusterAPI := remediation.MachineNames(node.Annotations)
	if openShift.Name == "" && clusterAPI.Name == "" {
		return nil
	}
	machines := &remediation.Machines{}
	machines.OpenShift, machines.UnreadOpenShift = c.machine(remediation.OpenShiftMachineKind, openShift)
	machines.ClusterAPI, machines.UnreadClusterAPI = c.machine(remediation.ClusterAPIMachineKind, clusterAPI)
	return machines
}

// machine returns a Machine, nil if there is none, and its namespace if it cannot be read
// for now. A Machine that is not served, or that the controller may not read, does not
// count.
func (c *Controller) machine(kind schema.GroupVersionKind, name types.NamespacedName) (machine *unstructured.Unstructured, unread string) {
	if name.Name == "" {
		return nil, ""
	}
	object, err := c.platform.Get(kind, name)
	_, forbidden := errors.AsType[*watches.ForbiddenError](err)
	switch {
	case err == nil:
		machine, _ = object.(*unstructured.Unstructured)
		return machine, ""
	case forbidden, meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil, ""
	default:
		return nil, name.Namespace
	}
}

// platformSeen is the last reading of the platform by this process, nil before the first one. It
// holds while the platform cannot be read. The zero value is ready to use, from any goroutine.
type platformSeen struct {
	checks      atomic.Pointer[seenChecks]
	progressing atomic.Pointer[bool]
}

// seenChecks is what MachineHealthChecks say.
type seenChecks struct{ conflict, exist bool }

// recall takes from status what this process has never read. For an upgrade, only the status
// at the start of the process counts: a later one repeats what this process has written, so
// an upgrade would never end.
func (s *platformState) recall(nhc *v1alpha1.NodeHealthCheck, state *nhcState) {
	s.conflict = s.conflict || (s.unknown && inConflict(nhc))
	s.progressing = s.progressing || (s.unseen && state.upgrading)
}

// inConflict reports whether MachineHealthChecks were in conflict at the last reading. A
// missing answer does not end a conflict.
func inConflict(nhc *v1alpha1.NodeHealthCheck) bool {
	condition := meta.FindStatusCondition(nhc.Status.Conditions, v1alpha1.ConditionDisabled)
	return condition != nil && condition.Status == metav1.ConditionTrue && condition.Reason == v1alpha1.ReasonConflict
}
