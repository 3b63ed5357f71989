// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (t timelines) machine(event Change, before, after *Machine, by *Request) {
	text := "Machine " + event.Key
	switch {
	case after == nil:
		text += " is gone"
	case before == nil:
		text += fmt.Sprintf(" created, uid %s, owner %s", after.UID, after.Owner)
	}
	if after != nil {
		text += fmt.Sprintf(" deleting: %t, phase %q, node %q, labels %v, annotations %v, owner %s",
			after.Deleting, after.Phase, after.Node, after.Labels, slices.Sorted(maps.Keys(after.Annotations)), after.Owner)
	}
	l := line{event.Time, event.ResourceVersion, text + author(by)}
	name := machineName(event.Key)
	t.nodes[name] = append(t.nodes[name], l)
	if after != nil && after.Node != "" {
		t.nodes[after.Node] = append(t.nodes[after.Node], l)
	}
}

func (t timelines) mhc(event Change, before, after *MHC, by *Request) {
	var text strings.Builder
	text.WriteString(mhcName(event.Key))
	if after == nil {
		text.WriteString(" deleted")
	} else {
		if before == nil || before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations) {
			fmt.Fprintf(&text, " generation %d: %s, annotations %v", after.Generation, compact(after.Spec), after.Annotations)
		}
		status := after.Status
		status.Conditions = nil
		fmt.Fprintf(&text, " status: %s", compact(status))
		for _, condition := range after.Status.Conditions {
			fmt.Fprintf(&text, ", %s=%s", condition.Type, condition.Status)
		}
	}
	name := mhcName(event.Key)
	t.nhcs[name] = append(t.nhcs[name], line{event.Time, event.ResourceVersion, text.String() + author(by)})
}

func compact(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
