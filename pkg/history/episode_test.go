// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// rows are one round of one node each.
type rows map[string]struct {
	before *v1alpha1.Episode
	saw    Observation
	now    time.Time
	// after is what is open, done what has ended.
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
			next, ended := before.Update([]Observation{tc.saw}, tc.now)
			if tc.before != nil {
				require.Equal(t, ledger(*tc.before), before, "arguments stay as they are")
			}
			require.Equal(t, tc.done, ended)
			got, open := next.Episode("node-1")
			require.Equal(t, tc.after != nil, open, "%+v", got)
			if open {
				require.Equal(t, *tc.after, got)
			}
		})
	}
}

func TestBeginning(t *testing.T) {
	t.Parallel()
	rows{
		"unhealthy":                   {saw: unhealthy(), now: at(5), after: new(open())},
		"unhealthy for a while":       {saw: unhealthy(), now: at(7), after: new(open())},
		"in whole seconds":            {saw: unhealthy(deadline(at(5).Add(999 * time.Millisecond))), now: at(7), after: new(open())},
		"never in the future":         {saw: unhealthy(deadline(at(6))), now: at(5).Add(900 * time.Millisecond), after: new(open())},
		"without a deadline":          {saw: unhealthy(deadline(time.Time{})), now: at(5), after: new(open())},
		"without a condition":         {saw: unhealthy(func(o *Observation) { o.Trigger = nil }), now: at(5), after: new(open(func(e *v1alpha1.Episode) { e.Trigger = nil }))},
		"not before there was a Node": {saw: unhealthy(deadline(at(4)), created(5)), now: at(6), after: new(open())},
		"clock of the API ahead":      {saw: unhealthy(deadline(at(4)), created(5)), now: at(4.5), after: new(open())},
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
		"unselected with a CR":                   {saw: unhealthy(unselected, with(reboot(6))), now: at(7), after: new(open(startedAt(6), took(step("Reboot", 6))))},
		"healthy with a CR: it has ended":        {saw: healthy(with(reboot(3))), now: at(9)},
		"soon unhealthy with a CR":               {saw: unhealthy(soon, with(reboot(3))), now: at(9)},
		"deleted with a CR":                      {saw: unhealthy(gone, with(reboot(3))), now: at(9)},
		"CR of a namesake":                       {saw: unhealthy(created(4), with(reboot(3))), now: at(9), after: new(open())},
		"unselected with the CR of a namesake":   {saw: unhealthy(unselected, created(4), with(reboot(3))), now: at(9)},
		"CR as old as the Node":                  {saw: unhealthy(created(6), with(reboot(6))), now: at(9), after: new(open(detectedAt(6), startedAt(6), took(step("Reboot", 6))))},
		"CR without creation time is none":       {saw: unhealthy(created(-1e6), with(v1alpha1.Remediation{})), now: at(5), after: new(open())},
		"CR without creation time, Node as well": {saw: unhealthy(func(o *Observation) { o.Created = time.Time{} }, with(v1alpha1.Remediation{})), now: at(5), after: new(open())},
		"text that is too long is cut": {
			saw: unhealthy(func(o *Observation) { o.Trigger.Reason = strings.Repeat("ä", 1000) }), now: at(5),
			after: new(open(func(e *v1alpha1.Episode) { e.Trigger.Reason = strings.Repeat("ä", 158) })),
		},
	}.run(t)
}

