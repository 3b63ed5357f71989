// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// keyOf returns the key of a MachineHealthCheck.
func keyOf(check *v1beta1.MachineHealthCheck) cache.ObjectName {
	return cache.NewObjectName(check.Namespace, check.Name)
}

// readCheck is a MachineHealthCheck of the cache, as its criteria were read.
type readCheck struct {
	check    *v1beta1.MachineHealthCheck
	criteria machinehealth.Criteria
}

// criteriaOf returns the criteria of a MachineHealthCheck of the cache. They are read once, because one
// sync of a NodeHealthCheck may look up thousands of Nodes. Callers must not change them.
func (c *Controller) criteriaOf(check *v1beta1.MachineHealthCheck) *machinehealth.Criteria {
	if found, ok := c.read.Load(keyOf(check)); ok && found.(*readCheck).check == check {
		return &found.(*readCheck).criteria
	}
	read := &readCheck{check: check, criteria: machinehealth.NewCriteria(check)}
	c.read.Store(keyOf(check), read)
	return &read.criteria
}
