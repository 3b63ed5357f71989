// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// checkHolderPrefix begins the holder of a lease that a MachineHealthCheck holds (spec M2).
const checkHolderPrefix = "MachineHealthCheck-"

// checkOfHolder returns the MachineHealthCheck that holds a lease, as <namespace>/<name>, and false for other
// holders. Without a namespace it is one of another controller (spec M4.3).
func checkOfHolder(holder string) (key string, held bool) {
	key, held = strings.CutPrefix(holder, checkHolderPrefix)
	return key, held && strings.Contains(key, "/")
}

// judgeCheckLeaseWrite judges a write by which the lease of a node is the one of a
// MachineHealthCheck (spec M10.3).
func (j *Judge) judgeCheckLeaseWrite(event Change, before, after *coordinationv1.Lease, by *Request) {
	check, held := checkOfHolder(holderOf(after))
	if !held {
		return
	}
	w := j.windowOf(event, by, "", nodeOfLease(after))
	write := leaseWrite{before: before, after: after, nodes: j.nodes[w.node].during(w.known, w.rv), steps: []time.Duration{v1alpha1.ClassicDuration}}
	j.record(w.node, mhcName(check), write.findings()...)
	j.record(w.node, mhcName(check), j.activeFor(event, by))
}

// judgeCheckLeaseRelease judges that the controller has deleted the lease of a node that a
// MachineHealthCheck held: nothing that it has begun goes on (spec M10.3).
func (j *Judge) judgeCheckLeaseRelease(event Change, lease *coordinationv1.Lease, by *Request) {
	holder, _ := checkOfHolder(holderOf(lease))
	w := j.windowOf(event, by, "", nodeOfLease(lease))
	checks := j.mhcs[holder].during(w.known, w.rv)
	if j.snapshotOf(w).staleCRs() {
		return
	}
	needed := ""
	for _, key := range j.machinesNaming(w.node, w.known, w.rv) {
		busy := func(machine *Machine) bool {
			if machine == nil || machine.Node != w.node {
				return false
			}
			selected := all(checks, func(mhc *MHC) bool { return mhc != nil && mhc.DeletionTimestamp == nil && mhc.Selects(machine) })
			return machine.Deleting || machine.Has(v1beta1.AnnotationExternalRemediation) || (selected && j.ownOf(holder, machine, w))
		}
		if all(j.machines[key].during(w.known, w.rv), busy) {
			needed = key
		}
	}
	j.record(w.node, mhcName(holder), j.activeFor(event, by), check("M10.3", needed != "", "the lease is deleted while Machine %s is under remediation", needed))
}
