// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Gate says whether enough nodes are healthy to start a remediation (spec 8), with its
// numbers.
type Gate struct {
	Open bool
	// Observed and Healthy are the counts the gate was evaluated with.
	Observed, Healthy int
	// Required is the number of healthy nodes from which on the gate is open:
	// minHealthy, or what maxUnhealthy leaves of the observed nodes. It may be
	// negative.
	Required int
}

// EvaluateGate evaluates minHealthy or maxUnhealthy. It rounds percentages of observed
// up. With both, with none, or with a value that is no number the gate is closed:
// admission refuses such a spec, and if it was stored earlier, nothing may start.
func EvaluateGate(minHealthy, maxUnhealthy *intstr.IntOrString, observed, healthy int) Gate {
	gate := Gate{Observed: observed, Healthy: healthy, Required: observed}
	switch {
	case minHealthy != nil && maxUnhealthy == nil:
		n, ok := Scale(*minHealthy, observed)
		if !ok {
			return gate
		}
		gate.Required = n
	case maxUnhealthy != nil && minHealthy == nil:
		n, ok := Scale(*maxUnhealthy, observed)
		if !ok {
			return gate
		}
		gate.Required = observed - n
	default:
		return gate
	}
	gate.Open = healthy >= gate.Required
	return gate
}

// Scale returns the number that value stands for out of total, with percentages rounded up. It
// returns false if value is no number. It cuts numbers that are too large for an int, because no
// cluster has so many nodes.
func Scale(value intstr.IntOrString, total int) (n int, ok bool) {
	if value.Type == intstr.Int {
		return value.IntValue(), value.IntVal >= 0
	}
	digits, percent := strings.CutSuffix(value.StrVal, "%")
	if strings.Trim(digits, "0123456789") != "" {
		return 0, false // Not left to ParseUint: of a number that is too large it reads no more.
	}
	parsed, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		if parsed == 0 {
			return 0, false // No number at all; out of range leaves the largest one.
		}
		parsed = math.MaxInt32
	}
	if percent {
		return (int(parsed)*total + 99) / 100, true
	}
	return int(parsed), true
}
