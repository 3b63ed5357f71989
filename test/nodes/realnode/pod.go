// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// pause waits for the end, and for processes that have lost their parent.
func pause([]string) error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		select {
		case <-end:
			return nil
		case <-children:
			for pid := 1; pid > 0; {
				pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			}
		}
	}
}

// write is a database, as far as a volume can tell: two that write at a time are seen in the log.
func write(args []string) error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	log, err := os.OpenFile(filepath.Join(args[0], "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	node := os.Getenv("NODE")
	failed := make(chan error, 1)
	go func() {
		server := &http.Server{Addr: ":8080", ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, node)
		})}
		failed <- server.ListenAndServe()
	}()
	for seconds := time.Tick(time.Second); ; {
		if _, err := fmt.Fprintln(log, time.Now().UTC().Format(time.RFC3339Nano), node); err != nil {
			return err
		}
		select {
		case err := <-failed:
			return errors.Join(errors.New("serving probes"), err)
		case <-end:
			return nil
		case <-seconds:
		}
	}
}
