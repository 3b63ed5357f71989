// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// keep serves the dashboard of the plugin, prints its address and how else to look around, and waits
// for an interrupt.
func (d *demo) keep(ctx context.Context, hints []string) error {
	root, err := deploy.ModuleRoot()
	if err != nil {
		return err
	}
	dashboard := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl-nhc"), "dashboard", "--kubeconfig", d.cluster.AdminKubeconfig())
	dashboard.Cancel = func() error { return dashboard.Process.Signal(os.Interrupt) }
	dashboard.Stderr = os.Stderr
	output, err := dashboard.StdoutPipe()
	if err != nil {
		return err
	}
	if err := dashboard.Start(); err != nil {
		return fmt.Errorf("starting the dashboard: %w", err)
	}
	address, err := addressIn(output)
	if err != nil {
		return errors.Join(err, dashboard.Wait())
	}
	fmt.Printf(`
The cluster goes on, end it with Ctrl-C. Its dashboard, for your browser:

  %s

In another terminal:

  alias k='bin/kubectl --kubeconfig %s'
  %s
  tail -f %s
`, address, d.cluster.AdminKubeconfig(), strings.Join(hints, "\n  "), d.controller.LogPath())
	<-ctx.Done()
	_ = dashboard.Wait() // The same interrupt ends it.
	return nil
}

// addressIn returns the address that the dashboard prints once it can be reached.
func addressIn(output io.Reader) (string, error) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if address := strings.TrimSpace(lines.Text()); strings.HasPrefix(address, "http://") {
			return address, nil
		}
	}
	return "", errors.Join(errors.New("the dashboard has printed no address"), lines.Err())
}
