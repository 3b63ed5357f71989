// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// beginning is a remediation of a Machine that the controller has begun: a deletion, a request by
// annotation, or a CR.
type beginning struct {
	window
	how strategy
	// versions are those of the Machine by which it may have been decided in the last look.
	versions []*Machine
	// check is the MachineHealthCheck, if that is known.
	check string
}

// judgeBeginning judges the beginning of a remediation of a Machine (spec M8). Only the log of the process says
// which MachineHealthCheck has begun it. Without it, some MachineHealthCheck must have been allowed to.
func (j *Judge) judgeBeginning(event Change, by *Request, b beginning) {
	machine := j.lastMachine(event.Key, event.ResourceVersion-1) // A CR has the name of its Machine.
	if machine == nil {
		j.record(machineName(event.Key), mhcName(b.check), finding{"M12.2", "a remediation begins for no Machine"})
		return
	}
	b.window = j.windowOf(event, by, b.check, machine.Node)
	if b.logged = j.loggedMachineAction(by, machine); b.logged != nil {
		b.check = b.logged.Check
	}
	read, looked := j.lastRead(machine, b.at)
	b.nodeKnown = read
	if b.versions == nil {
		b.versions = slices.DeleteFunc(j.machines[machine.Key()].during(read, b.rv-1), func(m *Machine) bool { return m == nil })
	}
	findings := []finding{
		check("M8.4", !looked, "a remediation begins, and the Machine was never read live"),
		check("M4.2", !j.activity.mayBeActive(b.window), "a remediation begins though another controller looks after MachineHealthChecks"),
		j.machineAllows(b), j.notProviders(b, machine), j.unambiguous(b), j.machineSlotFree(b, machine), j.quorum(j.asFirst(b)), j.onlyActor(b),
	}
	if b.how == byDeletion {
		findings = append(findings, j.oldEnough(b, machine))
	}
	findings = append(findings, j.budgetsAllow(b.window)...)
	j.record(machineName(machine.Key()), mhcName(b.check), findings...)
	j.record(machineName(machine.Key()), mhcName(b.check), j.allowedBySome(b, machine)...)
}

// asFirst is the window in which a node is taken into remediation.
func (j *Judge) asFirst(b beginning) window {
	w := b.window
	w.first = true
	return w
}

// machineAllows judges what the Machine and its Node alone forbid (spec M9.2, M10.1, M6.1).
func (j *Judge) machineAllows(b beginning) finding {
	for _, machine := range b.versions {
		nodes := j.nodes[machine.Node].during(b.nodeKnown, b.rv)
		switch {
		case machine.Deleting, machine.paused(), machine.Has(v1beta1.AnnotationSkipRemediation), b.how == byDeletion && machine.Owner == "":
		case b.how != byTemplate && machine.Has(v1beta1.AnnotationExternalRemediation) && !machine.Failed():
		case all(nodes, func(node *Node) bool { return node != nil && node.Labels[v1alpha1.LabelExclude] == "true" }):
		default:
			return finding{rule: "M9.2"}
		}
	}
	return finding{"M9.2", "a remediation begins that the Machine or its Node forbids"}
}

// notProviders judges that no control plane Machine of Cluster API is deleted (spec M13.3).
func (j *Judge) notProviders(b beginning, machine *Machine) finding {
	providers := b.how == byDeletion && machine.API == v1beta1.MachineAPICluster && j.controlPlaneMachine(machine, b.window)
	return check("M13.3", providers, "a control plane Machine of Cluster API is deleted")
}

// unambiguous judges that no other Machine named the same Node (spec M5.4).
func (j *Judge) unambiguous(b beginning) finding {
	if b.node == "" {
		return finding{rule: "M5.4"}
	}
	for key, versions := range j.machines {
		other := func(m *Machine) bool {
			return m != nil && m.Node == b.node && !m.Deleting && !slices.ContainsFunc(b.versions, func(v *Machine) bool { return v.UID == m.UID })
		}
		if all(versions.during(b.known, b.rv), other) {
			return finding{"M5.4", key + " names the same Node"}
		}
	}
	return finding{rule: "M5.4"}
}

// onlyActor judges that no NodeHealthCheck was at work on the Node (spec M15.2).
func (j *Judge) onlyActor(b beginning) finding {
	if b.node == "" || !existed(j.nodes[b.node].during(b.known, b.rv)) {
		return finding{rule: "M15.2"}
	}
	for key := range j.crsOf[b.node] {
		versions := j.crs[key].during(b.known, b.rv-1)
		if existed(versions) && all(versions, func(cr *CR) bool { return len(cr.Owners) > 0 && j.leased(b, holderPrefix+cr.Owners[0]) }) {
			return finding{"M15.2", "the remediation of a Machine begins while " + versions[0].String() + " is for its Node"}
		}
	}
	return finding{rule: "M15.2"}
}

// leased reports whether any holder had a valid lease of the Node all the time.
func (j *Judge) leased(b beginning, holder string) bool {
	return all(j.leasesDuring(b.node, b.known, b.rv), func(lease *coordinationv1.Lease) bool {
		return holderOf(lease) == holder && LeaseValid(lease, b.at)
	})
}

