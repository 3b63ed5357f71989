// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func threshold(n int) StormRules { return StormRules{Threshold: &n} }

func cooldown(d time.Duration) StormRules { return StormRules{Cooldown: &d} }

func both(n int, d time.Duration) StormRules { return StormRules{Threshold: &n, Cooldown: &d} }

// ofTwenty is the input of 20 nodes. At least 11 have to be healthy.
func ofTwenty(healthy, unhealthy, remediated int) StormInput {
	gate := EvaluateGate(new(intstr.FromInt32(11)), nil, 20, healthy)
	return StormInput{Gate: gate, Unhealthy: unhealthy, Remediated: remediated}
}

func TestStorm(t *testing.T) {
	t.Parallel()
	none := Storm{}
	stormy := Storm{Active: true, Since: after(-100)}
	calming := Storm{Active: true, Since: after(-100), CalmSince: after(-30)}
	begun := Storm{Active: true, Since: noon}
	tests := map[string]struct {
		before Storm
		rules  StormRules
		input  StormInput
		now    time.Time
		want   Storm
	}{
		"9.1 not configured":                         {rules: StormRules{}, input: ofTwenty(5, 15, 0), want: none},
		"9.10 no longer configured":                  {before: calming, rules: StormRules{}, input: ofTwenty(5, 15, 0), want: none},
		"9.2 gate closed":                            {rules: threshold(5), input: ofTwenty(10, 10, 0), want: begun},
		"9.2 gate closed by nodes soon unhealthy":    {rules: threshold(5), input: ofTwenty(10, 0, 0), want: none},
		"9.2 gate closed, at the threshold":          {rules: threshold(10), input: ofTwenty(10, 10, 0), want: none},
		"9.2 the maximum is reached":                 {rules: threshold(5), input: ofTwenty(11, 9, 9), want: begun},
		"9.2 one below the maximum":                  {rules: threshold(5), input: ofTwenty(11, 9, 8), want: none},
		"9.2 the maximum, below the threshold":       {rules: threshold(9), input: ofTwenty(11, 9, 9), want: none},
		"9.2 no remediation where none is possible":  {rules: threshold(0), input: StormInput{Gate: EvaluateGate(new(intstr.FromString("100%")), nil, 5, 5), Unhealthy: 0}, want: none},
		"9.2 R > 0 is needed":                        {rules: threshold(0), input: StormInput{Gate: Gate{Open: true, Observed: 5, Healthy: 4, Required: 5}, Unhealthy: 1}, want: none},
		"9.2 all may be unhealthy":                   {rules: threshold(1), input: StormInput{Gate: EvaluateGate(nil, new(intstr.FromInt32(50)), 3, 0), Unhealthy: 3, Remediated: 3}, want: begun},
		"9.2 threshold zero":                         {rules: threshold(0), input: ofTwenty(11, 1, 9), want: begun},
		"9.2 in whole seconds":                       {rules: threshold(5), input: ofTwenty(10, 10, 0), now: noon.Add(999 * time.Millisecond), want: begun},
		"9.3 gate closed":                            {rules: cooldown(time.Minute), input: ofTwenty(10, 1, 0), want: begun},
		"9.3 gate closed by nodes soon unhealthy":    {rules: cooldown(time.Minute), input: ofTwenty(10, 0, 0), want: none},
		"9.3 the maximum is no storm":                {rules: cooldown(time.Minute), input: ofTwenty(11, 9, 9), want: none},
		"9.3 calm with an open gate":                 {before: stormy, rules: cooldown(time.Minute), input: ofTwenty(11, 9, 9), want: Storm{Active: true, Since: after(-100), CalmSince: noon}},
		"9.4 begins by the gate":                     {rules: both(15, time.Minute), input: ofTwenty(10, 10, 0), want: begun},
		"9.4 begins by the maximum":                  {rules: both(5, time.Minute), input: ofTwenty(11, 9, 9), want: begun},
		"9.4 the maximum, at the threshold":          {rules: both(9, time.Minute), input: ofTwenty(11, 9, 9), want: none},
		"9.4 calm by the gate only":                  {before: stormy, rules: both(5, time.Minute), input: ofTwenty(11, 9, 9), want: stormy},
		"9.4 calm by the threshold only":             {before: stormy, rules: both(15, time.Minute), input: ofTwenty(10, 10, 0), want: stormy},
		"9.4 calm by both":                           {before: stormy, rules: both(5, time.Minute), input: ofTwenty(15, 5, 5), want: Storm{Active: true, Since: after(-100), CalmSince: noon}},
		"9.5 goes on above the threshold":            {before: stormy, rules: threshold(5), input: ofTwenty(14, 6, 6), want: stormy},
		"9.5 ends as soon as it is calm":             {before: stormy, rules: threshold(5), input: ofTwenty(15, 5, 5), want: none},
		"9.5 calm with a closed gate":                {before: stormy, rules: threshold(10), input: ofTwenty(10, 10, 0), want: none},
		"9.5 the cooldown starts in whole seconds":   {before: stormy, rules: cooldown(time.Minute), input: ofTwenty(20, 0, 0), now: noon.Add(999 * time.Millisecond), want: Storm{Active: true, Since: after(-100), CalmSince: noon}},
		"9.5 calm is lost":                           {before: calming, rules: cooldown(time.Minute), input: ofTwenty(10, 10, 0), want: stormy},
		"9.5 calm is lost without an unhealthy node": {before: calming, rules: cooldown(time.Minute), input: ofTwenty(10, 0, 0), want: stormy},
		"9.5 the cooldown runs":                      {before: calming, rules: cooldown(31 * time.Second), input: ofTwenty(20, 0, 0), want: calming},
		"9.5 the cooldown is over":                   {before: calming, rules: cooldown(30 * time.Second), input: ofTwenty(20, 0, 0), want: none},
		"9.5 a fraction of a second is left":         {before: calming, rules: cooldown(30*time.Second + 500*time.Millisecond), input: ofTwenty(20, 0, 0), now: noon.Add(499 * time.Millisecond), want: calming},
		"9.5 a fraction of a second is over":         {before: calming, rules: cooldown(30*time.Second + 500*time.Millisecond), input: ofTwenty(20, 0, 0), now: noon.Add(500 * time.Millisecond), want: none},
		"9.5 no cooldown left":                       {before: stormy, rules: cooldown(0), input: ofTwenty(20, 0, 0), want: none},
		"9.10 cooldown removed while it runs":        {before: calming, rules: threshold(5), input: ofTwenty(15, 5, 5), want: none},
		"9.10 cooldown removed, above the threshold": {before: calming, rules: threshold(5), input: ofTwenty(14, 6, 6), want: stormy},
		"9.10 threshold removed":                     {before: stormy, rules: cooldown(time.Minute), input: ofTwenty(14, 6, 6), want: Storm{Active: true, Since: after(-100), CalmSince: noon}},
		"9.10 cooldown added":                        {before: stormy, rules: both(5, time.Minute), input: ofTwenty(14, 6, 6), want: stormy},
		"all healthy at once, with a threshold":      {before: stormy, rules: threshold(0), input: ofTwenty(20, 0, 0), want: none},
		"all healthy at once, with a cooldown":       {before: stormy, rules: both(0, time.Minute), input: ofTwenty(20, 0, 0), want: Storm{Active: true, Since: after(-100), CalmSince: noon}},
		"P12 calm since an instant yet to come":      {before: Storm{Active: true, Since: after(-100), CalmSince: after(3600)}, rules: cooldown(time.Minute), input: ofTwenty(20, 0, 0), want: Storm{Active: true, Since: after(-100), CalmSince: noon}},
		"its beginning is unknown":                   {before: Storm{Active: true}, rules: threshold(5), input: ofTwenty(14, 6, 6), want: begun},
		"no nodes any more":                          {before: stormy, rules: threshold(0), input: StormInput{Gate: EvaluateGate(new(intstr.FromString("51%")), nil, 0, 0)}, want: none},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.now.IsZero() {
				tc.now = noon
			}
			got := tc.before.Next(tc.rules, tc.input, tc.now)
			require.Equal(t, tc.want, got)
			require.Equal(t, got, got.Next(tc.rules, tc.input, tc.now), "it is idempotent")
		})
	}
}

