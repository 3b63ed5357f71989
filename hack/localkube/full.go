// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build full

package main

import (
	"k8s.io/component-base/cli"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// Real nodes need them. Other versions of Kubernetes have them as well: their controllers have other constructors.
func init() {
	components["kube-controller-manager"] = func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) }
	components["kube-scheduler"] = func() int { return cli.Run(scheduler.NewSchedulerCommand()) }
}
