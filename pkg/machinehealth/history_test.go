// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// ledger keeps a history over syncs.
type ledger struct {
	policy   *Policy
	now      time.Time
	entries  Entries
	history  []v1beta1.Remediation
	machines map[string]*Machine
	healthy  map[string]bool
	noNode   map[string]bool
	known    map[string]bool // At the sync before.
	unsure   sets.Set[string]
	recheck  time.Time
}

func newLedger(changes ...func(*Policy)) *ledger {
	return &ledger{policy: policy(changes...), now: epoch.Add(10 * time.Minute), machines: map[string]*Machine{}, healthy: map[string]bool{}, noNode: map[string]bool{}}
}

// sync observes targets, with what became of their plans.
func (l *ledger) sync(results ...TargetResult) []v1beta1.Remediation {
	l.entries = l.policy.NewEntries(results, l.entries, l.now)
	h := History{
		Before: l.history, Results: results, Entries: l.entries, Machines: NewMachines(slices.Collect(maps.Values(l.machines))), Now: l.now,
		Known: func(name string) bool { return l.known[name] }, First: l.known == nil, Unsure: l.unsure, Healthy: func(name string) bool { return l.healthy[name] }, NodeExists: func(name string) bool { return !l.noNode[name] },
	}
	l.history, l.recheck = h.Update()
	for _, result := range results { // The next sync sees it.
		if m := result.Plan.Target.Machine; result.Outcome.Result == remediation.Requested && result.Plan.Type == v1beta1.RemediationMachineDeletion && !m.Deleting() {
			deleting := *m
			deleting.DeletionTimestamp = new(metav1.NewTime(l.now))
			l.machines[m.Name] = &deleting
		}
	}
	l.known = map[string]bool{}
	for name := range l.machines {
		l.known[name] = true
	}
	return l.history
}

// see observes one target, and keeps its Machine.
func (l *ledger) see(t Target, outcome remediation.Outcome) []v1beta1.Remediation {
	if !t.Gone {
		l.machines[t.Machine.Name] = t.Machine
	}
	return l.sync(result(l.policy, t, outcome, l.now))
}

func (l *ledger) after(d time.Duration) *ledger {
	l.now = l.now.Add(d)
	return l
}

// at returns the minute of a time, -1 for none.
func at(t *metav1.Time) int {
	if t == nil {
		return -1
	}
	return int(t.Sub(epoch) / time.Minute)
}

var accepted = remediation.Outcome{Result: remediation.Requested}

// entryTimes are started, fenced, finished and closed of an entry, in minutes.
func entryTimes(e v1beta1.Remediation) []int {
	return []int{at(e.Started), at(e.Fenced), at(e.Finished), at(e.Closed)}
}

// TestHistoryOfDeletion: from the request to the healthy replacement (spec M16.2).
func TestHistoryOfDeletion(t *testing.T) {
	t.Parallel()
	l := newLedger()
	row := l.see(target(machine("m")), accepted)[0]
	require.Equal(t, v1beta1.Remediation{
		TargetKind: "Node", TargetName: "m-node", Machine: "m", Node: "m-node", ConditionType: "Ready", ConditionStatus: "Unknown", Detected: metav1.NewTime(epoch),
		Started: new(metav1.NewTime(epoch.Add(10 * time.Minute))), RemediationType: "machineDeletion", Owner: "set-uid",
	}, row)
	require.Equal(t, epoch.Add(10*time.Minute+24*time.Hour), l.recheck, "P2: the sync wakes up to close it")
	row = l.after(time.Minute).see(target(machine("m", deletingMachine), verdict(Deleting)), remediation.Outcome{})[0]
	require.Equal(t, []int{10, -1, -1, -1}, entryTimes(row))
	delete(l.machines, "m")
	row = l.after(time.Minute).sync()[0]
	require.Equal(t, []int{10, 12, -1, -1}, entryTimes(row), "M16.2: fenced when the Machine object is gone")
	row = l.after(time.Minute).see(target(machine("new", createdAt(l.now)), verdict(NotStarted)), remediation.Outcome{})[0]
	require.Equal(t, "new", row.Replacement)
	require.Equal(t, []int{10, 12, -1, -1}, entryTimes(row))
	l.healthy["new"] = true
	row = l.after(time.Minute).see(target(machine("new", createdAt(l.now)), verdict(Healthy)), remediation.Outcome{})[0]
	require.Equal(t, []int{10, 12, 14, -1}, entryTimes(row), "M16.2: finished when the replacement is healthy")
	l.healthy["new"] = false
	require.Equal(t, row, l.after(48 * time.Hour).sync()[0], "it ends once")
	require.Zero(t, l.recheck, "P3")
}

