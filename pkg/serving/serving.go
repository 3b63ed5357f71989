// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serving has the HTTP servers of the programs in the image, with limits, so that any
// client costs little, with HTTPS, and with authorization by the API server.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/netutil"
	"k8s.io/klog/v2"
)

// Off is the address that turns a server off.
const Off = "0"

// Server is an HTTP server whose port is open already.
type Server struct {
	name     string
	listener net.Listener
	http     *http.Server
}

// Limits of each server. Any client in the cluster may reach it, and must always cost
// little.
const (
	// MaxConnections is how many connections a server has at a time. Each of them gets one
	// request, within requestTimeout. So a probe waits at most requestTimeout for every
	// MaxConnections connections that were opened before it.
	MaxConnections = 2000
	requestTimeout = 2 * time.Second
	maxHeaderBytes = 64 << 10
)

// Listen opens a port.
func Listen(name, address string, handler http.Handler) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for %s: %w", name, err)
	}
	s := &Server{name: name, listener: netutil.LimitListener(listener, MaxConnections), http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: requestTimeout, // Of handshakes, too.
		ReadTimeout:       requestTimeout,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       requestTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(&serverLog{server: name}, "", 0),
	}}
	s.http.SetKeepAlivesEnabled(false)
	return s, nil
}

// serverLog takes the log lines of an HTTP server. Most of them are about clients, which
// could fill the log.
type serverLog struct {
	server string
}

// Write implements [io.Writer]: one line at a time.
func (l *serverLog) Write(line []byte) (int, error) {
	logger := klog.LoggerWithValues(klog.FromContext(context.Background()), "server", l.server)
	if text := strings.TrimSpace(string(line)); strings.HasPrefix(text, "http: panic") {
		logger.Error(nil, "Answering a request failed", "cause", text)
	} else {
		logger.V(4).Info("Connection failed", "cause", text)
	}
	return len(line), nil
}

// Serve serves until ctx is done.
func (s *Server) Serve(ctx context.Context) {
	logger := klog.FromContext(ctx)
	defer context.AfterFunc(ctx, func() {
		// A scrape does not delay the end of the process.
		if err := s.http.Close(); err != nil {
			logger.V(2).Info("Closing a server failed", "server", s.name, "cause", err.Error())
		}
	})()
	logger.Info("Listening", "server", s.name, "address", s.listener.Addr().String())
	if err := s.http.Serve(s.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		logger.Error(err, "Server failed", "server", s.name)
	}
}

// Address returns where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close closes the port of a server that does not serve.
func (s *Server) Close() error { return s.listener.Close() }

// Encrypt makes a server that has not begun to serve one of HTTPS, without HTTP/2: each connection gets one request.
func (s *Server) Encrypt(config *tls.Config) {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	s.http.Protocols = protocols
	s.http.TLSConfig = config
	s.listener = tls.NewListener(s.listener, config)
}

// OK answers a probe.
func OK(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok")) // A prober that has hung up does not need the answer.
}
