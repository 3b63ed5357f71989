// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