// TestStormEnd: when time alone ends a storm.
func TestStormEnd(t *testing.T) {
	t.Parallel()
	calming := Storm{Active: true, Since: after(-100), CalmSince: after(-30)}
	tests := map[string]struct {
		storm Storm
		rules StormRules
		want  time.Time
	}{
		"9.5 after the cooldown":      {storm: calming, rules: cooldown(time.Minute), want: after(30)},
		"9.5 after the present one":   {storm: calming, rules: both(5, 2*time.Minute), want: after(90)},
		"9.5 not before it is calm":   {storm: Storm{Active: true, Since: after(-100)}, rules: cooldown(time.Minute)},
		"9.10 not without a cooldown": {storm: calming, rules: threshold(5)},
		"none that is over":           {storm: Storm{CalmSince: after(-30)}, rules: cooldown(time.Minute)},
		"none that has never begun":   {rules: cooldown(time.Minute)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.storm.End(tc.rules))
		})
	}
}

// TestStormExample is the one of spec 9: 20 nodes, minHealthy 11, threshold 5.
func TestStormExample(t *testing.T) {
	t.Parallel()
	rules := threshold(5)
	var storm Storm
	storm = storm.Next(rules, ofTwenty(11, 9, 0), noon)
	require.False(t, storm.Active, "9 unhealthy get 9 CRs ...")
	storm = storm.Next(rules, ofTwenty(11, 9, 9), noon)
	require.True(t, storm.Active, "... and the storm begins")
	storm = storm.Next(rules, ofTwenty(9, 11, 9), after(10))
	require.True(t, storm.Active, "with 11 unhealthy there are still 9 CRs")
	storm = storm.Next(rules, ofTwenty(14, 6, 4), after(20))
	require.True(t, storm.Active, "with 14 healthy still no new ones")
	again := storm.Next(rules, ofTwenty(14, 6, 0), after(30))
	require.True(t, again.Active, "9 recover while 6 others wait")
	require.Equal(t, noon, again.Since)
	storm = storm.Next(rules, ofTwenty(15, 5, 3), after(40))
	require.False(t, storm.Active, "at 15 healthy the rest is remediated")
}

