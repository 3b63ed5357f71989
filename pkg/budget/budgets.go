// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

// Budgets are what the controllers of health checks ask before anything begins. The methods may
// be called from any goroutine.
type Budgets interface {
	// Ready returns watches.ErrPending as long as it is not known which budgets there are.
	// When that is over, everything is synced again.
	Ready() error
	// Admit decides as Counts.Admit does. If the budgets cannot be read, it refuses all
	// candidates. Revision changes with the spec of any budget: what was admitted by an older
	// one does not begin any more.
	Admit(asker Asker, candidates []Candidate) (refusals map[string]*Refusal, revision int64)
	// Revision is that of now.
	Revision() int64
	// End says what became of a remediation that was admitted.
	End(asker Asker, node string, result Result)
	// Forget drops what is known of a asker that is gone.
	Forget(asker Asker)
	// NodeChanged is called when a Node, or what Observe returns for it, may have changed, and
	// NodesChanged when that holds for all nodes.
	NodeChanged(node string)
	NodesChanged()
}

// HealthChecks are the health checks of one kind. They tell the budgets what to count.
type HealthChecks interface {
	// HasSynced reports whether Observe and Remediating know all that there is. SyncAll is called for
	// all health checks when it begins to.
	HasSynced() bool
	// Observe returns what the health checks know of a node.
	Observe(node string) Observation
	// Remediating returns the names of all nodes that Observe says are under remediation, and perhaps
	// of others. Nothing else lists those that are gone.
	Remediating() []string
	// Wake syncs the health checks of these names, and SyncAll all of them.
	Wake(names []string)
	SyncAll()
}

// Machines are what budgets with a machineSelector count.
type Machines interface {
	// MachineOf returns the Machine of a Node, or the one that a name stands for.
	MachineOf(name string) Machine
	// MachineNames returns the names of all Machines that MachineOf knows: those of their Nodes,
	// or what stands for a Machine without one.
	MachineNames() []string
	// MachinesReadable returns why Machines cannot be read, and watches.ErrPending as long as that
	// is not known. NodesChanged is called when that changes.
	MachinesReadable() error
}

// None stands for a process that looks after no budgets.
type None struct{}

// Ready implements Budgets.
func (None) Ready() error { return nil }

// Admit implements Budgets.
func (None) Admit(Asker, []Candidate) (map[string]*Refusal, int64) { return nil, 0 }

// Revision implements Budgets.
func (None) Revision() int64 { return 0 }

// End implements Budgets.
func (None) End(Asker, string, Result) {}

// Forget implements Budgets.
func (None) Forget(Asker) {}

// NodeChanged implements Budgets.
func (None) NodeChanged(string) {}

// NodesChanged implements Budgets.
func (None) NodesChanged() {}
