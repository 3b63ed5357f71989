// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// ofMachines has the budget count the Machines of namespace "ns".
func ofMachines(b *nhcv1alpha1.RemediationBudget) {
	b.Spec.NodeSelector, b.Spec.MachineSelector = nil, &nhcv1alpha1.BudgetMachineSelector{Namespace: "ns"}
}

// newMachine returns a Machine of a zone. Without a Node it was created long ago.
func newMachine(name, node, zone string) *Machine {
	return &Machine{API: v1beta1.MachineAPIOpenShift, Namespace: "ns", Name: name, Node: node, Owner: "set", Labels: labels.Set{"zone": zone}, Created: epoch.Add(-time.Hour)}
}

func (s *fixture) machine(seen time.Time, machine *Machine) {
	s.addMachine(machine.Key(), s.next(), seen, machine)
}

func (s *fixture) noMachine(seen time.Time, name string) {
	s.addMachine("ns/"+name, s.next(), seen, nil)
}

func (s *fixture) mhc(seen time.Time, mhc *MHC) { add(s.mhcs, mhc.Key(), s.next(), seen, mhc) }

// delete has the controller delete a Machine at second 30.
func (s *fixture) delete(name string) {
	s.deletions = append(s.deletions, deletion{machine: "ns/" + name, owner: "set", at: at(30), rv: s.rv, checks: []string{checkOf().Key()}})
}

// machineFixture has the Machines "n", "m" and "o" of zone "a" and "x" of zone "b", each with a Node of the same name
// in another zone. "n" and "m" are not Ready.
func machineFixture() *fixture {
	s := newFixture()
	s.followed = true
	for name, zone := range map[string]string{"n": "a", "m": "a", "o": "a", "x": "b"} {
		node := healthyNode(name, labelled("zone", "of "+name))
		if name == "n" || name == "m" {
			node = failedNode(name, labelled("zone", "of "+name))
		}
		s.node(past, node)
		s.machine(past, newMachine(name, name, zone))
	}
	s.nhc(past, healthCheck())
	s.mhc(past, checkOf())
	return s
}

