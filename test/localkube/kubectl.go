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
	"path/filepath"
	"slices"
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
	cmd := exec.CommandContext(ctx, c.kubectl, args...)
	cmd.Stdin = stdin
	return c.run(cmd, "kubectl "+strings.Join(args, " "))
}

// Shell runs a script with bash, in which kubectl is that of Kubectl. It is how tests run
// the commands of the documentation. The script ends with the first command that fails.
func (c *ControlPlane) Shell(ctx context.Context, script string, env ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-o", "errexit", "-o", "nounset", "-o", "pipefail", "-c", script)
	cmd.Env = append([]string{"PATH=" + filepath.Dir(c.kubectl) + string(filepath.ListSeparator) + os.Getenv("PATH")}, env...)
	return c.run(cmd, script)
}

// run runs a command as admin, with the environment that it has besides.
func (c *ControlPlane) run(cmd *exec.Cmd, what string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// Nothing of the user who runs the test: no configuration, no cached discovery.
	cmd.Env = slices.Concat(os.Environ(), []string{moreMemory, "KUBECONFIG=" + c.AdminKubeconfig(), "HOME=" + c.dir, "KUBERC=off"}, cmd.Env)
	cmd.WaitDelay = time.Minute // A plugin may live on and hold the output. On a busy machine to read it takes long, too.
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("running %s: %w: %s", what, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