// allowedBySome judges that some MachineHealthCheck was allowed to begin. Otherwise it returns the
// findings of the MachineHealthCheck with the fewest obstacles.
func (j *Judge) allowedBySome(b beginning, machine *Machine) []finding {
	var best []finding
	var reasons []string
	for _, key := range slices.Sorted(maps.Keys(j.mhcs)) {
		if !strings.HasPrefix(key, machine.Namespace+"/") || (b.check != "" && key != b.check) {
			continue
		}
		for _, mhc := range used(j.mhcs[key], b.logged, b.window) {
			if mhc == nil {
				continue
			}
			findings := j.allowedBy(b, mhc)
			for _, f := range findings {
				if f.text != "" && !slices.Contains(reasons, f.text) {
					reasons = append(reasons, f.text)
				}
			}
			if best == nil || brokenOf(findings) < brokenOf(best) {
				best = findings
			}
		}
	}
	if best == nil {
		return []finding{{"M5.1", "a remediation begins for a Machine that no MachineHealthCheck selects"}}
	}
	for i := range best {
		if best[i].text != "" {
			best[i].text += "; of all: " + strings.Join(reasons, ", ")
		}
	}
	return best
}

func brokenOf(findings []finding) (n int) {
	for _, f := range findings {
		if f.text != "" {
			n++
		}
	}
	return n
}

// allowedBy judges whether one version of a MachineHealthCheck may have begun it (spec M8.2).
func (j *Judge) allowedBy(b beginning, mhc *MHC) []finding {
	some := func(holds func(*Machine) bool) bool { return slices.ContainsFunc(b.versions, holds) }
	counts := j.targets(mhc, b.window)
	fits := func(machine *Machine) bool {
		if b.how == byDeletion {
			return mhc.deletes(machine)
		}
		return mhc.strategy() == b.how && !mhc.deletes(machine)
	}
	unhealthy := func(machine *Machine) bool {
		return slices.ContainsFunc(j.nodes[machine.Node].during(b.nodeKnown, b.rv), func(node *Node) bool {
			return mhc.criterion(machine, node, b.at) != "" || (node != nil && mayBeUnhealthy(mhc.conditions, node.by(machine), b.at))
		})
	}
	name := mhc.Key()
	return []finding{
		check("M5.1", !some(mhc.Selects), "%s does not select the Machine", name),
		check("M3.4", mhc.broken, "%s is invalid", name),
		check("M3.5", mhc.DeletionTimestamp != nil, "%s is being deleted", name),
		check("M9.1", mhc.paused(), "%s is paused", name),
		check("M10.1", !some(fits), "this is not the strategy of %s", name),
		check("M6.2", !some(unhealthy), "the Machine meets no criterion of %s", name),
		check("M9.1", all(b.versions, func(machine *Machine) bool {
			return all(j.nodes[machine.Node].during(b.nodeKnown, b.rv), func(node *Node) bool { return mhc.updates(machine, node, b.at) })
		}), "the machine configuration of the Node is being changed"),
		check("M7.1", !counts.mayAllow(mhc), "the threshold of %s is exceeded: %+v", name, counts),
		j.othersAllow(b, mhc), j.holdsNode(b, mhc),
	}
}

// othersAllow judges what other MachineHealthChecks forbid that select the Machine (spec M7.4).
func (j *Judge) othersAllow(b beginning, mhc *MHC) finding {
	for key := range j.crsOfMachine[b.versions[0].Key()] {
		others := func(cr *CR) bool {
			return cr != nil && len(cr.Checks) > 0 && !cr.CheckedBy(mhc.Key())
		}
		if versions := j.crs[key].during(b.known, b.rv-1); all(versions, others) && !j.snapshotOf(b.window).stale(versions[0]) {
			return finding{"M7.4", versions[0].String() + " of another MachineHealthCheck is at work on the Machine"}
		}
	}
	for key, versions := range j.mhcs {
		during := versions.during(b.known, b.rv)
		if key == mhc.Key() {
			continue
		}
		first := func(other *MHC) bool {
			return other != nil && other.DeletionTimestamp == nil && other.Name < mhc.Name && other.forTermination() == mhc.forTermination() && all(b.versions, other.Selects)
		}
		if all(during, first) {
			return finding{"M7.4", key + " comes first"}
		}
	}
	return finding{rule: "M7.4"}
}

// holdsNode judges that the MachineHealthCheck held the lease of a Node that existed (spec M10.3).
func (j *Judge) holdsNode(b beginning, mhc *MHC) finding {
	if b.node == "" || !existed(j.nodes[b.node].during(b.known, b.rv)) {
		return finding{rule: "M10.3"}
	}
	held := slices.ContainsFunc(j.leasesDuring(b.node, b.known, b.rv), func(lease *coordinationv1.Lease) bool {
		return holderOf(lease) == checkHolderPrefix+mhc.Key()
	})
	return check("M10.3", !held, "%s does not hold the lease of the Node", mhc.Key())
}
