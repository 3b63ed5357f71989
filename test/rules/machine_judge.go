// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// The resources that are judged where the controller looks after MachineHealthChecks.
var (
	Machines            = v1beta1.SchemeGroupVersion.WithResource("machines")
	ClusterAPIMachines  = schema.GroupVersionResource{Group: v1beta1.MachineAPICluster, Version: "v1beta2", Resource: "machines"}
	MachineHealthChecks = v1beta1.SchemeGroupVersion.WithResource(v1beta1.Plural)
	FeatureGates        = schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "featuregates"}
)

// MachineConfig says how Machines are judged.
type MachineConfig struct {
	// BackOff are the delays of deletions.
	BackOff BackOff
	// FeatureGates means that the platform has feature gates.
	FeatureGates bool
}

// judgeOfMachines judges a change of what concerns Machines alone, and reports whether it was one.
func (j *Judge) judgeOfMachines(event Change, before *unstructured.Unstructured, by *Request) bool {
	switch event.Resource {
	case Machines, ClusterAPIMachines:
		j.judgeMachine(event, before, by)
	case MachineHealthChecks:
		j.judgeMHC(event, before, by)
	case FeatureGates:
		var gates *Gates
		if event.Object != nil {
			gates = parseGates(event.Object)
		}
		j.activity.gates = append(j.activity.gates, version[Gates]{rv: event.ResourceVersion, seen: event.Time, object: gates})
	case Leases:
		return j.followLease(event)
	default:
		return false
	}
	return true
}

// followLease adds a lease that is not the lease of a node.
func (j *Judge) followLease(event Change) bool {
	namespace, name, _ := strings.Cut(event.Key, "/")
	switch {
	case name == otherLeader:
		var lease *coordinationv1.Lease
		if event.Object != nil {
			var err error
			if lease, err = parseLease(event.Object); err != nil {
				j.unreadable(event, err)
				return true
			}
		}
		if j.activity.leaders == nil {
			j.activity.leaders = map[string]track[coordinationv1.Lease]{}
		}
		add(j.activity.leaders, event.Key, event.ResourceVersion, event.Time, lease)
	case namespace != j.config.LeaseNamespace:
	default:
		return false
	}
	return true
}

func (j *Judge) judgeMachine(event Change, before *unstructured.Unstructured, by *Request) {
	var last, machine *Machine
	if before != nil {
		last = parseMachine(before)
	}
	if event.Object != nil {
		machine = parseMachine(event.Object)
	}
	add(j.machines, event.Key, event.ResourceVersion, event.Time, machine)
	j.timelines.machine(event, last, machine, by)
	if by == nil || last == nil || event.Gap {
		return
	}
	switch {
	case machine == nil || (machine.Deleting && !last.Deleting):
		j.figures.MachineDeletions++
		j.deletedByUs.Insert(last.UID)
		j.record(machineName(event.Key), "", check("M10.2", last.Deleting, "a Machine is deleted that is being deleted"))
		j.judgeBeginning(event, by, beginning{how: byDeletion, versions: []*Machine{last}})
	case machine.Has(v1beta1.AnnotationExternalRemediation) && !last.Has(v1beta1.AnnotationExternalRemediation):
		j.figures.ExternalRequests++
		j.annotatedByUs.Insert(last.UID)
		j.record(machineName(event.Key), "", onlyKeys(before, event.Object), check("M11.1", machine.Annotations[v1beta1.AnnotationRemediationStrategy] != "external-baremetal", "the first key is set without the second"))
		j.judgeBeginning(event, by, beginning{how: byAnnotation})
	default:
		j.record(machineName(event.Key), "", onlyKeys(before, event.Object), j.keysKept(event, by, last, machine), j.activeFor(event, by))
	}
}

// keysKept judges what the controller has done to the keys of a Machine (spec M11.2).
func (j *Judge) keysKept(event Change, by *Request, before, after *Machine) finding {
	if before.Has(v1beta1.AnnotationExternalRemediation) && !after.Has(v1beta1.AnnotationExternalRemediation) {
		return finding{"M11.2", "the controller has removed the first key"}
	}
	removed := before.Has(v1beta1.AnnotationRemediationStrategy) && !after.Has(v1beta1.AnnotationRemediationStrategy)
	first := func(machine *Machine) bool {
		return machine != nil && machine.Has(v1beta1.AnnotationExternalRemediation)
	}
	known := j.windowOf(event, by, "", "").known
	return check("M11.2", removed && all(j.machines[event.Key].during(known, event.ResourceVersion), first), "the second key is removed while the first is there")
}

