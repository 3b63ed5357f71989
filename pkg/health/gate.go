// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Gate is the answer to whether enough nodes are healthy to start a remediation
// (spec 8), with the numbers that led to it.
type Gate struct {
	Open bool
	// Observed and Healthy are the counts the gate was evaluated with.
	Observed, Healthy int
	// Required is the number of healthy nodes from which on the gate is open:
	// minHealthy, or what maxUnhealthy leaves of the observed nodes. It may be
	// negative.
	Required int
}

// EvaluateGate evaluates the one of minHealthy and maxUnhealthy that is given,
// with percentages of observed rounded up. With both, with none, or with a value
// that is no number the gate is closed: such a spec is refused at admission, and
// where it was stored earlier nothing may start.
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

// Scale returns the number that value stands for out of total, with percentages rounded up,
// and false if it stands for none. Numbers too large for an int are cut, which no cluster can
// tell from the number itself.
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
