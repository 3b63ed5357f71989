// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import "github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"

// NodeCounts are the smallest and largest possible numbers of selected nodes. If nothing
// has changed for long enough, both are equal.
type NodeCounts struct {
	ObservedMin, ObservedMax int
	// NotHealthyMin is the number of nodes that were certainly not healthy, and HealthyMax
	// that of those that may have been healthy and without own CR (spec 7.6).
	NotHealthyMin, HealthyMax int
	// NotHealthyMax and HealthyMin are the other way round.
	NotHealthyMax, HealthyMin int
	// RemediatedMax is the number of nodes that may have had an own CR.
	RemediatedMax int
	// Unhealthy reports whether some node may have been unhealthy.
	Unhealthy bool
}

// MayBeOpen reports whether the gate can have been open (spec 8).
func (c NodeCounts) MayBeOpen(spec *v1alpha1.NodeHealthCheckSpec) bool {
	switch {
	case spec.MinHealthy != nil && spec.MaxUnhealthy == nil:
		return c.HealthyMax >= share(*spec.MinHealthy, c.ObservedMin)
	case spec.MaxUnhealthy != nil && spec.MinHealthy == nil:
		return c.NotHealthyMin <= share(*spec.MaxUnhealthy, c.ObservedMax)
	default:
		return false
	}
}

// MayBeClosed reports whether the gate can have been closed.
func (c NodeCounts) MayBeClosed(spec *v1alpha1.NodeHealthCheckSpec) bool {
	switch {
	case spec.MinHealthy != nil && spec.MaxUnhealthy == nil:
		return c.HealthyMin < share(*spec.MinHealthy, c.ObservedMax)
	case spec.MaxUnhealthy != nil && spec.MinHealthy == nil:
		return c.NotHealthyMax > share(*spec.MaxUnhealthy, c.ObservedMin)
	default:
		return true
	}
}

// leastLimit returns the least that M can have been: the largest number of nodes that are
// not healthy with which the gate is open (spec 9.1).
func (c NodeCounts) leastLimit(spec *v1alpha1.NodeHealthCheckSpec) int {
	least := min(limit(spec, c.ObservedMin), c.ObservedMin)
	for observed := c.ObservedMin; observed <= c.ObservedMax; observed++ {
		least = min(least, limit(spec, observed), observed)
	}
	return least
}

// limit returns how many nodes may be not healthy by the gate alone. It may be more than
// there are.
func limit(spec *v1alpha1.NodeHealthCheckSpec, observed int) int {
	switch {
	case spec.MinHealthy != nil && spec.MaxUnhealthy == nil:
		return observed - share(*spec.MinHealthy, observed)
	case spec.MaxUnhealthy != nil && spec.MinHealthy == nil:
		return share(*spec.MaxUnhealthy, observed)
	default:
		return 0
	}
}

// MayBegin reports whether a storm can have begun (spec 9.2 to 9.4).
func (c NodeCounts) MayBegin(spec *v1alpha1.NodeHealthCheckSpec) bool {
	closed := c.MayBeClosed(spec)
	if !c.Unhealthy {
		return false
	}
	if spec.StormCooldownDuration != nil && closed {
		return true
	}
	reached := c.RemediatedMax > 0 && c.RemediatedMax >= c.leastLimit(spec)
	return spec.StormRecoveryThreshold != nil && c.NotHealthyMax > int(*spec.StormRecoveryThreshold) && (closed || reached)
}

// Calm reports whether a storm can have been calm (spec 9.2 to 9.4).
func (c NodeCounts) Calm(spec *v1alpha1.NodeHealthCheckSpec) bool {
	if spec.StormRecoveryThreshold != nil && c.NotHealthyMin > int(*spec.StormRecoveryThreshold) {
		return false
	}
	return spec.StormCooldownDuration == nil || c.MayBeOpen(spec)
}

// Stormy reports whether a storm is configured.
func Stormy(spec *v1alpha1.NodeHealthCheckSpec) bool {
	return spec.StormRecoveryThreshold != nil || spec.StormCooldownDuration != nil
}
