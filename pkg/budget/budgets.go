// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

// Budgets are the RemediationBudgets as the controllers of health checks ask them before anything
// begins. The methods may be called from any goroutine.
type Budgets interface {
	// Ready returns watches.ErrPending as long as the budgets are not known. Afterwards
	// everything is synced again.
	Ready() error
	// Stop names the budget that stops everything, empty if none does. When that changes, everything is synced again.
	Stop() string
	// Admit decides as Counts.Admit does. If the budgets cannot be read, it refuses all
	// requests. Revision changes with the spec of any budget: an admission of an older revision
	// no longer counts.
	Admit(asker Asker, requests []Request) (refusals map[string]*Refusal, revision int64)
	// Revision returns the present revision.
	Revision() int64
	// End reports the outcome of an admitted remediation.
	End(asker Asker, node string, usage Usage)
	// Forget drops what is known of an asker that is gone.
	Forget(asker Asker)
	// NodeChanged is called when a Node, or what Observe returns for it, may have changed, and
	// NodesChanged when that holds for all nodes.
	NodeChanged(node string)
	NodesChanged()
}

// HealthChecks are the health checks of one kind. They tell the budgets what to count.
type HealthChecks interface {
	// HasSynced reports whether Observe and Remediating know everything. When that begins, SyncAll is
	// called for all health checks.
	HasSynced() bool
	// Observe returns what the health checks know of a node.
	Observe(node string) Observation
	// Remediating returns the names of all nodes that are under remediation by Observe, and perhaps of
	// others. Nothing else lists nodes that are gone.
	Remediating() []string
	// Wake syncs the health checks of these names, and SyncAll all of them.
	Wake(names []string)
	SyncAll()
}

// Machines are what budgets with a machineSelector count.
type Machines interface {
	// MachineOf returns the Machine of a Node, or the Machine that a name stands for.
	MachineOf(name string) Machine
	// MachineNames returns the names under which MachineOf knows all Machines: the name of its
	// Node, or the name that stands for a Machine without a Node.
	MachineNames() []string
	// MachinesReadable returns why Machines cannot be read, and watches.ErrPending as long as that is
	// unknown. NodesChanged is called when the answer changes.
	MachinesReadable() error
}

// None stands for a process that looks after no budgets.
type None struct{}

// Ready implements Budgets.
func (None) Ready() error { return nil }

// Stop implements Budgets.
func (None) Stop() string { return "" }

// Admit implements Budgets.
func (None) Admit(Asker, []Request) (map[string]*Refusal, int64) { return nil, 0 }

// Revision implements Budgets.
func (None) Revision() int64 { return 0 }

// End implements Budgets.
func (None) End(Asker, string, Usage) {}

// Forget implements Budgets.
func (None) Forget(Asker) {}

// NodeChanged implements Budgets.
func (None) NodeChanged(string) {}

// NodesChanged implements Budgets.
func (None) NodesChanged() {}
