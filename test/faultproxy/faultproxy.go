// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faultproxy stands between the controller and the API server, so that a
// test can let something happen right before or right after a certain request, or to the
// connections. Like the API server, it speaks HTTP/2.
package faultproxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
)

// Hooks are called by the goroutine that serves the request; the client waits. Both
// are required, and may be called from several goroutines.
type Hooks struct {
	// Before is called before the request is passed on. False swallows the request:
	// the API server never sees it, and its stream is reset.
	Before func(*http.Request) bool
	// After is called when the API server has answered, before the client gets the
	// answer. False swallows the answer: its stream is reset. The header "Connection: close"
	// sends GOAWAY with it, as that of an API server with --goaway-chance does.
	After func(*http.Request, *http.Response) bool
}

// Proxy is a running proxy.
type Proxy struct {
	server *http.Server
	line   *line
	url    string
	caPEM  []byte
}

var errSwallowed = errors.New("swallowed by the test")

// Start starts a proxy to the API server of config on a loopback port.
func Start(config *rest.Config, hooks Hooks) (*Proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("parsing the API server's address: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	certificate, err := selfSigned()
	if err != nil {
		return nil, fmt.Errorf("generating a certificate: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It is at once.
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	discard := log.New(io.Discard, "", 0) // Broken connections are what this is for.
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		},
		FlushInterval: -1, // Watches.
		ModifyResponse: func(response *http.Response) error {
			if !hooks.After(response.Request, response) {
				return errSwallowed
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     discard,
	}
	p := &Proxy{
		line:  &line{Listener: listener, conns: map[*conn]struct{}{}},
		url:   "https://" + listener.Addr().String(),
		caPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}),
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !hooks.Before(r) {
				panic(http.ErrAbortHandler)
			}
			forward.ServeHTTP(w, r)
		}),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ErrorLog:  discard,
	}
	go func() { _ = p.server.ServeTLS(p.line, "", "") }() // Ends with Stop.
	return p, nil
}

// selfSigned returns a certificate for loopback. To find an RSA key takes long on a busy
// machine.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(1, 0, 0),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// Config returns config with the proxy in place of the API server.
func (p *Proxy) Config(config *rest.Config) *rest.Config {
	proxied := rest.CopyConfig(config)
	proxied.Host = p.url
	proxied.CAData = p.caPEM
	return proxied
}

// SetWay changes what becomes of the connections of clients.
func (p *Proxy) SetWay(way Way) { p.line.set(way) }

// Connections returns how many connections clients have opened so far.
func (p *Proxy) Connections() int {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	return p.line.accepted
}

// Stop stops the proxy and breaks all connections through it.
func (p *Proxy) Stop() error { return p.server.Close() }