// TestStormProperties follows storms through random input and random settings.
func TestStormProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 9))
			var rules StormRules
			var storm Storm
			now := noon
			for range 200 {
				if random.IntN(20) == 0 {
					rules = randomRules(random)
				}
				input := randomStormInput(random)
				before := storm
				storm = storm.Next(rules, input, now)
				checkStorm(t, before, storm, rules, input, now)
				now = now.Add(time.Duration(random.IntN(40_000)) * time.Millisecond)
			}
			// Once the cause is gone it ends, and nothing but time is needed.
			calm := ofTwenty(20, 0, 0)
			storm = storm.Next(rules, calm, now)
			if end := storm.End(rules); storm.Active {
				require.False(t, end.IsZero(), "P2: time ends it, so it is known when")
				storm = storm.Next(rules, calm, end)
			}
			require.Equal(t, Storm{}, storm, "P12")
		})
	}
}

func checkStorm(t *testing.T, before, storm Storm, rules StormRules, input StormInput, now time.Time) {
	t.Helper()
	if !storm.Active {
		require.Equal(t, Storm{}, storm, "nothing is left of it")
		require.False(t, rules.Configured() && !before.Active && input.Unhealthy > 0 && rules.Cooldown != nil && !input.Gate.Open, "9.3")
	} else {
		require.True(t, rules.Configured())
		require.False(t, storm.Since.After(now))
	}
	if before.Active && storm.Active {
		require.Equal(t, before.Since, storm.Since, "it is the same storm")
	}
	if before.Active && !storm.Active && rules.Configured() {
		require.True(t, rules.Threshold == nil || input.NotHealthy() <= *rules.Threshold, "9.2: it ends only when it is calm")
		if rules.Cooldown != nil {
			require.True(t, input.Gate.Open, "9.3")
			since := before.CalmSince
			if since.IsZero() {
				since = now.Truncate(time.Second)
			}
			require.False(t, now.Before(since.Add(*rules.Cooldown)), "P11: the whole duration")
		}
	}
	if !storm.CalmSince.IsZero() {
		require.NotNil(t, rules.Cooldown)
		require.True(t, before.CalmSince.IsZero() || before.CalmSince.Equal(storm.CalmSince), "P11: it never begins anew unless it was lost")
		require.True(t, now.Before(storm.End(rules)))
	}
}

func randomRules(random *rand.Rand) StormRules {
	var rules StormRules
	if random.IntN(2) == 0 {
		rules.Threshold = new(random.IntN(12))
	}
	if random.IntN(2) == 0 {
		rules.Cooldown = new(time.Duration(random.IntN(120_000)) * time.Millisecond)
	}
	return rules
}

func randomStormInput(random *rand.Rand) StormInput {
	healthy := random.IntN(21)
	unhealthy := random.IntN(21 - healthy)
	return ofTwenty(healthy, unhealthy, random.IntN(21-healthy))
}

// TestStormOfAFailedReport: a storm whose report failed goes on. A cooldown that status does not show has not begun: 50 seconds
// later the nodes may have failed again (spec 9.5, seed 880478).
func TestStormOfAFailedReport(t *testing.T) {
	t.Parallel()
	active := Storm{Active: true, Since: epoch}
	calm := Storm{Active: true, Since: epoch, CalmSince: epoch.Add(time.Minute)}
	for name, tc := range map[string]struct{ storm, before, want Storm }{
		"no storm":                      {},
		"it has begun":                  {storm: active, want: active},
		"its cooldown has begun":        {storm: calm, before: active, want: active},
		"its cooldown is in status":     {storm: calm, before: calm, want: calm},
		"it is not calm any more":       {storm: active, before: calm, want: active},
		"it has ended, status says not": {before: calm, want: calm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.storm.Unwritten(tc.before))
		})
	}
}
