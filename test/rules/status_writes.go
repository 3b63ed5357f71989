// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// judgeStatusWrite judges what a write of the status says anew.
func (j *Judge) judgeStatusWrite(event Change, before, after *NHC, by *Request) {
	w := j.windowOf(event, by, event.Key, "")
	j.record("", event.Key, j.stormJustified(w, before, after))
	j.judgeTimes(event, before, after, by)
	ended := timeouts(before)
	for i := range after.Status.UnhealthyNodes {
		entry := &after.Status.UnhealthyNodes[i]
		for _, remediation := range entry.Remediations {
			uid := remediation.Resource.UID
			_, known := ended[uid]
			switch {
			case remediation.TimedOut != nil && !known:
				w.node = entry.Name
				j.record(entry.Name, event.Key, j.timeoutJustified(w, uid))
			case known:
				j.record(entry.Name, event.Key, check("13.2", remediation.TimedOut == nil, "%s %s is no longer over", remediation.Resource.Kind, remediation.Resource.Name))
			}
		}
	}
}

// timeouts returns the CRs that status shows as timed out.
func timeouts(nhc *NHC) map[types.UID]bool {
	ended := map[types.UID]bool{}
	for i := range nhc.Status.UnhealthyNodes {
		for _, remediation := range nhc.Status.UnhealthyNodes[i].Remediations {
			if remediation.TimedOut != nil {
				ended[remediation.Resource.UID] = true
			}
		}
	}
	return ended
}

// timeoutJustified judges that status may show a step as over: its CR says so, or has
// succeeded too late, or must not be marked (spec 13.3 to 13.5, 14.7).
func (j *Judge) timeoutJustified(w window, uid types.UID) finding {
	for key := range j.crsOf[w.node] {
		for _, cr := range j.crs[key].during(w.known, w.rv) {
			if cr == nil || cr.UID != uid {
				continue
			}
			if cr.Marked || j.requests.deniedSince(key, w.known, w.at) {
				return finding{rule: "13.5"}
			}
			for _, nhc := range j.nhcs[w.nhc].during(w.known, w.rv) {
				if nhc == nil || cr.Succeeded != "True" {
					continue
				}
				steps := stepsOf(nhc)
				i := stepOf(steps, cr)
				if i >= 0 && (!w.at.Before(cr.Created.Add(steps[i].end())) || j.passed(w.nhc, w.node, steps[i], w.rv, w.at) || (steps[i].timeout == 0 && j.leaseWasOverdue(w))) {
					return finding{rule: "13.5"}
				}
			}
		}
	}
	return finding{"13.5", "status says that a step is over, and its CR does not"}
}

// stormJustified judges that a storm begins or ends (spec 9.2 to 9.5).
func (j *Judge) stormJustified(w window, before, after *NHC) finding {
	was := meta.IsStatusConditionTrue(before.Status.Conditions, v1alpha1.ConditionStormActive)
	is := meta.IsStatusConditionTrue(after.Status.Conditions, v1alpha1.ConditionStormActive)
	if was == is {
		return finding{rule: "9.2"}
	}
	if denied := j.requests.deniedFrom(w.nhc, w.at); denied != nil {
		w.known = j.windowOf(Change{}, denied, "", "").known // It may have begun, or ended, at any time since.
	}
	if is && j.conflicted(w) {
		return finding{rule: "9.2"}
	}
	versions := j.nhcs[w.nhc].during(w.known, w.rv)
	var counts NodeCounts
	countBy := func(nhc *NHC) *NodeCounts {
		counts = j.countsBy(nhc, w)
		return &counts
	}
	if is {
		begins := some(versions, func(nhc *NHC) bool { return nhc != nil && countBy(nhc).MayBegin(&nhc.Spec) })
		return check("9.2", !begins, "a storm begins, with %+v", counts)
	}
	ends := some(versions, func(spec *NHC) bool {
		return spec == nil || !Stormy(&spec.Spec) || (countBy(spec).Calm(&spec.Spec) && some(versions, func(status *NHC) bool {
			return status != nil && cooledDown(&spec.Spec, &status.Status, w.at)
		}))
	})
	return check("9.5", !ends, "a storm ends, with %+v", counts)
}

// conflicted reports whether the last write of a status met a conflict while status showed a storm. That storm goes
// on because it could not be written (spec 9.5), also if the change in between has removed it from status.
func (j *Judge) conflicted(w window) bool {
	for _, write := range slices.Backward(j.requests.statuses[w.nhc]) {
		if !write.Time.Before(w.at) {
			continue
		}
		then := j.windowOf(Change{}, write, "", "")
		return write.Code == http.StatusConflict && some(j.nhcs[w.nhc].during(then.known, w.rv), func(v *NHC) bool {
			return v != nil && meta.IsStatusConditionTrue(v.Status.Conditions, v1alpha1.ConditionStormActive)
		})
	}
	return false
}
