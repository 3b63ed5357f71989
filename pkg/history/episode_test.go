// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// rows are one sync of one node each.
type rows map[string]struct {
	before *v1alpha1.Episode
	saw    Observation
	now    time.Time
	// after are the open episodes, done the ended ones.
	after *v1alpha1.Episode
	done  []v1alpha1.Episode
}

func (tests rows) run(t *testing.T) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := ledger()
			if tc.before != nil {
				before = ledger(*tc.before.DeepCopy())
			}
			next, ended := before.Update(slices.Values([]Observation{tc.saw}), tc.now)
			if tc.before != nil {
				require.Equal(t, ledger(*tc.before), before, "arguments stay as they are")
			}
			require.Equal(t, tc.done, ended)
			got := next.Episode("node-1")
			require.Equal(t, tc.after, got)
		})
	}
}

func TestBeginning(t *testing.T) {
	t.Parallel()
	rows{
		"23b.1 since the condition":   {saw: unhealthy(), now: at(10), after: new(open())},
		"in whole seconds":            {saw: unhealthy(since(at(5).Add(999 * time.Millisecond))), now: at(7), after: new(open())},
		"never in the future":         {saw: unhealthy(since(at(6))), now: at(5).Add(900 * time.Millisecond), after: new(open())},
		"in the year 9999":            {saw: unhealthy(since(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))), now: at(5), after: new(open())},
		"in the year 1":               {saw: unhealthy(since(time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)), created(5)), now: at(6), after: new(open())},
		"before all years":            {saw: unhealthy(since(time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)), func(o *Observation) { o.Created = time.Time{} }), now: at(5), after: new(open())},
		"without a time":              {saw: unhealthy(since(time.Time{})), now: at(5), after: new(open())},
		"without a condition":         {saw: unhealthy(func(o *Observation) { o.Trigger = v1alpha1.Trigger{} }), now: at(5), after: new(open(func(e *v1alpha1.Episode) { e.Trigger = nil }))},
		"not before there was a Node": {saw: unhealthy(since(at(4)), created(5)), now: at(6), after: new(open())},
		"clock of the API ahead":      {saw: unhealthy(since(at(4)), created(5)), now: at(4.5), after: new(open())},
		"held: unselected":            {saw: unhealthy(unselected), now: at(5)},
		"healthy":                     {saw: healthy(), now: at(5)},
		"soon unhealthy":              {saw: unhealthy(soon), now: at(5)},
		"deleted":                     {saw: unhealthy(gone), now: at(5)},
		"deleted, verdict is ignored": {saw: unhealthy(func(o *Observation) { o.NodeDeleted = true }), now: at(5)},

		"with its CR": {saw: unhealthy(with(reboot(5))), now: at(5), after: new(open(startedAt(5), took(step("Reboot", 5))))},
		"status was lost: the CR proves more": {
			saw: unhealthy(with(reboot(3))), now: at(9),
			after: new(open(detectedAt(3), startedAt(3), took(step("Reboot", 3)))),
		},
		"unselected with a CR":                           {saw: unhealthy(unselected, with(reboot(6))), now: at(7), after: new(open(startedAt(6), took(step("Reboot", 6))))},
		"healthy with a CR: it has ended":                {saw: healthy(with(reboot(3))), now: at(9)},
		"soon unhealthy with a CR":                       {saw: unhealthy(soon, with(reboot(3))), now: at(9)},
		"deleted with a CR":                              {saw: unhealthy(gone, with(reboot(3))), now: at(9)},
		"CR of another of that name":                     {saw: unhealthy(created(4), with(reboot(3))), now: at(9), after: new(open())},
		"unselected with the CR of another of that name": {saw: unhealthy(unselected, created(4), with(reboot(3))), now: at(9)},
		"CR as old as the Node":                          {saw: unhealthy(created(6), with(reboot(6))), now: at(9), after: new(open(detectedAt(6), startedAt(6), took(step("Reboot", 6))))},
		"CR without creation time is none":               {saw: unhealthy(created(-1e6), with(v1alpha1.Remediation{})), now: at(5), after: new(open())},
		"CR without creation time, Node as well":         {saw: unhealthy(func(o *Observation) { o.Created = time.Time{} }, with(v1alpha1.Remediation{})), now: at(5), after: new(open())},
		"text that is too long is cut": {
			saw: unhealthy(func(o *Observation) { o.Trigger.Reason = strings.Repeat("ä", 1000) }), now: at(5),
			after: new(open(func(e *v1alpha1.Episode) { e.Trigger.Reason = strings.Repeat("ä", 158) })),
		},
	}.run(t)
}

