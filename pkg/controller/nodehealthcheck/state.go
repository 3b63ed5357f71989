// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/attempts"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/history"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
	"github.com/nhc-controller/nhc-controller/pkg/status"
)

// nhcState is what the process remembers of one NodeHealthCheck between syncs: its reports and
// requests, and the times of the next attempts. It may be lost at any time. Then the controller
// may repeat an event or a request, or make an attempt too early. One worker at a time syncs a
// NodeHealthCheck, so it needs no lock.
type nhcState struct {
	uid types.UID
	// generation is the generation of the spec whose metrics are shown.
	generation int64
	// upgrading means that an upgrade was under way when the process began.
	upgrading bool
	// deletionRequested holds the CRs whose deletion was requested, until a report
	// has shown that they are gone.
	deletionRequested map[types.UID]bool
	// reported is what events have reported and status does not show.
	reported status.Reported
	// observed means that this process has looked before. Another process has created and
	// reported everything that was gone by then.
	observed bool
	// written is the resourceVersion of the last status that this process wrote. It ignores older ones from a cache
	// that lags.
	written string
	// healthy are the nodes with CRs that were healthy at the last sync, or before it.
	healthy map[string]seenHealthy
	// ledger has the episodes of the last report.
	ledger *history.Ledger
	// entries are those of all nodes in the last report, by name.
	entries []v1alpha1.UnhealthyNode
	// conflicted means that the status has changed since it was read. Another process may
	// have ended episodes that are open here, and only the new status shows that.
	conflicted bool
	// releasing are the nodes whose lease could not be released. A lease without a holder is
	// found in no other way.
	releasing sets.Set[string]
	// attempts are the next ones for nodes for which a write has failed.
	attempts attempts.Attempts[attemptKey]
	// machineUnread is since when the Machine of a node cannot be read.
	machineUnread map[string]time.Time
	// gateClosed is whether the gate was closed in the last report.
	gateClosed bool
	// storm is the storm of the last report. unwritten means that its status could not be written. A storm goes on also
	// if its status cannot be written (spec 9.5).
	storm     health.Storm
	unwritten bool
	// lastWrite is when this process wrote the status last, zero if it has not.
	lastWrite time.Time
	// deferred is the report of the last sync if it waits, otherwise nil.
	deferred *syncResult
}

// seenHealthy is a node with CRs that is healthy, or was by the status before the sync. It has since when the node is
// healthy, zero if it is not, the sightings of its conditions, and what that status said. Status has the first one,
// too, unless it has no room for the node or could not be written.
type seenHealthy struct {
	since     time.Time
	sightings []health.Sighting
	stored    time.Time
}

// seesHealthy returns the nodes of these entries that are healthy, or were by the status before.
func (s *snapshot) seesHealthy(entries []v1alpha1.UnhealthyNode) map[string]seenHealthy {
	healthy := map[string]seenHealthy{}
	for i := range entries {
		entry := &entries[i]
		i, found := s.index(entry.Name)
		if !found || s.objects[i] == nil {
			continue
		}
		seen := seenHealthy{stored: s.storedHealthy(i)}
		if since := entry.ConditionsHealthyTimestamp; since != nil {
			seen.since, seen.sightings = since.Time, s.sightings[entry.Name]
		} else if seen.stored.IsZero() {
			continue
		}
		healthy[entry.Name] = seen
	}
	return healthy
}

// nhcStates are the states of all NodeHealthChecks. The zero value is ready to
// use, from any goroutine.
type nhcStates struct {
	mu     sync.Mutex
	byName map[string]*nhcState
}

// of returns the state of a NodeHealthCheck, a new one if it is unknown or was
// created again.
func (m *nhcStates) of(nhc *v1alpha1.NodeHealthCheck) *nhcState {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byName == nil {
		m.byName = map[string]*nhcState{}
	}
	known := m.byName[nhc.Name]
	if known == nil || known.uid != nhc.UID {
		known = &nhcState{
			uid:               nhc.UID,
			upgrading:         remediationAllowedReason(nhc) == string(v1alpha1.DecidedClusterUpgrading),
			deletionRequested: map[types.UID]bool{},
			releasing:         sets.New[string](),
			attempts:          attempts.New[attemptKey](),
			machineUnread:     map[string]time.Time{},
			gateClosed:        remediationAllowedReason(nhc) == v1alpha1.ReasonClosed,
			reported:          status.RecallReported(&nhc.Status),
		}
		m.byName[nhc.Name] = known
	}
	if !known.observed || known.conflicted && !staleness.Newer(known.written, nhc.ResourceVersion) {
		known.recall(nhc)
	}
	return known
}

// stormOf returns the storm for this version of a NodeHealthCheck. It is the storm of its status, or the one of the
// last report if that could not be written or the cache is behind.
func (m *nhcState) stormOf(nhc *v1alpha1.NodeHealthCheck) health.Storm {
	if m.unwritten || staleness.Newer(m.written, nhc.ResourceVersion) {
		return m.storm
	}
	return health.StormOf(&nhc.Status)
}

// recall takes the open episodes from status, as after a restart.
func (m *nhcState) recall(nhc *v1alpha1.NodeHealthCheck) {
	m.ledger, m.entries, m.conflicted = history.Recall(&nhc.Status), slices.SortedFunc(slices.Values(nhc.Status.UnhealthyNodes), status.ByName), false
}

// forget drops the state of a NodeHealthCheck.
func (m *nhcStates) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byName, name)
}

// deferred returns the reports that wait.
func (m *nhcStates) deferred() []*syncResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	var waiting []*syncResult
	for _, state := range m.byName {
		if state.deferred != nil {
			waiting = append(waiting, state.deferred)
		}
	}
	return waiting
}

// remediationAllowedReason returns the reason of the condition RemediationAllowed.
func remediationAllowedReason(nhc *v1alpha1.NodeHealthCheck) string {
	if condition := meta.FindStatusCondition(nhc.Status.Conditions, v1alpha1.ConditionRemediationAllowed); condition != nil {
		return condition.Reason
	}
	return ""
}
