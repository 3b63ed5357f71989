// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
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
	return local.Format(time.DateTime)
}

// SinceWhen returns an instant with how long ago that was.
func SinceWhen(t *metav1.Time, now time.Time) string {
	if t == nil {
		return "an unknown time"
	}
	return Clock(t, now) + " (" + Ago(t, now) + ")"
}

// ParseAge reads a duration that may be given in days or weeks. It reports whether the text is one.
func ParseAge(text string) (age time.Duration, valid bool) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		digits, found := strings.CutSuffix(text, unit)
		if n, err := strconv.ParseUint(digits, 10, 12); found && err == nil {
			return time.Duration(n) * length, true
		}
	}
	age, err := time.ParseDuration(text)
	return age, err == nil && age >= 0
}