func TestGoingOn(t *testing.T) {
	t.Parallel()
	remediated := open(startedAt(6), took(step("Reboot", 6)))
	healed := open(startedAt(6), took(step("Reboot", 6)), finishedAt(8))
	rows{
		"nothing new":                          {before: new(open()), saw: unhealthy(), now: at(9), after: new(open())},
		"another condition takes over":         {before: new(open()), saw: unhealthy(since(at(8)), func(o *Observation) { o.Trigger.Type = "Disk" }), now: at(9), after: new(open())},
		"another condition that came earlier":  {before: new(open()), saw: unhealthy(since(at(1))), now: at(9), after: new(open())},
		"soon unhealthy does not end it":       {before: new(open()), saw: unhealthy(soon), now: at(9), after: new(open())},
		"started":                              {before: new(open()), saw: unhealthy(with(reboot(6))), now: at(9), after: &remediated},
		"clock of the API behind":              {before: new(open()), saw: unhealthy(with(reboot(4))), now: at(9), after: new(open(startedAt(5), took(step("Reboot", 4))))},
		"23b.1 healthy, CR left":               {before: &remediated, saw: healthy(with(reboot(6))), now: at(9), after: new(open(startedAt(6), took(step("Reboot", 6)), finishedAt(9)))},
		"23b.1 it stays so":                    {before: &healed, saw: healthy(with(reboot(6))), now: at(9), after: &healed},
		"23b.1 status knows since when":        {before: &remediated, saw: healthy(with(reboot(6)), healthySince(8)), now: at(9), after: &healed},
		"23b.1 status knows better":            {before: &healed, saw: healthy(with(reboot(6)), healthySince(8.5)), now: at(9), after: new(open(startedAt(6), took(step("Reboot", 6)), finishedAt(8.5)))},
		"23b.1 healthy, not in the future":     {before: &remediated, saw: healthy(with(reboot(6)), healthySince(10)), now: at(9), after: new(open(startedAt(6), took(step("Reboot", 6)), finishedAt(9)))},
		"23b.1 healthy, not before the start":  {before: &remediated, saw: healthy(with(reboot(6)), healthySince(1)), now: at(9), after: new(open(startedAt(6), took(step("Reboot", 6)), finishedAt(6)))},
		"23b.1 unhealthy again":                {before: &healed, saw: unhealthy(with(reboot(6))), now: at(9), after: &remediated},
		"23b.1 soon unhealthy again":           {before: &healed, saw: unhealthy(soon, with(reboot(6))), now: at(9), after: &remediated},
		"23b.1 healthy, not selected, CR left": {before: &healed, saw: healthy(unselected, with(reboot(6))), now: at(9), after: &healed},
		"unselected, CR left":                  {before: &remediated, saw: unhealthy(unselected, with(reboot(6))), now: at(9), after: &remediated},
		"soon unhealthy, unselected, CR left":  {before: &remediated, saw: unhealthy(soon, unselected, with(reboot(6))), now: at(9), after: &remediated},
		"the start stays": {
			before: &remediated, saw: unhealthy(with(cr("Older", 5.5), reboot(6))), now: at(9),
			after: new(open(startedAt(6), took(step("Older", 5.5), step("Reboot", 6)))),
		},
	}.run(t)
}

