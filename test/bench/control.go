// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// minimal is the name of the control, which does the least that any controller must do: see minimalController. It is a
// process of its own, as the controller is: this executable, with that name as its first argument.
const minimal = "minimal-controller"

// runControl is the whole process of a control. The arguments are its name, a kubeconfig, and
// its own arguments. It runs until ctx is done.
func runControl(ctx context.Context, args []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", args[1])
	if err != nil {
		return fmt.Errorf("reading the access to the API server: %w", err)
	}
	by, err := newClients(config, args[0])
	if err != nil {
		return err
	}
	return runMinimal(ctx, by, args[2:])
}

// control is a running control.
type control struct{ *localkube.Process }

// startControl returns when the control has nothing more to do, until something happens.
func (e *environment) startControl(ctx context.Context, args ...string) (*control, error) {
	config, err := e.cluster.ServiceAccountConfig(ctx, metav1.NamespaceDefault, controlAccount)
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(e.cluster.Dir(), minimal+".kubeconfig")
	if err := localkube.WriteKubeconfig(kubeconfig, config); err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env, err := deploy.Environment(ctx, e.cluster) // The garbage collector is to work as hard as the controller's.
	if err != nil {
		return nil, fmt.Errorf("reading the environment of the Deployment: %w", err)
	}
	process, err := e.cluster.StartProcess(localkube.Command{Name: minimal, Path: self, Args: append([]string{minimal, kubeconfig}, args...), Env: env})
	if err != nil {
		return nil, fmt.Errorf("starting the control: %w", err)
	}
	c := &control{process}
	if err := waitUntilIdle(ctx, process.Pid()); err != nil {
		return nil, errors.Join(err, c.end(ctx))
	}
	return c, nil
}

// end ends the control. The error is that of the control, if it has failed.
func (c *control) end(ctx context.Context) error {
	c.Stop()
	code, err := c.Wait(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("the control exited with code %d\nlast lines of its log:\n%s", code, c.LogTail())
	}
	return err
}
