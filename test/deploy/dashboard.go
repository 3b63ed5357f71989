// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

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

	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// StartPluginDashboard serves the dashboard of bin/kubectl-nhc until ctx is done or the process is
// interrupted, and returns its address when it can be reached. wait returns when it has ended.
func StartPluginDashboard(ctx context.Context, cluster *localkube.ControlPlane) (address string, wait func(), err error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", nil, err
	}
	dashboard := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl-nhc"), "dashboard", "--kubeconfig", cluster.AdminKubeconfig())
	dashboard.Cancel = func() error { return dashboard.Process.Signal(os.Interrupt) }
	dashboard.Stderr = os.Stderr
	output, err := dashboard.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := dashboard.Start(); err != nil {
		return "", nil, fmt.Errorf("starting the dashboard: %w", err)
	}
	if address, err = addressIn(output); err != nil {
		return "", nil, errors.Join(err, dashboard.Wait())
	}
	return address, func() { _ = dashboard.Wait() }, nil
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
