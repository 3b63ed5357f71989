// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

const (
	unsignedDuration = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	signedDuration   = `^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	maxDuration      = 64
)

var (
	unsignedPattern, signedPattern = regexp.MustCompile(unsignedDuration), regexp.MustCompile(signedDuration)
	durationParts                  = regexp.MustCompile(`[0-9.]+[a-zµ]+`)
	unitSeconds                    = map[string]float64{"h": 3600, "m": 60, "s": 1, "ms": 0.001, "us": 0.000001, "µs": 0.000001, "ns": 0.000000001}
)

// The fuzzing below is about the patterns of the CRD.
func TestDurationPatterns(t *testing.T) {
	t.Parallel()
	for plural, want := range map[string]map[string]int{
		Plural: {unsignedDuration: 3, signedDuration: 1}, nhcv1alpha1.BudgetPlural: {unsignedDuration: 3},
	} {
		crd := readCRD(t, plural)
		found := map[string]int{}
		for _, match := range regexp.MustCompile(`(?m)^ *pattern: (.*ns\|us.*)$`).FindAllStringSubmatch(string(crd), -1) {
			found[match[1]]++
		}
		require.Equal(t, want, found)
		require.Equal(t, want[unsignedDuration]+want[signedDuration], strings.Count(string(crd), "<= 9223372036.0"))
	}
}

// admitted tells whether the API accepts a duration: a pattern, and a rule which
// adds the parts up, as numbers that are not exact.
func admitted(pattern *regexp.Regexp, text string) bool {
	if !pattern.MatchString(text) || len([]rune(text)) > maxDuration {
		return false
	}
	sum := 0.0
	for _, part := range durationParts.FindAllString(text, -1) {
		digits := strings.TrimRight(part, "hmsunµ")
		number, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return false
		}
		sum += number * unitSeconds[part[len(digits):]]
	}
	return sum <= 9223372036.0
}

// FuzzDuration: whatever duration the API accepts can be read, or one
// NodeHealthCheck would keep the controller from reading any. What was read and is
// written again is accepted.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{
		"", "0", "0s", "-0s", "5m", "1h30m", "-1ns", "1.5h", "0.1h0.5ms", "1µs", "1μs", "1us", "1d", "+1s", "--1s", "1s-1s", ".5s", "5.s", "1e3s", " 1s", "1 s", "1S", "1h1h1h",
		"2562047h47m16s", "2562047h47m16.854775807s", "2562047h47m16.854775808s", "-2562047h47m16.854775808s", "2562047.79h", "9223372036.0s", "9223372036.1s",
		"9223372036854775807ns", "9223372036854775808ns", "9223372035999999999ns", "99999999999999999999ns", "0.000000000000000000000000000000000000000001ns",
		"00000000000000000000000000000000000000000000000000000000000001s", "1.99999999999999999999999999999999999999999999999999999999999h",
		"9223372036854775807.9ns", "4611686018s4611686018s", "1281023h1281023h1h47m15s", "153722867m16s",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		stored, err := json.Marshal(text)
		require.NoError(t, err)
		for _, pattern := range []*regexp.Regexp{unsignedPattern, signedPattern} {
			var read metav1.Duration
			err := json.Unmarshal(stored, &read)
			if admitted(pattern, text) {
				require.NoError(t, err, "4.3")
				require.False(t, pattern == unsignedPattern && read.Duration < 0, "never negative")
				require.False(t, strings.HasPrefix(text, "-") && read.Duration > 0)
			}
			if err != nil || pattern == unsignedPattern && read.Duration < 0 || read.Duration > 9223372036*time.Second || read.Duration < -9223372036*time.Second {
				continue
			}
			written, err := json.Marshal(read)
			require.NoError(t, err)
			var again string
			require.NoError(t, json.Unmarshal(written, &again))
			require.True(t, admitted(pattern, again), again)
		}
	})
}