func TestFencing(t *testing.T) {
	t.Parallel()
	remediated := open(startedAt(6), took(step("Reboot", 6)))
	known := open(startedAt(6), fencedAt(7), took(step("Reboot", 6)))
	rows{
		"says the CR":            {before: &remediated, saw: unhealthy(with(reboot(6)), fenced(at(7).Add(time.Millisecond))), now: at(9), after: &known},
		"with the CR":            {before: new(open()), saw: unhealthy(with(reboot(6)), fenced(at(7))), now: at(9), after: &known},
		"a later sign":           {before: &known, saw: unhealthy(with(reboot(6)), fenced(at(8))), now: at(9), after: &known},
		"an earlier sign":        {before: &known, saw: unhealthy(with(reboot(6)), fenced(at(6.5))), now: at(9), after: new(open(startedAt(6), fencedAt(6.5), took(step("Reboot", 6))))},
		"the sign has gone":      {before: &known, saw: unhealthy(with(reboot(6))), now: at(9), after: &known},
		"not before the start":   {before: &remediated, saw: unhealthy(with(reboot(6)), fenced(at(1))), now: at(9), after: new(open(startedAt(6), fencedAt(6), took(step("Reboot", 6))))},
		"not in the future":      {before: &remediated, saw: unhealthy(with(reboot(6)), fenced(at(10))), now: at(9), after: new(open(startedAt(6), fencedAt(9), took(step("Reboot", 6))))},
		"clock of the API ahead": {before: &remediated, saw: unhealthy(with(reboot(6)), fenced(at(7))), now: at(5.5), after: new(open(startedAt(6), fencedAt(6), took(step("Reboot", 6))))},
		"nothing was done":       {before: new(open()), saw: unhealthy(gone), now: at(9), done: []v1alpha1.Episode{open(endedAt(9, v1alpha1.OutcomeNodeDeleted))}},
		"of the CR of another of that name": {before: &remediated, saw: unhealthy(created(5.5), with(reboot(5.2), reboot(6)), says("Reboot", func(cr *CR) {
			if cr.Started.Time.Equal(at(5.2)) {
				cr.Fenced = at(7)
			}
		})), now: at(9), after: &remediated},
		"the Node is gone, CR left":            {before: &remediated, saw: unhealthy(gone, with(reboot(6))), now: at(9), after: new(open(startedAt(6), fencedAt(9), took(step("Reboot", 6))))},
		"the Node is gone, known":              {before: &known, saw: unhealthy(gone, with(reboot(6))), now: at(9), after: &known},
		"the Node is gone, CR says since when": {before: &remediated, saw: unhealthy(gone, with(reboot(6)), fenced(at(7))), now: at(9), after: &known},
		"another Node is there":                {before: &remediated, saw: unhealthy(created(8), with(reboot(6))), now: at(9), after: new(open(startedAt(6), fencedAt(8), took(step("Reboot", 6))))},
		"another Node, by a clock ahead":       {before: &remediated, saw: unhealthy(created(10), with(reboot(6))), now: at(9), after: new(open(startedAt(6), fencedAt(9), took(step("Reboot", 6))))},
		"23b.1 the CR said so before it went": {
			before: &remediated, saw: healthy(went(reboot(6), down(at(7)))), now: at(9),
			done: []v1alpha1.Episode{open(startedAt(6), fencedAt(7), took(ended(step("Reboot", 6), 9, v1alpha1.StepRecovered)), endedAt(9, v1alpha1.OutcomeRecovered))},
		},
		"another one said so before it went": {
			before: &remediated, saw: healthy(went(fencing(6), down(at(7)))), now: at(9),
			done: []v1alpha1.Episode{open(startedAt(6), took(ended(step("Reboot", 6), 9, v1alpha1.StepRecovered)), endedAt(9, v1alpha1.OutcomeRecovered))},
		},
	}.run(t)
}

