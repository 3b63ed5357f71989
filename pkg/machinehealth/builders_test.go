// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

var epoch = objecttest.Epoch

// What the objects of the tests have in common.
const (
	testNamespace = "machines"
	ours          = "MachineHealthCheck-machines/workers"
)

// testOwner is the MachineHealthCheck of the tests.
var testOwner = object.Owner{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: v1beta1.Kind, Namespace: testNamespace, Name: "workers", UID: "workers-uid"}

// check returns a MachineHealthCheck.
func check(changes ...func(*v1beta1.MachineHealthCheck)) *v1beta1.MachineHealthCheck {
	c := &v1beta1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "workers", UID: "workers-uid", Generation: 3}}
	for _, change := range changes {
		change(c)
	}
	return c
}

// annotatedCheck sets an annotation of a MachineHealthCheck.
func annotatedCheck(key, value string) func(*v1beta1.MachineHealthCheck) {
	return func(c *v1beta1.MachineHealthCheck) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, value) }
}

// machineAPIs are the APIs of Machines, and how one of OpenShift becomes one of each. Rows of tables that are about neither
// hold for both.
var machineAPIs = map[string]func(*Machine){"OpenShift": func(*Machine) {}, "Cluster API": ofClusterAPI}

// of returns a copy of a Machine, changed.
func (m *Machine) of(change func(*Machine)) *Machine {
	clone := m.DeepCopyObject().(*Machine)
	change(clone)
	return clone
}

// machine returns a Machine of OpenShift with an owner and a Node, both named after it.
func machine(name string, changes ...func(*Machine)) *Machine {
	m := &Machine{
		TypeMeta: metav1.TypeMeta{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: testNamespace, Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "7", CreationTimestamp: metav1.NewTime(epoch),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: "set", UID: "set-uid", Controller: new(true)}},
		},
		Phase: "Running", Node: name + "-node",
	}
	for _, change := range changes {
		change(m)
	}
	return m
}

func failedPhase(m *Machine) { m.Phase = phaseFailed }
func noNode(m *Machine)      { m.Node = "" }
func noOwner(m *Machine)     { m.OwnerReferences = nil }
func deletingMachine(m *Machine) {
	m.DeletionTimestamp = new(metav1.NewTime(epoch.Add(10 * time.Minute)))
}
func ofClusterAPI(m *Machine) { m.APIVersion, m.Cluster = "cluster.x-k8s.io/v1beta2", "here" }
func ownedBy(uid types.UID) func(*Machine) {
	return func(m *Machine) { m.OwnerReferences[0].UID = uid }
}
func createdAt(at time.Time) func(*Machine) {
	return func(m *Machine) { m.CreationTimestamp = metav1.NewTime(at) }
}
func annotated(key string) func(*Machine) {
	return func(m *Machine) { metav1.SetMetaDataAnnotation(&m.ObjectMeta, key, "") }
}

// The annotations of Machines under external remediation.
var (
	firstKey  = annotated(v1beta1.AnnotationExternalRemediation)
	secondKey = annotated(v1beta1.AnnotationRemediationStrategy)
)

// target returns an unhealthy target, because of a condition, that nothing refuses.
func target(m *Machine, changes ...func(*Target)) Target {
	t := Target{Observed: Observed{Machine: m}, Verdict: Verdict{
		State: Unhealthy, Trigger: v1beta1.TriggerUnhealthyCondition, Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
		Since: epoch, Deadline: epoch.Add(5 * time.Minute),
	}}
	if m.Node != "" {
		t.NodeUID = types.UID(m.Node + "-uid")
	}
	for _, change := range changes {
		change(&t)
	}
	return t
}

// verdict makes a target be judged as in a state, without a condition.
func verdict(state State) func(*Target) { return func(t *Target) { t.Verdict = Verdict{State: state} } }

