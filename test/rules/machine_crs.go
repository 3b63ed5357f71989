// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

// judgeMachineCR judges a CR that the controller has created for a Machine (spec M12).
func (j *Judge) judgeMachineCR(event Change, cr *CR, by *Request) {
	j.figures.MachineCRs++
	b := beginning{how: byTemplate, check: cr.Checks[0]}
	w := j.windowOf(event, by, "", cr.Node)
	b.window = w
	j.record(machineName(cr.Machine), mhcName(b.check), j.noOtherOwn(w, cr))
	j.judgeBeginning(event, by, b)
}

// noOtherOwn judges that the Machine had no own CR of the MachineHealthCheck (spec P9) that the process can
// know of.
func (j *Judge) noOtherOwn(w window, created *CR) finding {
	for key := range j.crsOfMachine[created.Machine] {
		cr := j.crs[key].at(w.rv - 1)
		if cr != nil && cr.UID != created.UID && cr.CheckedBy(created.Checks[0]) && cr.ByController && existed(j.crs[key].during(w.known, w.rv-1)) && !j.snapshotOf(w).stale(cr) {
			return finding{"P9", created.String() + " is created while " + cr.String() + " exists"}
		}
	}
	return finding{rule: "P9"}
}

// leaves reports whether a CR is one of a former MachineHealthCheck of this name (spec M3.5).
func (m *MHC) leaves(cr *CR) bool { return cr.Created.Before(m.CreationTimestamp.Time) }

// inheritChecks takes over from the version before whose CR it was, if it does not say so any more.
func (c *CR) inheritChecks(last *CR) {
	if former := last.everChecks(); len(c.Checks) == 0 && len(former) > 0 {
		c.FormerChecks, c.Machine = former, last.Machine
	}
}

// everChecks are the MachineHealthChecks that own it, or owned it.
func (c *CR) everChecks() []string {
	if len(c.Checks) > 0 {
		return c.Checks
	}
	return c.FormerChecks
}

// judgeMachineCRDeletion judges that the controller has deleted a CR for a Machine: nothing is wrong
// with that any more, it is gone, or its MachineHealthCheck is (spec M12.5, M3.5).
func (j *Judge) judgeMachineCRDeletion(event Change, cr *CR, by *Request) {
	w := j.windowOf(event, by, "", cr.Node)
	owner := cr.everChecks()[0]
	over := func() bool {
		checks := j.mhcs[owner].during(w.known, w.rv)
		if some(checks, func(mhc *MHC) bool { return mhc == nil || mhc.DeletionTimestamp != nil || mhc.leaves(cr) }) {
			return true
		}
		for _, machine := range j.machines[cr.Machine].during(w.known, w.rv) {
			if machine == nil {
				return true
			}
			for _, mhc := range checks {
				fine := func(node *Node) bool {
					return !machine.Deleting && !machine.Failed() && node != nil && !Matches(mhc.conditions, node)
				}
				if some(j.nodes[machine.Node].during(w.known, w.rv), fine) {
					return true
				}
			}
		}
		return false
	}
	j.record(machineName(cr.Machine), mhcName(owner), j.activeFor(event, by), check("M12.5", !over(), "%s is deleted though its Machine is neither healthy nor gone", cr))
}