// TestHistoryOfSlowDeletion: a drain may take longer than the replacement needs (spec M16.2).
func TestHistoryOfSlowDeletion(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.see(target(machine("m")), accepted)
	l.healthy["new"] = true
	row := l.after(time.Minute).see(target(machine("new", createdAt(l.now)), verdict(Healthy)), remediation.Outcome{})[0]
	require.Equal(t, []int{10, -1, 11, -1}, entryTimes(row))
	row = l.after(time.Minute).sync()[0]
	require.Equal(t, []int{10, -1, 11, -1}, entryTimes(row), "P3: the Machine is still there")
	delete(l.machines, "m")
	row = l.after(time.Minute).sync()[0]
	require.Equal(t, []int{10, 13, 11, -1}, entryTimes(row), "fenced when the Machine object is gone")
	require.Equal(t, row, l.after(time.Minute).sync()[0], "once")
}

// TestHistoryAnnouncesDeletions: the announcement before a deletion is enough for its history, also if the
// process dies before it reports the deletion. What is announced and not requested is no remediation (P8, spec M16.2).
func TestHistoryAnnouncesDeletions(t *testing.T) {
	t.Parallel()
	announced := func() *ledger {
		l := newLedger()
		l.see(target(machine("m")), accepted)
		l.known = nil
		return l.after(time.Minute)
	}
	l := announced()
	delete(l.machines, "m") // Another process finds it gone.
	row := l.sync()[0]
	require.Equal(t, []int{10, 11, -1, -1}, entryTimes(row), "started is when it was announced")
	l.machines["r"], l.healthy["r"] = machine("r", createdAt(epoch.Add(11*time.Minute))), true
	row = l.after(time.Minute).sync()[0]
	require.Equal(t, "r", row.Replacement)
	require.Equal(t, 12, at(row.Finished))

	l = announced()
	l.machines["m"] = machine("m")
	require.Empty(t, l.sync(), "it is there, and healthy")

	l = announced()
	row = l.see(target(machine("m")), remediation.Outcome{Result: remediation.Refused})[0]
	require.Equal(t, []int{-1, -1, -1, -1}, entryTimes(row))
	require.Empty(t, row.RemediationType)
	require.Empty(t, row.Owner)
}

// TestHistoryOfOtherTriggers: the target is the Machine where no condition was the trigger (spec M16.2).
func TestHistoryOfOtherTriggers(t *testing.T) {
	t.Parallel()
	for _, trigger := range []string{v1beta1.TriggerMachineFailed, v1beta1.TriggerNodeMissing, v1beta1.TriggerNodeStartupTimeout} {
		row := newLedger().see(target(machine("m"), because(trigger)), accepted)[0]
		require.Equal(t, []string{"Machine", "m", trigger, ""}, []string{row.TargetKind, row.TargetName, row.Reason, string(row.ConditionType)})
		require.Equal(t, 10, at(&row.Detected), "first seen")
	}
}

// TestHistoryCloses: without a healthy replacement (spec M16.2).
func TestHistoryCloses(t *testing.T) {
	t.Parallel()
	begun := func() *ledger {
		l := newLedger()
		l.see(target(machine("m")), accepted)
		delete(l.machines, "m")
		return l.after(time.Minute)
	}
	replaced := func() *ledger {
		l := begun()
		l.see(target(machine("new", createdAt(l.now)), verdict(NotStarted)), remediation.Outcome{})
		return l.after(time.Minute)
	}
	of := func(history []v1beta1.Remediation, machine string) v1beta1.Remediation {
		for _, row := range history {
			if row.Machine == machine {
				return row
			}
		}
		return v1beta1.Remediation{}
	}
	l := replaced()
	l.sync(result(l.policy, target(machine("new"), because(v1beta1.TriggerMachineFailed)), accepted, l.now))
	require.Equal(t, 12, at(of(l.history, "m").Closed), "the replacement is itself deleted")
	l = replaced()
	repaired := target(machine("new"), because(v1beta1.TriggerMachineFailed))
	repaired.Machine.Annotations = map[string]string{v1beta1.AnnotationExternalRemediation: ""}
	l.sync(result(l.policy, repaired, remediation.Outcome{}, l.now))
	require.Equal(t, v1beta1.RemediationExternal, of(l.history, "new").RemediationType)
	require.Nil(t, of(l.history, "m").Closed, "a repair in place may help the replacement: it is still to become Healthy (spec B3.2)")
	l = replaced()
	delete(l.machines, "new")
	require.Equal(t, 12, at(l.sync()[0].Closed), "it is gone")
	l = begun()
	l.now = epoch.Add(10*time.Minute + 24*time.Hour - time.Second)
	require.Nil(t, l.sync()[0].Closed)
	require.NotNil(t, l.after(time.Second).sync()[0].Closed, "after 24 h")
}