// because has a target unhealthy for a reason that is no condition.
func because(trigger string) func(*Target) {
	return func(t *Target) { t.Verdict = Verdict{State: Unhealthy, Trigger: trigger} }
}
func soon(t *Target) { t.Verdict.State, t.Verdict.Trigger = SoonUnhealthy, "" }
func with(own ...*object.CR) func(*Target) {
	return func(t *Target) { t.Own = own }
}
func gone(t *Target) {
	t.Gone, t.Unselected, t.Verdict, t.NodeUID = true, true, Verdict{}, ""
	t.Machine = &Machine{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: t.Machine.Name}}
}
func unselected(t *Target) { t.Unselected = true }
func requested(uids ...types.UID) func(*Target) {
	return func(t *Target) {
		t.DeletionRequested = map[types.UID]bool{}
		for _, uid := range uids {
			t.DeletionRequested[uid] = true
		}
	}
}

// updating has the machine configuration of the Node being updated: that holds its Machine for 30 min.
func updating(t *Target) { t.Obstacles.UpdateEnds = epoch.Add(35 * time.Minute) }

// cr returns an own CR with the name of a Machine.
func cr(name string, changes ...func(*object.CR)) *object.CR {
	c := objecttest.CR(name, objecttest.InNamespace(testNamespace), func(c *object.CR) {
		c.UID = types.UID("cr-" + name + "-uid")
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: testOwner.APIVersion, Kind: testOwner.Kind, Name: testOwner.Name, UID: testOwner.UID}}
	})
	for _, change := range changes {
		change(c)
	}
	return c
}

// nodeLease returns the lease of the Node of Machine m.
func nodeLease(holder string, renewed time.Time, seconds int32) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "node-m-node", UID: "lease-uid", ResourceVersion: "5"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, AcquireTime: new(metav1.NewMicroTime(renewed)), RenewTime: new(metav1.NewMicroTime(renewed)),
			LeaseDurationSeconds: &seconds, LeaseTransitions: new(int32(0)),
		},
	}
}

// policy returns a policy that deletes its only target.
func policy(changes ...func(*Policy)) *Policy {
	p := &Policy{
		Owner: testOwner, Criteria: &Criteria{API: v1beta1.MachineAPIOpenShift, Strategy: Delete, StartupTimeout: 10 * time.Minute},
		Summary: Summary{Expected: 1, MaxUnhealthy: intstr.FromString("100%"), Limit: 1},
		BackOff: BackOff{Base: DefaultBackOffBase, Cap: DefaultBackOffCap}, Rounds: &RoundsByOwner{},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func annotates(p *Policy) { p.Criteria.Strategy = Annotate }
func byTemplate(p *Policy) {
	p.Criteria.Strategy, p.Template = Template, objecttest.Template(objecttest.Named(testNamespace, "reboot"))
}
func dryRun(p *Policy)      { p.DryRun = true }
func terminating(p *Policy) { p.Terminating = true }
func blocked(p *Policy)     { p.Summary.Limit = 0 }

// planFor is the plan for one target.
func planFor(p *Policy, t Target, now time.Time) Plan { return NewPlans(p, []Target{t}, now)[0] }

// describeActions writes actions down, one a line.
func describeActions(actions []remediation.Action) []string {
	var lines []string
	for _, action := range actions {
		line := remediation.ActionName(action)
		switch action := action.(type) {
		case remediation.Create:
			line += " " + action.Object.GetName()
		case remediation.Delete:
			line += " " + action.CR.Name
		case remediation.WriteLease:
			line += " " + action.Lease.Name
		case remediation.ReleaseLease:
			line += " " + action.Lease.Name
		case remediation.DeleteMachine:
			line += " " + action.Machine.Name
		case remediation.RequestExternal:
			line += " " + action.Machine.Name
		case remediation.EndExternal:
			line += " " + action.Machine.Name
		}
		lines = append(lines, line)
	}
	return lines
}

// result is what became of the plan for one target.
func result(p *Policy, t Target, outcome remediation.Outcome, now time.Time) TargetResult {
	return TargetResult{Plan: new(planFor(p, t, now)), Outcome: &outcome}
}

// decided is the decision about one target whose plan has no actions, or whose actions succeed.
func decided(p *Policy, t Target, now time.Time) v1alpha1.Decision {
	r := result(p, t, remediation.Outcome{}, now)
	return p.Decision(r)
}
