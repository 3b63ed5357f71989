// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/history"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// memory is what the process remembers of one NodeHealthCheck between syncs. No
// decision depends on it, only whether something is said or asked for twice; it may
// be lost at any time. A NodeHealthCheck is synced by one worker at a time, so it
// needs no lock.
type memory struct {
	uid types.UID
	// deletionRequested holds the CRs whose deletion was requested, until the
	// caches show it.
	deletionRequested map[types.UID]bool
	// announced is what events have said and status does not show.
	announced announced
	// remediations are the CRs that status showed last, nil before the first sync.
	remediations map[types.UID]tracked
	// ledger has the episodes as of the last report.
	ledger *history.Ledger
	// decisions are those of the nodes in the last report.
	decisions map[string]v1alpha1.Decision
	// lastWrite is how long the last write of the status took.
	lastWrite slowness
	// oldNodes are the nodes with a series for old CRs.
	oldNodes sets.Set[string]
}

// announced is what events have said, so that they report transitions only.
type announced struct {
	gateClosed, storm, paused, upgrading bool
	specProblem                          string
	detected                             sets.Set[string]
	// exhausted holds the nodes of whose last step the end was told in this episode.
	exhausted sets.Set[string]
	// failed holds the CRs of which a failure was told.
	failed sets.Set[types.UID]
	// refused holds the refusals of single nodes that were told of.
	refused      map[string]remediation.Refusal
	invalidLabel sets.Set[string]
	// old holds the CRs that were reported as old.
	old sets.Set[types.UID]
}

// tracked is a CR that status shows.
type tracked struct {
	node, namespace, kind string
	started               time.Time
	succeeded, timedOut   bool
}

// memories are the memories of all NodeHealthChecks. The zero value is ready to
// use, from any goroutine.
type memories struct {
	mu     sync.Mutex
	byName map[string]*memory
}

// of returns the memory of a NodeHealthCheck, a new one if it is unknown or was
// created again.
func (m *memories) of(nhc *v1alpha1.NodeHealthCheck) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byName == nil {
		m.byName = map[string]*memory{}
	}
	known := m.byName[nhc.Name]
	if known == nil || known.uid != nhc.UID {
		before := known
		known = &memory{
			uid:               nhc.UID,
			deletionRequested: map[types.UID]bool{},
			ledger:            history.Recall(&nhc.Status), // After a restart, status tells.
			decisions:         decisionsIn(nhc.Status.UnhealthyNodes),
			announced:         announced{detected: sets.New[string](), failed: failedIn(&nhc.Status), invalidLabel: sets.New[string](), old: sets.New[types.UID]()},
		}
		if before != nil {
			// What the namesake had has ended, and its series with it.
			known.remediations, known.oldNodes = before.remediations, before.oldNodes
		}
		m.byName[nhc.Name] = known
	}
	return known
}

// failedIn returns the CRs of the nodes of which a status says that a step has failed.
func failedIn(status *v1alpha1.NodeHealthCheckStatus) sets.Set[types.UID] {
	failed := sets.New[types.UID]()
	for i := range status.UnhealthyNodes {
		entry := &status.UnhealthyNodes[i]
		if entry.Decision == nil || entry.Decision.Reason != v1alpha1.DecidedStepFailed {
			continue
		}
		for j := range entry.Remediations {
			failed.Insert(entry.Remediations[j].Resource.UID)
		}
	}
	return failed
}

// forget drops and returns the memory of a NodeHealthCheck, nil if there is none.
func (m *memories) forget(name string) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byName[name]
	delete(m.byName, name)
	return known
}
