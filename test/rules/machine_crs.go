// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// judgeMachineCR judges a CR that the controller has created for a Machine (spec M12).
func (j *Judge) judgeMachineCR(event Change, cr *CR, by *Request) {
	j.figures.MachineCRs++
	b := beginning{how: byTemplate, check: cr.Checks[0]}
	w := j.windowOf(event, by, "", cr.Node)
	b.window = w
	j.record(machineName(cr.Machine), mhcName(b.check), j.machineCRContent(w, cr, event.Object), j.noOtherOwn(w, cr))
	j.judgeBeginning(event, by, b)
}

// machineCRContent judges the content of a new CR, by any version of its Machine and its template
// (spec M12.2, M12.3).
func (j *Judge) machineCRContent(w window, cr *CR, object *unstructured.Unstructured) finding {
	owners := object.GetOwnerReferences()
	if len(owners) != 2 || owners[0].Kind != v1beta1.Kind || owners[1].Kind != "Machine" || owners[1].Name != cr.Name || owners[1].BlockOwnerDeletion != nil {
		return finding{"M12.2", cr.String() + " has other owners than its MachineHealthCheck and its Machine"}
	}
	annotations := object.GetAnnotations()
	node, named := annotations[v1alpha1.AnnotationNodeName]
	for _, machine := range j.machines[cr.Machine].during(w.known, w.rv) {
		if machine == nil || machine.UID != owners[1].UID || named != (machine.Node != "") || node != machine.Node {
			continue
		}
		for _, mhc := range j.mhcs[cr.Checks[0]].during(w.known, w.rv) {
			if mhc == nil || mhc.Spec.RemediationTemplate == nil || annotations[v1alpha1.AnnotationTemplateName] != mhc.Spec.RemediationTemplate.Name {
				continue
			}
			template := mhc.Spec.RemediationTemplate
			for _, version := range j.history.templates[plural(template.Kind)+" "+key(mhc.Namespace, template.Name)].during(w.known, w.rv) {
				spec, _, err := unstructured.NestedMap(object.Object, "spec")
				if version != nil && err == nil && equality.Semantic.DeepEqual(orEmpty(spec), orEmpty(version.Spec)) {
					return finding{rule: "M12.2"}
				}
			}
		}
	}
	return finding{"M12.2", cr.String() + " is not as its Machine and its template say"}
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

// holdsLease reports whether a MachineHealthCheck holds the lease of a Node.
func (p *snapshot) holdsLease(check, node string) bool {
	for _, versions := range p.leases {
		if lease := versions.at(p.rv); holderOf(lease) == checkHolderPrefix+check && nodeOfLease(lease) == node {
			return true
		}
	}
	return false
}

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
