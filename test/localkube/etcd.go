// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
)

func (c *ControlPlane) socket() string { return filepath.Join(c.socketDir, "etcd.sock") }

// startEtcd starts etcd on a socket that only this user can reach. Nothing
// connects to the port for peers, so that it may be any. It takes the place of the
// socket that one has left behind that was killed.
func (c *ControlPlane) startEtcd(ctx context.Context) error {
	p, err := c.startComponent(etcdName,
		"--data-dir="+filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=unix://"+c.socket(),
		"--advertise-client-urls=http://"+loopback+":0", // No socket is accepted here, and nothing reads it.
		"--listen-peer-urls=http://"+loopback+":0",
		"--unsafe-no-fsync",
		"--log-level=warn",
	)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.etcd = p
	c.mu.Unlock()
	return c.waitFor(ctx, p, "the socket", func(context.Context) error {
		connection, err := net.Dial("unix", c.socket())
		if err != nil {
			return err
		}
		return connection.Close()
	})
}

// RestartEtcd kills etcd, as a crash would, and starts it again with the data that it
// had. It returns when the API server is ready again, if that has not been stopped.
// Everything else keeps running. For some seconds more a request may fail: the API
// server has a connection for each resource, and pauses between its attempts to
// connect.
func (c *ControlPlane) RestartEtcd(ctx context.Context) error {
	c.mu.Lock()
	etcd, apiServer := c.etcd, c.apiServer
	c.mu.Unlock()
	if !etcd.running() {
		return fmt.Errorf("etcd had exited with code %d: %s", etcd.exitCode, etcd.LogTail())
	}
	// Its leash is still held, so that it does not remove the data. Only if this
	// process ends between these two lines, the data stays.
	if err := etcd.Kill(); err != nil {
		return err
	}
	c.forget(etcd)
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if apiServer == nil {
		return nil
	}
	return c.waitFor(ctx, apiServer, "/readyz", c.checkReady)
}

// Compact makes etcd forget all that was before: a watch from, a list of, or a
// continue token with an earlier resource version gets 410 Gone, or an event with
// this error. The API server still serves some of them from its cache: lists for 15
// seconds, and watches until RestartAPIServer empties it.
//
// The API server's own compaction goes on as usual, every 5 minutes.
func (c *ControlPlane) Compact(ctx context.Context) error {
	// All earlier revisions are smaller than that of a new write.
	revision, err := c.putEtcd(ctx, "localkube", "")
	if err != nil {
		return fmt.Errorf("writing to etcd: %w", err)
	}
	// In this key an API server that compacts tells the others up to where, and these
	// then drop what they have in their caches for lists.
	if _, err := c.putEtcd(ctx, "compact_rev_key", strconv.FormatInt(revision, 10)); err != nil {
		return fmt.Errorf("writing to etcd: %w", err)
	}
	if err := c.callEtcd(ctx, "kv/compaction", map[string]any{"revision": revision}, &struct{}{}); err != nil {
		return fmt.Errorf("compacting etcd: %w", err)
	}
	return nil
}

// putEtcd writes a key, and returns the revision of this write.
func (c *ControlPlane) putEtcd(ctx context.Context, key, value string) (int64, error) {
	var response struct {
		Header struct {
			Revision int64 `json:",string"`
		}
	}
	err := c.callEtcd(ctx, "kv/put", map[string][]byte{"key": []byte(key), "value": []byte(value)}, &response)
	return response.Header.Revision, err
}

// callEtcd calls a method of etcd, which serves them in JSON too.
func (c *ControlPlane) callEtcd(ctx context.Context, method string, request, response any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.socket())
	}}
	defer transport.CloseIdleConnections()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd/v3/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(post)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if body, err = io.ReadAll(answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status + ": " + string(body))
	}
	return json.Unmarshal(body, response)
}
