// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/nhc-controller/nhc-controller/pkg/generated/clientset/versioned"
)

// clients are those of one role. They have a connection of their own, so that roles
// do not wait for each other, and no rate limit.
type clients struct {
	kube    kubernetes.Interface
	nhc     versioned.Interface
	dynamic dynamic.Interface
}

func newClients(config *rest.Config, userAgent string) (*clients, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.UserAgent = userAgent
	config.WarningHandler = rest.NoWarnings{}
	// Clients with equal configurations share a transport. This function is part of the configuration.
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	builtin := rest.CopyConfig(config)
	builtin.ContentType = runtime.ContentTypeProtobuf
	builtin.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("configuring HTTP: %w", err)
	}
	c := &clients{}
	if c.kube, err = kubernetes.NewForConfigAndClient(builtin, httpClient); err != nil {
		return nil, fmt.Errorf("making the Kubernetes client: %w", err)
	}
	if c.nhc, err = versioned.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("making the NodeHealthCheck client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("making the dynamic client: %w", err)
	}
	return c, nil
}

type watchFunc func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)

// WatchWithContext lets a function be what watches.
func (f watchFunc) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return f(ctx, options)
}

// watchFrom watches from what list has returned, and goes on when the API server ends
// the watch.
func watchFrom(ctx context.Context, list func(context.Context, metav1.ListOptions) (metav1.ListInterface, error), start watchFunc) (watch.Interface, error) {
	now, err := list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	return watchtools.NewRetryWatcherWithContext(ctx, now.GetResourceVersion(), start)
}