func TestEnd(t *testing.T) {
	t.Parallel()
	remediated := open(startedAt(6), took(step("Reboot", 6)))
	healed := open(startedAt(6), took(step("Reboot", 6)), finishedAt(7))
	vanished := open(startedAt(6), took(ended(step("Reboot", 6), 8, v1alpha1.StepVanished)))
	recovered := took(ended(step("Reboot", 6), 9, v1alpha1.StepRecovered))
	rows{
		"recovered":                            {before: &remediated, saw: healthy(), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), recovered, endedAt(9, v1alpha1.OutcomeRecovered))}},
		"23b.1 healthy before, released now":   {before: &healed, saw: healthy(), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), recovered, endedAt(7, v1alpha1.OutcomeRecovered), releasedAt(9))}},
		"23b.1 healthy before, as status says": {before: &remediated, saw: healthy(healthySince(8)), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), recovered, endedAt(8, v1alpha1.OutcomeRecovered), releasedAt(9))}},
		"recovered without remediation":        {before: new(open()), saw: healthy(), now: at(9), done: []v1alpha1.Episode{open(endedAt(9, v1alpha1.OutcomeRecoveredWithoutRemediation))}},
		"recovered, no longer selected":        {before: new(open()), saw: healthy(unselected), now: at(9), done: []v1alpha1.Episode{open(endedAt(9, v1alpha1.OutcomeRecoveredWithoutRemediation))}},
		"recovered after it vanished":          {before: &vanished, saw: healthy(), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), took(vanished.Steps...), endedAt(9, v1alpha1.OutcomeRecovered))}},
		"the Node is gone":                     {before: new(open()), saw: unhealthy(gone), now: at(9), done: []v1alpha1.Episode{open(endedAt(9, v1alpha1.OutcomeNodeDeleted))}},
		"the Node is gone, and before that its CR": {
			before: &vanished, saw: unhealthy(gone), now: at(9),
			done: []v1alpha1.Episode{open(startedAt(6), fencedAt(9), took(vanished.Steps...), endedAt(9, v1alpha1.OutcomeNodeDeleted))},
		},
		"no longer selected":          {before: new(open()), saw: unhealthy(unselected), now: at(9), done: []v1alpha1.Episode{open(endedAt(9, v1alpha1.OutcomeCancelled))}},
		"no longer selected, soon":    {before: new(open()), saw: unhealthy(soon, unselected), now: at(9), done: []v1alpha1.Episode{open(endedAt(9, v1alpha1.OutcomeCancelled))}},
		"no longer selected, CR gone": {before: &healed, saw: unhealthy(unselected), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), took(ended(step("Reboot", 6), 9, v1alpha1.StepVanished)), endedAt(9, v1alpha1.OutcomeCancelled))}},
		"not observed":                {before: new(open()), saw: healthy(named("node-2")), now: at(9), done: []v1alpha1.Episode{open(endedAt(9, v1alpha1.OutcomeCancelled))}},
		"not observed, CR":            {before: &remediated, saw: healthy(named("")), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), took(ended(step("Reboot", 6), 9, v1alpha1.StepVanished)), endedAt(9, v1alpha1.OutcomeCancelled))}},
		"in whole seconds":            {before: new(open()), saw: healthy(), now: at(9).Add(999 * time.Millisecond), done: []v1alpha1.Episode{open(endedAt(9, v1alpha1.OutcomeRecoveredWithoutRemediation))}},
		"not before it was detected":  {before: new(open()), saw: healthy(), now: at(4), done: []v1alpha1.Episode{open(endedAt(5, v1alpha1.OutcomeRecoveredWithoutRemediation))}},
		"not before the start":        {before: &vanished, saw: healthy(), now: at(5.5), done: []v1alpha1.Episode{open(startedAt(6), took(vanished.Steps...), endedAt(6, v1alpha1.OutcomeRecovered))}},
		"fenced after it was healthy": {
			before: &healed, saw: healthy(healthySince(7), went(reboot(6), down(at(8)))), now: at(9),
			done: []v1alpha1.Episode{open(startedAt(6), fencedAt(8), recovered, endedAt(7, v1alpha1.OutcomeRecovered), releasedAt(9))},
		},
		"leftover of another of that name does not keep it open": {before: new(open(detectedAt(5))), saw: healthy(created(4), with(reboot(3))), now: at(9), done: []v1alpha1.Episode{open(endedAt(9, v1alpha1.OutcomeRecoveredWithoutRemediation))}},
	}.run(t)
}

