// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// startControllers starts kube-controller-manager and what simulates kubelets, and in a Network kube-scheduler. It returns when the
// controllers have done their first work.
func (c *ControlPlane) startControllers(ctx context.Context) error {
	if err := c.startControllerManager(); err != nil {
		return err
	}
	if err := c.startScheduler(); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return err
	}
	if c.opts.Kubelets {
		c.stopKubelets = c.startKubelets(ctx, client)
	}
	return c.waitFor(ctx, c.controllerManager, "its first ServiceAccount", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (c *ControlPlane) startControllerManager() error {
	kubeconfig, err := c.kubeconfigOf(c.identities.controllerManager)
	if err != nil {
		return err
	}
	// Those whose work the tests see. No pod runs here, so that few tests need the
	// controllers of workloads.
	controllers := []string{
		"clusterrole-aggregation-controller",
		"garbage-collector-controller",
		"namespace-controller",
		"serviceaccount-controller",
		"serviceaccount-token-controller",
		"validatingadmissionpolicy-status-controller",
	}
	if c.opts.NodeLifecycle {
		controllers = append(controllers, "node-lifecycle-controller")
	}
	if c.opts.PodAdmission {
		controllers = append(controllers, "resourcequota-controller", "deployment-controller", "replicaset-controller")
	}
	var network []string
	if c.opts.Network != nil {
		controllers = c.opts.Network.controllers()
		// Without it no pod trusts the API server.
		network = append(network, "--root-ca-file="+filepath.Join(c.dir, certificateDir, certificateFile))
	}
	c.controllerManager, err = c.startComponent(controllerManagerName, append(network,
		"--kubeconfig="+kubeconfig,
		"--controllers="+strings.Join(controllers, ","),
		"--use-service-account-credentials",
		"--service-account-private-key-file="+filepath.Join(c.dir, serviceAccountKeyFile),
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		"--node-monitor-grace-period="+c.opts.NodeMonitorGracePeriod.String(),
		"--node-monitor-period=1s",
		"--profiling=false",
	)...)
	return err
}

func (c *ControlPlane) startScheduler() error {
	if c.opts.Network == nil {
		return nil
	}
	kubeconfig, err := c.kubeconfigOf(c.identities.scheduler)
	if err != nil {
		return err
	}
	_, err = c.startComponent(schedulerName, "--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0")
	return err
}

// kubeconfigOf writes the kubeconfig file of a component.
func (c *ControlPlane) kubeconfigOf(id identity) (string, error) {
	path := filepath.Join(c.dir, strings.ReplaceAll(id.user, ":", "-")+".kubeconfig")
	config := c.config(id.token)
	if c.opts.Network != nil {
		config.Host = serviceURL
	}
	return path, WriteKubeconfig(path, config)
}
