// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Target is everything that a decision about one Machine depends on.
type Target struct {
	Observed
	// NodeUID is the uid of its Node, empty if there is none.
	NodeUID types.UID
	Verdict Verdict
	// Decided is the decision of the last sync, or that of status; the zero value if there is none.
	Decided v1alpha1.Decision
	// UnhealthySince is when the target became unhealthy, or was first seen to be.
	UnhealthySince time.Time
	// ControlPlane reports whether the Machine, or its Node, belongs to the control plane.
	ControlPlane bool
	// Begun is when the running remediation of the target by the MachineHealthCheck began, zero if there is none, or
	// if that is not known (see begunAt).
	Begun time.Time
	// Requested is when the external remediation began that the history shows as open, zero if there is none. Vanished
	// is when the process saw it gone, zero if it is there.
	Requested, Vanished time.Time
	// Obstacles are the obstacles of the Machine and its Node.
	Obstacles Obstacles
	// Incomplete means that remediation objects cannot be read, so there may be one.
	Incomplete bool
	// DeletionRequested are the objects whose deletion was requested, by uid, though the caches
	// may not show it yet: remediation objects, and the Machine.
	DeletionRequested map[types.UID]bool
	// Lease is that of the Node, nil if there is none.
	Lease *coordinationv1.Lease
	// Rounds are those of the owner so far.
	Rounds Rounds
	// RetryAt is when the next attempt is due after a failed one, zero without a failure.
	// LastFailure says what failed then. LastFailed is the reason for the decision.
	RetryAt     time.Time
	LastFailure string
	LastFailed  v1alpha1.DecisionReason
}

// Obstacles keep one target from being remediated (spec M9.2, M5.4, M7.4).
type Obstacles struct {
	// MachinePaused: the Machine is paused, or its API is not the authoritative one.
	MachinePaused bool
	// ClusterPaused: the Cluster of a Machine of Cluster API is paused.
	ClusterPaused bool
	// Excluded: an annotation of the Machine, or a label of its Node, exempts it.
	Excluded bool
	// UpdateEnds is until when an update of the machine configuration of the Node holds the Machine, zero if
	// there is no such update, or it is over.
	UpdateEnds time.Time
	// AmbiguousNode is another Machine, by namespace and name, that is not being deleted and names the same
	// Node. Empty if there is none.
	AmbiguousNode string
	// OtherCheck is the health check that remediates the Machine, or whose threshold forbids it;
	// empty if there is none.
	OtherCheck string
}

// externallyRemediated reports whether another controller has been asked to remediate the Machine,
// and is not done (spec M11.2).
func (t *Target) externallyRemediated() bool {
	return t.Machine.Has(v1beta1.AnnotationExternalRemediation)
}

// Remediated reports whether a remediation of the Machine is under way that is no deletion. It
// turns the state Healthy into UnderRemediation.
func (t *Target) Remediated() bool { return remediated(t.Machine, t.Own) }

func remediated(machine *Machine, own []*object.CR) bool {
	return machine.Has(v1beta1.AnnotationExternalRemediation) || len(own) > 0
}

// maxRemediation is how long a remediation may take until it counts as overdue (spec M12.6).
const maxRemediation = 30 * time.Minute

// begunAt returns when the remediation of the target began: the deletion of its remediation object, the object, or what
// the history shows. That of a Machine that others delete is not ours.
func (t *Target) begunAt(history begun) time.Time {
	switch {
	case t.Verdict.State == Deleting:
		if d := history.deletion; d != nil && (!ended(d) || d.Started.Equal(t.Machine.DeletionTimestamp)) {
			return t.Machine.DeletionTimestamp.Time
		}
		return time.Time{}
	case len(t.Own) > 0 && t.Own[0].Deleting():
		return t.Own[0].DeletionTimestamp.Time
	case len(t.Own) > 0:
		return t.Own[0].CreationTimestamp.Time
	case t.externallyRemediated():
		return history.external
	}
	return time.Time{}
}

// minPause and maxPause bound how long the next request waits after one that has vanished.
const minPause, maxPause = 5 * time.Minute, 30 * time.Minute

// repeatable returns when an external remediation may be requested again: it has vanished while the Machine was
// unhealthy. Its remediator must not switch the host off again and again. So the pause is as long as the
// remediation has taken so far (spec M12.7).
func (t *Target) repeatable() time.Time {
	if t.Requested.IsZero() || t.Vanished.IsZero() {
		return time.Time{}
	}
	return t.Vanished.Add(min(max(t.Vanished.Sub(t.Requested), minPause), maxPause))
}

// afterPause are reasons to wait that are only asked once the pause is over. Others, such as a remediation object that is
// being deleted, say nothing about it.
var afterPause = []v1alpha1.DecisionReason{
	v1alpha1.DecidedControlPlaneBusy, v1alpha1.DecidedEtcdQuorum, v1alpha1.DecidedLeaseTaken, v1alpha1.DecidedForeignRemediation,
	v1alpha1.DecidedNextBatch, v1alpha1.DecidedCreateFailed, v1alpha1.DecidedUpdateFailed,
}

// SetVanished notes since when the open remediation of a target is gone. since is what the process knows of it.
func (t *Target) SetVanished(since, now time.Time) {
	switch {
	case t.Requested.IsZero() || t.Active() || t.Incomplete:
	case !since.IsZero():
		t.Vanished = since
	case t.Decided.Reason == v1alpha1.DecidedVanished: // By an earlier process.
		t.Vanished = t.Decided.Since.Time
	case t.Decided.Type == v1alpha1.DecisionHeld || slices.Contains(afterPause, t.Decided.Reason): // The pause was over before this process.
	default:
		t.Vanished = now.Truncate(time.Second)
	}
}

// deleting reports whether the deletion of the Machine was requested.
func (t *Target) deleting() bool {
	return t.Verdict.State == Deleting || (t.Machine.UID != "" && t.DeletionRequested[t.Machine.UID])
}

// Active reports whether anything is under way for the target that others must not disturb.
func (t *Target) Active() bool { return t.deleting() || t.Remediated() }