// TestDryRun: what would have begun is dated, and no more (spec 5.8).
func TestDryRun(t *testing.T) {
	t.Parallel()
	dry := open(startedAt(6))
	rows{
		"5.8 it would begin":           {before: new(open()), saw: unhealthy(wouldBegin), now: at(6), after: &dry},
		"5.8 it would still":           {before: &dry, saw: unhealthy(wouldBegin), now: at(7), after: &dry},
		"5.8 something is in the way":  {before: &dry, saw: unhealthy(), now: at(7), after: &dry},
		"5.8 it has recovered":         {before: &dry, saw: healthy(), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), endedAt(9, v1alpha1.OutcomeDryRun), notReleased)}},
		"5.8 the Node is gone":         {before: &dry, saw: unhealthy(gone), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), endedAt(9, v1alpha1.OutcomeNodeDeleted), notReleased)}},
		"5.8 no longer selected":       {before: &dry, saw: unhealthy(unselected), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), endedAt(9, v1alpha1.OutcomeCancelled), notReleased)}},
		"5.8 enforced: the true start": {before: &dry, saw: unhealthy(with(reboot(8))), now: at(8), after: new(open(startedAt(8), took(step("Reboot", 8))))},
		"5.8 it ran before":            {before: new(open(startedAt(6), took(step("Reboot", 6)))), saw: unhealthy(wouldBegin, with(reboot(6))), now: at(8), after: new(open(startedAt(6), took(step("Reboot", 6))))},
	}.run(t)
}

// notReleased: nothing was held.
func notReleased(e *v1alpha1.Episode) { e.Released = nil }

// TestNamesakes: a Node that nothing connects to the one before.
func TestNamesakes(t *testing.T) {
	t.Parallel()
	deleted := open(endedAt(9, v1alpha1.OutcomeNodeDeleted))
	vanished := open(startedAt(6), took(ended(step("Reboot", 6), 7, v1alpha1.StepVanished)))
	rows{
		"healthy":                              {before: new(open()), saw: healthy(created(8)), now: at(9), done: []v1alpha1.Episode{deleted}},
		"soon unhealthy":                       {before: new(open()), saw: unhealthy(soon, created(8)), now: at(9), done: []v1alpha1.Episode{deleted}},
		"unhealthy again":                      {before: new(open()), saw: unhealthy(created(8), since(at(8.5))), now: at(9), after: new(open(detectedAt(8.5))), done: []v1alpha1.Episode{deleted}},
		"unhealthy, with its own":              {before: new(open()), saw: unhealthy(created(8), since(at(8)), with(reboot(8.5))), now: at(9), after: new(open(detectedAt(8), startedAt(8.5), took(step("Reboot", 8.5)))), done: []v1alpha1.Episode{deleted}},
		"created as it was detected: the same": {before: new(open()), saw: unhealthy(created(5)), now: at(9), after: new(open())},
		"part of a second later":               {before: new(open()), saw: unhealthy(func(o *Observation) { o.Created = at(5).Add(time.Millisecond) }), now: at(9), after: new(open())},
		"unknown when it was created":          {before: new(open()), saw: unhealthy(func(o *Observation) { o.Created = time.Time{} }), now: at(9), after: new(open())},
		"its CR had gone before": {
			before: &vanished, saw: healthy(created(8)), now: at(9),
			done: []v1alpha1.Episode{open(startedAt(6), took(vanished.Steps...), endedAt(9, v1alpha1.OutcomeNodeDeleted))},
		},
	}.run(t)
}