// onlyKeys judges that the controller has changed nothing of a Machine but its two keys (spec
// M20.3).
func onlyKeys(before, after *unstructured.Unstructured) finding {
	for _, p := range changed(before.Object, after.Object, nil) {
		ours := len(p) == 3 && p[1] == "annotations" && (p[2] == v1beta1.AnnotationExternalRemediation || p[2] == v1beta1.AnnotationRemediationStrategy)
		if !ours {
			return finding{"M20.3", "the controller has changed " + p.String() + " of a Machine"}
		}
	}
	return finding{rule: "M20.3"}
}

// activeFor judges that a write for MachineHealthChecks was made while the controller may have been
// active (spec M4.2).
func (j *Judge) activeFor(event Change, by *Request) finding {
	w := j.windowOf(event, by, "", "")
	return check("M4.2", !j.activity.mayBeActive(w), "%s %s is written though another controller looks after MachineHealthChecks", event.Resource.Resource, event.Key)
}

func (j *Judge) judgeMHC(event Change, before *unstructured.Unstructured, by *Request) {
	var mhc *MHC
	if event.Object != nil {
		var err error
		if mhc, err = parseMHC(event.Object); err != nil {
			j.unreadable(event, err)
			return
		}
	}
	old := j.mhcs[event.Key].at(event.ResourceVersion)
	add(j.mhcs, event.Key, event.ResourceVersion, event.Time, mhc)
	j.timelines.mhc(event, old, mhc, by)
	if mhc != nil && old != nil {
		unsaid := equality.Semantic.DeepEqual(old.Status.UnhealthyMachines, mhc.Status.UnhealthyMachines) // Only an intent was written.
		mhc.foreign = old.foreign && (by == nil || unsaid) || by == nil && !equality.Semantic.DeepEqual(&old.Status, &mhc.Status)
	}
	if mhc == nil || old == nil || before == nil || by == nil || event.Gap {
		return
	}
	j.record("", mhcName(event.Key), onlyStatus(before, event.Object), j.activeFor(event, by), j.rare(event, old, mhc, by))
	j.record("", mhcName(event.Key), historyKept(old, mhc)...)
	j.record("", mhcName(event.Key), j.machineTimes(old, mhc, by)...)
}

// mostWrites is how often the status of a MachineHealthCheck may be written within a second: once for
// each of its control plane Machines at most, and what others change in the meantime.
const mostWrites = 20

// requestFailed are the reasons that say that a request has failed.
var requestFailed = []v1alpha1.DecisionReason{v1alpha1.DecidedCreateFailed, v1alpha1.DecidedDeleteFailed, v1alpha1.DecidedUpdateFailed}

// ExtraWrites returns how much more often a status that lists Machines may be written in a second: once for each
// Machine, because they may change one by one. Failed requests for Machines are repeated after 0.1, 0.2 and 0.4 s.
// Each attempt may write twice, because a budget lets the next Machine begin when one has failed.
func ExtraWrites(status *v1beta1.MachineHealthCheckStatus) int {
	failed := func(machine v1beta1.UnhealthyMachine) bool {
		return slices.Contains(requestFailed, machine.Decision.Reason)
	}
	extra := len(status.UnhealthyMachines)
	if slices.ContainsFunc(status.UnhealthyMachines, failed) {
		extra *= 2 * 4
	}
	return extra
}

// rare judges that a status is not written again and again (spec P3).
func (j *Judge) rare(event Change, old, mhc *MHC, by *Request) finding {
	if j.statusWrites == nil {
		j.statusWrites = map[string][]time.Time{}
	}
	recent := slices.DeleteFunc(append(j.statusWrites[event.Key], by.Time), func(at time.Time) bool { return at.Before(by.Time.Add(-time.Second)) })
	j.statusWrites[event.Key] = recent
	most := mostWrites + max(ExtraWrites(&old.Status), ExtraWrites(&mhc.Status))
	return check("P3", len(recent) > most, "the status is written %d times in a second", len(recent))
}

// lastRead returns when a Machine was read live for a request, and false if it never was.
// MachineHealthChecks that share it may read it at the same time.
func (j *Judge) lastRead(machine *Machine, until time.Time) (time.Time, bool) {
	readers := 0
	for key := range j.mhcs {
		if strings.HasPrefix(key, machine.Namespace+"/") {
			readers++
		}
	}
	return j.requests.lastOf(requestKey("get", Machines.Resource, machine.Namespace, machine.Name), max(1, readers), until)
}

// lastMachine returns a Machine as it was last, which may be gone.
func (h *history) lastMachine(key string, rv uint64) *Machine {
	for _, v := range slices.Backward(h.machines[key]) {
		if v.rv <= rv && v.object != nil {
			return v.object
		}
	}
	return nil
}
