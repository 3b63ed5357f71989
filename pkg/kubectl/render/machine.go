// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/terminal"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Machine prints what is known about one Machine.
func Machine(printer *terminal.Printer, e *view.MachineExplanation) {
	now := e.Time.Time
	sections := sections{printer: printer}
	lines := [][]terminal.Cell{{{Text: "Machine " + e.Namespace + "/" + e.Machine, Style: terminal.Heading}}}
	say := func(style terminal.Style, text string) {
		lines = append(lines, []terminal.Cell{{Text: text, Style: style}})
	}
	switch {
	case !e.Known:
		say(terminal.Warning, "It cannot be read, or is gone: this is what its MachineHealthChecks have reported.")
	case e.Deleting:
		say(terminal.Warning, "It is being deleted: kubectl get machines -n "+e.Namespace+" "+e.Machine+" -o yaml shows its finalizers.")
	}
	if e.Known {
		say(terminal.Plain, "Phase: "+cmp.Or(e.Phase, unknown)+", node: "+cmp.Or(e.Node, "none"))
		if !e.Owned {
			say(terminal.Warning, "No controller owns it: if it is deleted, no other one replaces it.")
		}
		if len(e.Checks) == 0 {
			say(terminal.Bad, "No MachineHealthCheck of its namespace selects it, so none replaces it when it is unhealthy.")
		}
	}
	sections.lines(lines)
	sections.problem(e.Leader, now)
	for i := range e.Checks {
		check := &e.Checks[i]
		name := e.Namespace + "/" + check.Name
		next := "nothing, as long as the Machine is healthy"
		lines := [][]terminal.Cell{{{Text: "MachineHealthCheck " + name, Style: terminal.Heading}}}
		if target := check.Target; target == nil {
			lines = append(lines, []terminal.Cell{terminal.Text("Health: "), {Text: "not reported as unhealthy", Style: terminal.Good}})
		} else {
			health := terminal.Cell{Text: cmp.Or(target.Trigger, "not healthy yet"), Style: terminal.Warning}
			if target.Detected != nil {
				health = terminal.Cell{Text: cmp.Or(target.Trigger, "unhealthy") + " since " + SinceWhen(target.Detected, now), Style: terminal.Bad}
			}
			lines = append(lines,
				[]terminal.Cell{terminal.Text("Health: "), health},
				[]terminal.Cell{terminal.Text("Decision: "), State(target.Decision), terminal.Text(", " + Why(target, now))})
			next = "the decision changes"
			if target.Decision != nil {
				next = inTime(target.Decision, machineAdvice(target.Decision.Reason, check.Name, e), now)
			}
		}
		if e.Leader.Problem(now) != "" {
			next = "nothing, as long as no controller is at work"
		}
		if check.Held != nil {
			lines = append(lines, []terminal.Cell{{Text: "Nothing new begins: " + Because(check.Held.Reason, check.Held.Message), Style: terminal.Bad}})
		}
		sections.lines(append(lines, []terminal.Cell{terminal.Text("Next: "), terminal.Text(next)}))
	}
	if e.Node != "" {
		sections.lines([][]terminal.Cell{{terminal.Text("kubectl nhc explain node " + e.Node + " shows the node.")}})
	}
	sections.lines(missing(e.Missing))
}