// TestNodeDeletedUnderRemediation: such a Node is fenced, not finished (spec 23b.2).
func TestNodeDeletedUnderRemediation(t *testing.T) {
	t.Parallel()
	remediated := open(startedAt(6), took(step("Reboot", 6)))
	timedOutStep := ended(step("Reboot", 6), 7, v1alpha1.StepTimedOut)
	lost := ended(step("Reboot", 6), 8, v1alpha1.StepNodeDeleted)
	left := open(startedAt(6), fencedAt(8), took(step("Reboot", 6)))
	outcome := func(end float64, outcome v1alpha1.EpisodeOutcome, steps ...v1alpha1.EpisodeStep) []v1alpha1.Episode {
		return []v1alpha1.Episode{open(startedAt(6), fencedAt(8), took(steps...), endedAt(end, outcome))}
	}
	nodeDeleted := outcome(8, v1alpha1.OutcomeNodeDeleted, lost)
	later := ended(step("Reboot", 6), 9, v1alpha1.StepNodeDeleted)
	succeeded := went(reboot(6), down(at(7)), replacedNode)
	rows{
		"its CR went with it":        {before: &remediated, saw: unhealthy(gone), now: at(8), done: nodeDeleted},
		"its CR is still there":      {before: &remediated, saw: unhealthy(gone, with(reboot(6))), now: at(8), after: &left},
		"it had been healthy":        {before: new(open(startedAt(6), took(step("Reboot", 6)), finishedAt(7))), saw: unhealthy(gone), now: at(8), done: nodeDeleted},
		"its step is over":           {before: new(open(startedAt(6), took(timedOutStep))), saw: unhealthy(gone, went(reboot(6))), now: at(8), done: outcome(8, v1alpha1.OutcomeNodeDeleted, timedOutStep)},
		"still gone":                 {before: &left, saw: unhealthy(gone, with(reboot(6))), now: at(9), after: &left},
		"still gone, its CR as well": {before: &left, saw: unhealthy(gone), now: at(9), done: outcome(9, v1alpha1.OutcomeNodeDeleted, later)},
		"back with its CR":           {before: &left, saw: unhealthy(soon, unselected, created(8.5), with(reboot(6))), now: at(9), after: &left},
		"back and healthy":           {before: &left, saw: healthy(unselected, created(8.5), with(reboot(6))), now: at(9), after: new(open(startedAt(6), fencedAt(8), took(step("Reboot", 6)), finishedAt(9)))},
		"back without its CR":        {before: &left, saw: unhealthy(soon, created(8)), now: at(9), done: outcome(9, v1alpha1.OutcomeNodeDeleted, later)},
		"back, its labels are not":   {before: &left, saw: unhealthy(unselected, created(8)), now: at(9), done: outcome(9, v1alpha1.OutcomeNodeDeleted, later)},
		"replaced unseen, CR gone":   {before: &remediated, saw: healthy(created(8)), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), took(later), endedAt(9, v1alpha1.OutcomeNodeDeleted))}},
		"replaced unseen, CR left":   {before: &remediated, saw: unhealthy(created(8), with(reboot(6))), now: at(9), after: &left},
		"replaced unseen, another CR": {
			before: &remediated, saw: unhealthy(created(8), since(at(8)), with(fencing(8.5))), now: at(9),
			after: new(open(detectedAt(8), startedAt(8.5), took(step("Fence", 8.5)))), done: []v1alpha1.Episode{open(startedAt(6), took(later), endedAt(9, v1alpha1.OutcomeNodeDeleted))},
		},
		"recovered, and its CR goes at last": {
			before: new(open(startedAt(6), fencedAt(8), took(step("Reboot", 6)), finishedAt(9))), saw: healthy(went(reboot(6))), now: at(10),
			done: []v1alpha1.Episode{open(startedAt(6), fencedAt(8), took(ended(step("Reboot", 6), 10, v1alpha1.StepRecovered)), endedAt(9, v1alpha1.OutcomeRecovered), releasedAt(10))},
		},
		"23b.2 replaced for good": {
			before: &remediated, saw: unhealthy(gone, succeeded), now: at(8),
			done: []v1alpha1.Episode{open(startedAt(6), fencedAt(7), took(lost), endedAt(8, v1alpha1.OutcomeReplaced))},
		},
		"23b.2 replaced for good, another CR is left": {
			before: new(open(startedAt(6), took(step("Reboot", 6), step("Fence", 7)))), saw: unhealthy(gone, succeeded, with(fencing(7))), now: at(8),
			after: new(open(startedAt(6), fencedAt(7), took(lost, step("Fence", 7)))),
		},
		"23b.2 the Node is still there": {
			before: &remediated, saw: unhealthy(succeeded), now: at(8),
			after: new(open(startedAt(6), fencedAt(7), took(ended(step("Reboot", 6), 8, v1alpha1.StepVanished)))),
		},
		"23b.2 success shows after the deletion": {
			before: &left, saw: unhealthy(gone, succeeded), now: at(9),
			done: []v1alpha1.Episode{open(startedAt(6), fencedAt(7), took(later), endedAt(9, v1alpha1.OutcomeReplaced))},
		},
	}.run(t)
}
