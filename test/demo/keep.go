// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// keep serves the dashboard of the plugin, prints its address and how else to look around, and waits
// for an interrupt.
func (d *demo) keep(ctx context.Context, hints []string) error {
	address, wait, err := deploy.StartPluginDashboard(ctx, d.ControlPlane)
	if err != nil {
		return err
	}
	fmt.Printf(`
The cluster goes on, end it with Ctrl-C. Its dashboard, for your browser:

  %s

In another terminal:

  export KUBECONFIG=%s; alias k=bin/kubectl
  %s
  tail -f %s
`, address, d.AdminKubeconfig(), strings.Join(hints, "\n  "), d.controller.LogPath())
	<-ctx.Done()
	wait() // The same interrupt ends it.
	return nil
}