// TestBudgetsAboutMachines begins the remediation of node "n" at second 100, by what is known since
// second 99.
func TestBudgetsAboutMachines(t *testing.T) {
	t.Parallel()
	with := func(change ...func(*nhcv1alpha1.RemediationBudget)) func(*fixture) {
		return func(s *fixture) {
			s.budget(past, newBudget(append([]func(*nhcv1alpha1.RemediationBudget){ofMachines}, change...)...))
		}
	}
	remediated := func(name string) func(*fixture) {
		return func(s *fixture) { s.cr(past, newCR(name, "Reboot", "one")) }
	}
	noNode := func(name string) func(*fixture) {
		return func(s *fixture) { s.noNode(at(50), name); s.machine(at(50), newMachine(name, "", "a")) }
	}
	tests := map[string]struct {
		setup []func(*fixture)
		want  []string
	}{
		"B3.5 none":                                    {[]func(*fixture){with(maxConcurrent("0"))}, []string{"B3.2"}},
		"B3.5 one of the group":                        {[]func(*fixture){with(maxConcurrent("1"), byZone), remediated("m")}, []string{"B3.2"}},
		"B3.5 of another group":                        {[]func(*fixture){with(maxConcurrent("1"), byZone), remediated("x")}, nil},
		"B3.5 it was of another group just now":        {[]func(*fixture){with(maxConcurrent("1"), byZone), remediated("m"), func(s *fixture) { s.machine(at(99.5), newMachine("m", "m", "b")) }}, nil},
		"B3.5 percentages are of the Machines":         {[]func(*fixture){with(maxConcurrent("25%")), remediated("m"), func(s *fixture) { s.node(past, healthyNode("alone")) }}, []string{"B3.2"}},
		"B3.5 as many as Machines":                     {[]func(*fixture){with(maxConcurrent("26%")), remediated("m")}, nil},
		"B3.5 one without a Node counts for those":     {[]func(*fixture){with(maxConcurrent("25%")), remediated("m"), func(s *fixture) { s.machine(past, newMachine("new", "", "a")) }}, nil},
		"B3.5 a Node without a Machine is not bounded": {[]func(*fixture){with(maxConcurrent("0")), func(s *fixture) { s.noMachine(past, "n"); s.machines["ns/n"] = nil; s.standing["n"] = nil }}, nil},
		"B3.5 its Machine is gone: that was its group": {[]func(*fixture){with(maxConcurrent("0")), func(s *fixture) { s.noMachine(at(20), "n") }}, nil},
		"B3.5 in another namespace":                    {[]func(*fixture){with(maxConcurrent("0"), func(b *nhcv1alpha1.RemediationBudget) { b.Spec.MachineSelector.Namespace = "other" })}, nil},
		"B3.5 Machines are not watched": {[]func(*fixture){func(s *fixture) {
			s.budget(past, NewBudget(newBudget(ofMachines, maxConcurrent("9")).RemediationBudget, false))
		}}, []string{"B2.2"}},
		"B2.1 both selectors":                      {[]func(*fixture){with(maxConcurrent("9"), func(b *nhcv1alpha1.RemediationBudget) { b.Spec.NodeSelector = &metav1.LabelSelector{} })}, []string{"B2.2"}},
		"B3.3 the other one is not Ready":          {[]func(*fixture){with(maxNotHealthy("1"))}, []string{"B3.3"}},
		"B3.3 it is a Machine that has not joined": {[]func(*fixture){with(maxNotHealthy("1")), noNode("m")}, []string{"B3.3"}},
		"B3.3 no check judges that one":            {[]func(*fixture){with(maxNotHealthy("1")), noNode("m"), func(s *fixture) { delete(s.mhcs, "ns/check") }}, nil},
		"B3.3 it has time left": {[]func(*fixture){with(maxNotHealthy("1")), noNode("m"), func(s *fixture) {
			s.mhc(past, checkOf(func(c *v1beta1.MachineHealthCheck) { c.Spec.NodeStartupTimeout = new("2h") }))
		}}, nil},
		"B3.3 a budget about Nodes does not count that": {[]func(*fixture){func(s *fixture) { s.budget(past, newBudget(maxNotHealthy("1"))) }, noNode("m")}, nil},
		"B3.2 one that is gone is not replaced": {[]func(*fixture){with(maxConcurrent("1"), byZone), func(s *fixture) {
			s.delete("m")
			s.noMachine(at(50), "m")
		}}, []string{"B3.2"}},
		"B3.2 but another leader does not know its group": {[]func(*fixture){with(maxConcurrent("1"), byZone), func(s *fixture) {
			s.delete("m")
			s.noMachine(at(50), "m")
			s.Led(at(60))
		}}, nil},
		"B3.2 nor the leader, there was no budget": {[]func(*fixture){func(s *fixture) {
			s.delete("m")
			s.noMachine(at(50), "m")
			s.budget(at(60), newBudget(ofMachines, maxConcurrent("1"), byZone))
		}}, nil},
		"B3.4 too early": {[]func(*fixture){with(every(time.Minute), byZone), func(s *fixture) {
			s.begun = append(s.begun, begun{at: at(41), answered: at(41), rv: s.rv, name: "m", identity: s.identityOf("m", window{known: at(99), rv: s.rv}), process: "test/1"})
		}}, []string{"B3.4"}},
		"B3.4 of Nodes before": {[]func(*fixture){func(s *fixture) { s.budget(past, newBudget(every(time.Minute))) }, func(s *fixture) {
			s.begun = append(s.begun, begun{at: at(41), answered: at(41), rv: s.rv, name: "m", identity: s.identityOf("m", window{known: at(99), rv: s.rv}), process: "test/1"})
			s.budget(at(50), newBudget(ofMachines, every(time.Minute)))
		}}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := machineFixture()
			for _, setup := range tt.setup {
				setup(s)
			}
			w := window{nhc: "nhc", node: "n", known: at(99), nodeKnown: at(99), rv: s.next(), at: at(100), first: true}
			require.Equal(t, tt.want, broke(s.budgetsAllow(w, asker{"n", s.identityOf("n", w)}, request(100), false)))
		})
	}
}

// TestNamedByTwo: of two Machines that name one Node, the first by name counts (spec B3.5).
func TestNamedByTwo(t *testing.T) {
	t.Parallel()
	s := machineFixture()
	w := func() window { return window{known: at(99), rv: s.rv, at: at(100)} }
	places := func() []place { return newBudget(ofMachines, byZone).places(new(s.identityOf("n", w()))) }
	s.machine(past, newMachine("z", "n", "b"))
	require.Equal(t, []place{{"a", true}}, places())
	s.machine(at(99.5), newMachine("b", "n", "c"))
	require.Equal(t, []place{{"c", true}, {"a", true}}, places(), "either way for a moment")
	s.noMachine(past, "n")
	require.Equal(t, certainty{true, true}, s.machineStands("n", w()))
}
