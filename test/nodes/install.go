// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// ControllerImage returns the image that `make nodes` has built, which is the one of
// manifests/install.yaml.
func ControllerImage() (Image, error) {
	root, err := deploy.ModuleRoot()
	if err != nil {
		return Image{}, err
	}
	dir := filepath.Join(root, "_output", "nodes")
	reference, err := os.ReadFile(filepath.Join(dir, "reference"))
	if errors.Is(err, fs.ErrNotExist) {
		return Image{}, fmt.Errorf("run `make nodes` first: %w", err)
	}
	name, _, _ := strings.Cut(strings.TrimSpace(string(reference)), "@")
	return Image{Name: name, Archive: filepath.Join(dir, "docker-"+runtime.GOARCH+".tar")}, err
}

// InstallController installs the controller as most users do, see InstallWith.
func (c *Cluster) InstallController(ctx context.Context) error {
	return c.InstallWith(ctx, func() error { return deploy.Install(ctx, c.ControlPlane) })
}

// InstallWith installs the controller in some way, and the kinds and the template of the example
// remediator. All nodes are workers. It returns when the controller runs.
func (c *Cluster) InstallWith(ctx context.Context, install func() error) error {
	for _, node := range c.nodes {
		patch := []byte(`{"metadata":{"labels":{"node-role.kubernetes.io/worker":""}}}`)
		if _, err := c.Kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	if err := install(); err != nil {
		return err
	}
	kinds := deploy.Kinds{Manifest: remediator.Manifest, Group: remediator.Resource.Group}
	if err := deploy.InstallKinds(ctx, c.ControlPlane, kinds); err != nil {
		return err
	}
	if err := c.Apply(ctx, remediator.TemplateManifest); err != nil {
		return err
	}
	_, err := c.Kubectl(ctx, "--namespace", deploy.Namespace, "rollout", "status", "deployment/"+deploy.ServiceAccount, "--timeout=120s")
	return err
}
