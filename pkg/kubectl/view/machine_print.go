// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
)

// Print prints what is known about one Machine.
func (e *MachineExplanation) Print(printer *Printer) {
	now := e.Time.Time
	sections := Sections{Printer: printer}
	lines := [][]Cell{{{Text: "Machine " + e.Namespace + "/" + e.Machine, Style: Heading}}}
	say := func(style Style, text string) {
		lines = append(lines, []Cell{{Text: text, Style: style}})
	}
	switch {
	case !e.Known:
		say(Warning, "It cannot be read, or is gone: this is what its MachineHealthChecks have reported.")
	case e.Deleting:
		say(Warning, "It is being deleted: kubectl get machines -n "+e.Namespace+" "+e.Machine+" -o yaml shows its finalizers.")
	}
	if e.Known {
		say(Plain, "Phase: "+cmp.Or(e.Phase, Unknown)+", node: "+cmp.Or(e.Node, "none"))
		if !e.Owned {
			say(Warning, "No controller owns it: if it is deleted, no other one replaces it.")
		}
		if len(e.Checks) == 0 {
			say(Bad, "No MachineHealthCheck of its namespace selects it, so none replaces it when it is unhealthy.")
		}
	}
	sections.Lines(lines)
	sections.problem(e.Leader, now)
	for i := range e.Checks {
		check := &e.Checks[i]
		name := e.Namespace + "/" + check.Name
		next := "nothing, as long as the Machine is healthy"
		lines := [][]Cell{{{Text: "MachineHealthCheck " + name, Style: Heading}}}
		if target := check.Target; target == nil {
			lines = append(lines, []Cell{Text("Health: "), {Text: "not reported as unhealthy", Style: Good}})
		} else {
			health := Cell{Text: cmp.Or(target.Trigger, "not healthy yet"), Style: Warning}
			if target.Detected != nil {
				health = Cell{Text: cmp.Or(target.Trigger, "unhealthy") + " since " + SinceWhen(target.Detected, now), Style: Bad}
			}
			lines = append(lines,
				[]Cell{Text("Health: "), health},
				[]Cell{Text("Decision: "), State(target.Decision), Text(", " + Why(target, now))})
			next = "the decision changes"
			if target.Decision != nil {
				next = inTime(target.Decision, machineAdvice(target.Decision.Reason, check.Name, e), now)
			}
		}
		if e.Leader.Problem(now) != "" {
			next = "nothing, as long as no controller is at work"
		}
		if check.Held != nil {
			lines = append(lines, []Cell{{Text: "Nothing new begins: " + Because(check.Held.Reason, check.Held.Message), Style: Bad}})
		}
		sections.Lines(append(lines, []Cell{Text("Next: "), Text(next)}))
	}
	if e.Node != "" {
		sections.Lines([][]Cell{{Text("kubectl nhc explain node " + e.Node + " shows the node.")}})
	}
	sections.Lines(Partial(e.Missing))
}
