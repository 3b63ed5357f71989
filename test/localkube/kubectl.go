// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Kubectl runs kubectl as admin and returns its standard output, also if it
// fails. The error contains its standard error. A flag such as --kubeconfig or
// --as makes it someone else.
func (c *ControlPlane) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlInput(ctx, nil, args...)
}

// KubectlInput is Kubectl with a standard input, for `kubectl apply -f -`.
func (c *ControlPlane) KubectlInput(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.executable, append([]string{"kubectl"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	// Nothing of whoever runs the test: no configuration, no cached discovery.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.AdminKubeconfig(), "HOME="+c.dir, "KUBERC=off")
	cmd.WaitDelay = time.Minute // A plugin may live on and hold the output. On a busy machine to read it takes long, too.
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("running kubectl %s: %w: %s",
			strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