func TestGoingOn(t *testing.T) {
	t.Parallel()
	remediated := open(startedAt(6), took(step("Reboot", 6)))
	rows{
		"nothing new":                                {before: new(open()), saw: unhealthy(), now: at(9), after: new(open())},
		"another condition takes over":               {before: new(open()), saw: unhealthy(deadline(at(8)), func(o *Observation) { o.Trigger.Type = "Disk" }), now: at(9), after: new(open())},
		"another condition with an earlier deadline": {before: new(open()), saw: unhealthy(deadline(at(1))), now: at(9), after: new(open())},
		"soon unhealthy does not end it":             {before: new(open()), saw: unhealthy(soon), now: at(9), after: new(open())},
		"started":                                    {before: new(open()), saw: unhealthy(with(reboot(6))), now: at(9), after: &remediated},
		"clock of the API behind":                    {before: new(open()), saw: unhealthy(with(reboot(4))), now: at(9), after: new(open(startedAt(5), took(step("Reboot", 4))))},
		"healthy, CR left":                           {before: &remediated, saw: healthy(with(reboot(6))), now: at(9), after: &remediated},
		"unselected, CR left":                        {before: &remediated, saw: unhealthy(unselected, with(reboot(6))), now: at(9), after: &remediated},
		"soon unhealthy, unselected, CR left":        {before: &remediated, saw: unhealthy(soon, unselected, with(reboot(6))), now: at(9), after: &remediated},
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
		"says the CR":                          {before: &remediated, saw: unhealthy(with(reboot(6)), fenced(at(7).Add(time.Millisecond))), now: at(9), after: &known},
		"with the CR":                          {before: new(open()), saw: unhealthy(with(reboot(6)), fenced(at(7))), now: at(9), after: &known},
		"a later sign":                         {before: &known, saw: unhealthy(with(reboot(6)), fenced(at(8))), now: at(9), after: &known},
		"an earlier sign":                      {before: &known, saw: unhealthy(with(reboot(6)), fenced(at(6.5))), now: at(9), after: new(open(startedAt(6), fencedAt(6.5), took(step("Reboot", 6))))},
		"the sign has gone":                    {before: &known, saw: unhealthy(with(reboot(6))), now: at(9), after: &known},
		"not before the start":                 {before: &remediated, saw: unhealthy(with(reboot(6)), fenced(at(1))), now: at(9), after: new(open(startedAt(6), fencedAt(6), took(step("Reboot", 6))))},
		"not in the future":                    {before: &remediated, saw: unhealthy(with(reboot(6)), fenced(at(10))), now: at(9), after: new(open(startedAt(6), fencedAt(9), took(step("Reboot", 6))))},
		"clock of the API ahead":               {before: &remediated, saw: unhealthy(with(reboot(6)), fenced(at(7))), now: at(5.5), after: new(open(startedAt(6), fencedAt(6), took(step("Reboot", 6))))},
		"nothing was done":                     {before: new(open()), saw: unhealthy(fenced(at(7))), now: at(9), after: new(open())},
		"the Node is gone, CR left":            {before: &remediated, saw: unhealthy(gone, with(reboot(6))), now: at(9), after: new(open(startedAt(6), fencedAt(9), took(step("Reboot", 6))))},
		"the Node is gone, known":              {before: &known, saw: unhealthy(gone, with(reboot(6))), now: at(9), after: &known},
		"the Node is gone, CR says since when": {before: &remediated, saw: unhealthy(gone, with(reboot(6)), fenced(at(7))), now: at(9), after: &known},
		"the CR says so as it goes": {
			before: &remediated, saw: healthy(fenced(at(7))), now: at(9),
			done: []v1alpha1.Episode{open(startedAt(6), fencedAt(7), took(ended(step("Reboot", 6), 9, v1alpha1.StepRecovered)), finishedAt(9, v1alpha1.OutcomeRecovered))},
		},
	}.run(t)
}

func TestEnd(t *testing.T) {
	t.Parallel()
	remediated := open(startedAt(6), took(step("Reboot", 6)))
	vanished := open(startedAt(6), took(ended(step("Reboot", 6), 8, v1alpha1.StepVanished)))
	rows{
		"recovered":                     {before: &remediated, saw: healthy(), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), took(ended(step("Reboot", 6), 9, v1alpha1.StepRecovered)), finishedAt(9, v1alpha1.OutcomeRecovered))}},
		"recovered without remediation": {before: new(open()), saw: healthy(), now: at(9), done: []v1alpha1.Episode{open(finishedAt(9, v1alpha1.OutcomeRecoveredWithoutRemediation))}},
		"recovered, no longer selected": {before: new(open()), saw: healthy(unselected), now: at(9), done: []v1alpha1.Episode{open(finishedAt(9, v1alpha1.OutcomeRecoveredWithoutRemediation))}},
		"recovered after it vanished":   {before: &vanished, saw: healthy(), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), took(vanished.Steps...), finishedAt(9, v1alpha1.OutcomeRecovered))}},
		"the Node is gone":              {before: new(open()), saw: unhealthy(gone), now: at(9), done: []v1alpha1.Episode{open(finishedAt(9, v1alpha1.OutcomeNodeDeleted))}},
		"the Node is gone, and its CR":  {before: &remediated, saw: unhealthy(gone), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), fencedAt(9), took(ended(step("Reboot", 6), 9, v1alpha1.StepNodeDeleted)), finishedAt(9, v1alpha1.OutcomeNodeDeleted))}},
		"no longer selected":            {before: new(open()), saw: unhealthy(unselected), now: at(9), done: []v1alpha1.Episode{open(finishedAt(9, v1alpha1.OutcomeCancelled))}},
		"no longer selected, soon":      {before: new(open()), saw: unhealthy(soon, unselected), now: at(9), done: []v1alpha1.Episode{open(finishedAt(9, v1alpha1.OutcomeCancelled))}},
		"no longer selected, CR gone":   {before: &remediated, saw: unhealthy(unselected), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), took(ended(step("Reboot", 6), 9, v1alpha1.StepVanished)), finishedAt(9, v1alpha1.OutcomeCancelled))}},
		"not observed":                  {before: new(open()), saw: healthy(named("node-2")), now: at(9), done: []v1alpha1.Episode{open(finishedAt(9, v1alpha1.OutcomeCancelled))}},
		"not observed, CR":              {before: &remediated, saw: healthy(named("")), now: at(9), done: []v1alpha1.Episode{open(startedAt(6), took(ended(step("Reboot", 6), 9, v1alpha1.StepVanished)), finishedAt(9, v1alpha1.OutcomeCancelled))}},
		"in whole seconds":              {before: new(open()), saw: healthy(), now: at(9).Add(999 * time.Millisecond), done: []v1alpha1.Episode{open(finishedAt(9, v1alpha1.OutcomeRecoveredWithoutRemediation))}},
		"not before it was detected":    {before: new(open()), saw: healthy(), now: at(4), done: []v1alpha1.Episode{open(finishedAt(5, v1alpha1.OutcomeRecoveredWithoutRemediation))}},
		"not before the start":          {before: &vanished, saw: healthy(), now: at(5.5), done: []v1alpha1.Episode{open(startedAt(6), took(vanished.Steps...), finishedAt(6, v1alpha1.OutcomeRecovered))}},
		"not before the fencing": {
			before: new(open(startedAt(6), fencedAt(7), took(vanished.Steps...))), saw: healthy(), now: at(6.5),
			done: []v1alpha1.Episode{open(startedAt(6), fencedAt(7), took(vanished.Steps...), finishedAt(7, v1alpha1.OutcomeRecovered))},
		},
		"leftover of a namesake does not keep it open": {before: new(open(detectedAt(5))), saw: healthy(created(4), with(reboot(3))), now: at(9), done: []v1alpha1.Episode{open(finishedAt(9, v1alpha1.OutcomeRecoveredWithoutRemediation))}},
	}.run(t)
}