// TestHistoryOfExternalRemediation: of annotations and CRs (spec M16.2).
func TestHistoryOfExternalRemediation(t *testing.T) {
	t.Parallel()
	begun := func(changes ...func(*Policy)) *ledger {
		l := newLedger(append([]func(*Policy){annotates}, changes...)...)
		l.see(target(machine("m")), accepted)
		return l.after(time.Minute)
	}
	under := target(machine("m", firstKey, secondKey))
	l := begun()
	require.Equal(t, []int{10, -1, -1, -1}, entryTimes(l.see(under, remediation.Outcome{})[0]))
	require.Equal(t, v1beta1.RemediationExternal, l.history[0].RemediationType)
	l.noNode["m-node"] = true
	require.Equal(t, []int{10, 12, -1, -1}, entryTimes(l.after(time.Minute).see(under, remediation.Outcome{})[0]), "fenced: the Node is gone")
	l.noNode["m-node"] = false
	require.Equal(t, []int{10, 12, -1, -1}, entryTimes(l.after(time.Minute).see(target(machine("m", firstKey), verdict(UnderRemediation)), remediation.Outcome{})[0]), "not finished while the key is there")
	require.Equal(t, []int{10, 12, 14, -1}, entryTimes(l.after(time.Minute).see(target(machine("m"), verdict(Healthy)), remediation.Outcome{})[0]), "the target is healthy")

	l = begun()
	require.Equal(t, 11, at(l.see(target(machine("m", firstKey, annotated(v1beta1.AnnotationPoweredOff))), remediation.Outcome{})[0].Fenced), "fenced: powered off")
	l = newLedger(annotates)
	l.noNode["m-node"] = true
	l.see(target(machine("m"), because(v1beta1.TriggerNodeMissing)), accepted)
	require.Nil(t, l.after(time.Minute).see(target(machine("m", firstKey), because(v1beta1.TriggerNodeMissing)), remediation.Outcome{})[0].Fenced, "a Node that was gone before it started is no sign")

	l = begun()
	l.after(25*time.Hour).see(under, remediation.Outcome{})
	require.Len(t, l.after(time.Minute).see(under, remediation.Outcome{}), 1, "one that goes on for days is one entry")
	require.Nil(t, l.history[0].Closed)
	require.Zero(t, l.recheck)

	l = newLedger(byTemplate)
	l.see(target(machine("m")), remediation.Outcome{Result: remediation.Created, CR: cr("m")})
	fenced := cr("m", func(c *object.CR) { c.Fenced, c.FencedSince = true, epoch.Add(11*time.Minute) })
	require.Equal(t, 11, at(l.after(5*time.Minute).see(target(machine("m"), with(fenced)), remediation.Outcome{})[0].Fenced), "fenced: the CR says so")
	delete(l.machines, "m")
	require.Equal(t, 15, at(l.sync()[0].Closed), "the Machine is gone")

	l = begun()
	l.see(target(machine("m", firstKey, failedPhase), because(v1beta1.TriggerMachineFailed)), accepted)
	require.Len(t, l.history, 2, "M11.2: it has failed, and is deleted: that is another remediation")
	require.ElementsMatch(t, [][]int{{10, -1, -1, 11}, {11, -1, -1, -1}}, [][]int{entryTimes(l.history[0]), entryTimes(l.history[1])})
}

// TestHistoryAfterAStop: a request whose report was lost is found by its effects (spec P8).
func TestHistoryAfterAStop(t *testing.T) {
	t.Parallel()
	waiting := func() *ledger {
		l := newLedger(blocked)
		l.see(target(machine("m")), remediation.Outcome{})
		return l.after(time.Minute)
	}
	l := waiting()
	l.see(target(machine("m", firstKey)), remediation.Outcome{})
	require.Equal(t, 11, at(l.history[0].Started))
	l = waiting()
	l.see(target(machine("m"), with(cr("m", func(c *object.CR) { c.CreationTimestamp = metav1.NewTime(epoch.Add(9 * time.Minute)) }))), remediation.Outcome{})
	require.Equal(t, 9, at(l.history[0].Started))
	require.Equal(t, v1beta1.RemediationExternal, l.history[0].RemediationType)
}

// TestHistoryDropsWhatHasNotStarted: waiting is no remediation (spec M16.2).
func TestHistoryDropsWhatHasNotStarted(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]Target{
		"M16.2 recovered": target(machine("m"), verdict(Healthy)), "M16.2 soon-unhealthy": target(machine("m"), soon), "M16.2 no longer selected": target(machine("m"), unselected),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(blocked)
			require.Len(t, l.see(target(machine("m")), remediation.Outcome{}), 1)
			require.Nil(t, l.history[0].Started)
			require.Empty(t, l.after(time.Minute).see(end, remediation.Outcome{}))
		})
	}
	l := newLedger(blocked)
	l.see(target(machine("m")), remediation.Outcome{})
	require.Empty(t, l.after(time.Minute).sync(), "M16.2: the Machine is gone")
}

