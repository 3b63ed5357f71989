// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Unknown stands for a value that is not known.
const Unknown = "-"

// Ago returns for how long something has lasted.
func Ago(t *metav1.Time, now time.Time) string {
	if t == nil {
		return Unknown
	}
	return duration.HumanDuration(max(0, now.Sub(t.Time)))
}

// In returns how long it takes until an instant, "now" for one that has passed.
func In(t *metav1.Time, now time.Time) string {
	switch {
	case t == nil:
		return "never"
	case !t.After(now):
		return "now"
	default:
		return duration.HumanDuration(t.Sub(now))
	}
}

// Clock returns the time of day of an instant, with the day if that is another one than now.
func Clock(t *metav1.Time, now time.Time) string {
	local := t.In(now.Location())
	if local.YearDay() == now.YearDay() && local.Year() == now.Year() {
		return local.Format(time.TimeOnly)
	}
	return local.Format("2006-01-02 15:04:05")
}

// SinceWhen returns an instant with how long ago that was.
func SinceWhen(t *metav1.Time, now time.Time) string {
	if t == nil {
		return "an unknown time"
	}
	return Clock(t, now) + " (" + Ago(t, now) + ")"
}

// ParseAge reads a duration that may be given in days or weeks.
func ParseAge(text string) (time.Duration, error) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		digits, found := strings.CutSuffix(text, unit)
		if !found {
			continue
		}
		if n, err := strconv.ParseUint(digits, 10, 12); err == nil {
			return time.Duration(n) * length, nil
		}
	}
	age, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("reading an age: %w", err)
	case age < 0:
		return 0, fmt.Errorf("reading an age: %s is in the future", text)
	}
	return age, nil
}