func TestNamesakes(t *testing.T) {
	t.Parallel()
	remediated := open(startedAt(6), took(step("Reboot", 6)))
	deleted := open(finishedAt(9, v1alpha1.OutcomeNodeDeleted))
	remediatedAndDeleted := open(startedAt(6), fencedAt(9), took(ended(step("Reboot", 6), 9, v1alpha1.StepNodeDeleted)), finishedAt(9, v1alpha1.OutcomeNodeDeleted))
	rows{
		"healthy":                              {before: new(open()), saw: healthy(created(8)), now: at(9), done: []v1alpha1.Episode{deleted}},
		"soon unhealthy":                       {before: new(open()), saw: unhealthy(soon, created(8)), now: at(9), done: []v1alpha1.Episode{deleted}},
		"unhealthy again":                      {before: new(open()), saw: unhealthy(created(8), deadline(at(8.5))), now: at(9), after: new(open(detectedAt(8.5))), done: []v1alpha1.Episode{deleted}},
		"unhealthy, with its own":              {before: new(open()), saw: unhealthy(created(8), deadline(at(8)), with(reboot(8.5))), now: at(9), after: new(open(detectedAt(8), startedAt(8.5), took(step("Reboot", 8.5)))), done: []v1alpha1.Episode{deleted}},
		"created as it was detected: the same": {before: new(open()), saw: unhealthy(created(5)), now: at(9), after: new(open())},
		"part of a second later":               {before: new(open()), saw: unhealthy(func(o *Observation) { o.Created = at(5).Add(time.Millisecond) }), now: at(9), after: new(open())},
		"its CR goes":                          {before: &remediated, saw: healthy(created(8)), now: at(9), done: []v1alpha1.Episode{remediatedAndDeleted}},
		"its CR goes, a sign of another":       {before: &remediated, saw: healthy(created(8), fenced(at(7))), now: at(9), done: []v1alpha1.Episode{remediatedAndDeleted}},
		"its CR stays":                         {before: &remediated, saw: unhealthy(created(8), with(reboot(6))), now: at(9), after: &remediated},
		"its CR stays, healthy":                {before: &remediated, saw: healthy(created(8), with(reboot(6))), now: at(9), after: &remediated},
		"its CR stays, the step is over": {
			before: new(open(startedAt(6), took(ended(step("Reboot", 6), 7, v1alpha1.StepTimedOut)))), saw: unhealthy(created(8), with(timedOut(7, reboot(6)))), now: at(9),
			after: new(open(startedAt(6), took(ended(step("Reboot", 6), 7, v1alpha1.StepTimedOut)))),
		},
		"another CR": {
			before: &remediated, saw: unhealthy(created(8), deadline(at(8)), with(fencing(8.5))), now: at(9),
			after: new(open(detectedAt(8), startedAt(8.5), took(step("Fence", 8.5)))), done: []v1alpha1.Episode{remediatedAndDeleted},
		},
		"unknown when it was created": {before: new(open()), saw: unhealthy(func(o *Observation) { o.Created = time.Time{} }), now: at(9), after: new(open())},
	}.run(t)
}