// TestDeletionIsRemembered: of ended remediations only the latest are remembered, but also each deletion whose Machine
// still exists. It must not count as another one.
func TestDeletionIsRemembered(t *testing.T) {
	t.Parallel()
	l := newLedger()
	row := func(name string, kind v1beta1.RemediationType, ended time.Duration) {
		at := metav1.NewTime(epoch.Add(ended))
		l.history = append(l.history, v1beta1.Remediation{TargetKind: "Machine", TargetName: name, Machine: name, RemediationType: kind, Detected: at, Started: &at, Closed: &at})
	}
	row("there", v1beta1.RemediationMachineDeletion, time.Second)
	row("gone", v1beta1.RemediationMachineDeletion, 2*time.Second)
	row("repaired", v1beta1.RemediationExternal, 3*time.Second)
	l.machines["there"], l.machines["repaired"] = machine("there"), machine("repaired")
	for i := range v1beta1.MaxClosedRemediations {
		row(fmt.Sprint("latest-", i), v1beta1.RemediationMachineDeletion, time.Minute)
	}
	l.sync()
	require.Len(t, l.history, v1beta1.MaxClosedRemediations+1)
	require.Equal(t, "there", l.history[v1beta1.MaxClosedRemediations].Machine)
}

// TestReplacements: the oldest entry comes first, and no Machine stands for two (spec M16.2).
func TestReplacements(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.see(target(machine("second")), accepted)
	l.after(time.Minute).see(target(machine("first")), accepted)
	l.see(target(machine("other", ownedBy("another-set"))), accepted)
	l.machines = map[string]*Machine{
		"early":  machine("early", createdAt(epoch.Add(9*time.Minute))),
		"new-b":  machine("new-b", createdAt(epoch.Add(13*time.Minute))),
		"new-a":  machine("new-a", createdAt(epoch.Add(12*time.Minute))),
		"orphan": machine("orphan", noOwner, createdAt(epoch.Add(12*time.Minute))),
	}
	l.after(time.Minute).sync()
	got := map[string]string{}
	for _, row := range l.history {
		got[row.Machine] = row.Replacement
	}
	require.Equal(t, map[string]string{"second": "new-a", "first": "new-b", "other": ""}, got)
}

// TestReplacementOfTheSameSecond: several Machines were created in the second of the request. Only one
// that did not exist before can be the replacement (spec M16.2).
func TestReplacementOfTheSameSecond(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.machines["there"] = machine("there", createdAt(l.now))
	l.sync()
	l.see(target(machine("m")), accepted)
	require.Empty(t, l.history[0].Replacement)
	l.machines["new"] = machine("new", createdAt(l.now))
	require.Equal(t, "new", l.sync()[0].Replacement)
}

// TestHistoryLimits: the history holds the 20 that ended last, and 50 open ones. Those that have started come
// first (spec M16.2).
func TestHistoryLimits(t *testing.T) {
	t.Parallel()
	row := func(name string, detected int, change func(*v1beta1.Remediation)) v1beta1.Remediation {
		r := v1beta1.Remediation{Machine: name, Detected: metav1.NewTime(epoch.Add(time.Duration(detected) * time.Minute))}
		change(&r)
		return r
	}
	var all []v1beta1.Remediation
	for i := range 30 {
		end := func(r *v1beta1.Remediation) { r.Finished = new(metav1.NewTime(epoch.Add(time.Hour))) }
		if i < 10 {
			end = func(r *v1beta1.Remediation) { r.Closed = new(metav1.NewTime(epoch.Add(2 * time.Hour))) } // Detected first, ended last.
		}
		all = append(all, row(fmt.Sprintf("ended-%02d", i), i, end))
	}
	all = append(all, row("running", 0, func(r *v1beta1.Remediation) { r.Started = new(metav1.NewTime(epoch)) }))
	for i := range 60 {
		all = append(all, row(fmt.Sprintf("waiting-%02d", i), 100+i, func(*v1beta1.Remediation) {}))
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	kept := Listed(all)
	names := map[string]bool{}
	for i := range kept {
		names[kept[i].Machine] = true
		require.False(t, i > 0 && kept[i-1].Detected.Before(&kept[i].Detected), "newest first")
	}
	require.Len(t, kept, 70)
	require.True(t, names["running"], "M16.2: waiting evicts no remediation")
	require.False(t, names["waiting-00"] || !names["waiting-59"], "the newest of those that wait")
	for i := range 10 {
		require.True(t, names[fmt.Sprintf("ended-%02d", i)], "those that ended last")
	}
	require.True(t, names["ended-29"])
	require.False(t, names["ended-19"])
}
