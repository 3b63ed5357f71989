// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nhc-controller/nhc-controller/pkg/dashboard"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

const (
	// loopback is the address that the dashboard listens on: no other machine can connect.
	loopback = "127.0.0.1"
	// headerTimeout is how long a browser may take for a request.
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection without requests is kept.
	idleTimeout = 2 * time.Minute
)

func (r *root) dashboard() *cobra.Command {
	var (
		port           int
		leaseNamespace string
	)
	command := &cobra.Command{
		Use:   "dashboard",
		Short: "Show the same in a browser, with the history as a timeline",
		Long: `Serves pages for a browser on this machine, and prints their address. They show what status,
explain and history do, and follow the cluster. Who knows the address sees what you may see.
Ctrl-C ends it all.`,
		Example: `  kubectl nhc dashboard
  kubectl nhc dashboard --port 8080`,
		GroupID: looking,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if port < 0 || port > math.MaxUint16 {
				return &cluster.Error{Sentence: "Give a --port from 1 to 65535, or leave it out for any that is free."}
			}
			clients, err := r.clients()
			if err != nil {
				return err
			}
			config := cluster.Config{Clients: clients, LeaseNamespace: leaseNamespace}
			return r.follow(command.Context(), config, func(ctx context.Context, source *cluster.Cluster) error {
				return r.serve(ctx, dashboard.New(dashboard.Config{Source: source, Now: r.Now, Cluster: r.clusterName()}), port)
			})
		},
	}
	command.Flags().IntVar(&port, "port", 0, "Port to listen on, 0 for any that is free")
	command.Flags().StringVar(&leaseNamespace, "lease-namespace", defaultLeaseNamespace, "Namespace of the leases of nodes")
	return command
}

// serve serves the pages behind a new token until the context ends.
func (r *root) serve(ctx context.Context, pages http.Handler, port int) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return &cluster.Error{Sentence: fmt.Sprintf("Cannot listen on port %d: choose another --port, or leave it out (%v).", port, err), Cause: err}
	}
	host := listener.Addr().String()
	door := dashboard.NewDoor(pages, rand.Text(), host, strings.Replace(host, loopback, "localhost", 1))
	server := &http.Server{
		Handler: door, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx }, // Which ends the streams of events.
		ErrorLog:    log.New(io.Discard, "", 0),
	}
	defer func() { _ = server.Close() }()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if err := r.print("The dashboard is at\n\n  http://" + host + door.Path() + "\n\nWho knows this address sees what you may see. Ctrl-C ends it.\n"); err != nil {
		return err
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		return nil
	}
}

// clusterName returns the context of the kubeconfig, empty if there is none.
func (r *root) clusterName() string {
	raw, _ := r.config.ToRawKubeConfigLoader().RawConfig()
	return cmp.Or(*r.config.Context, raw.CurrentContext)
}
