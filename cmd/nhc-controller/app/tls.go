// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	certutil "k8s.io/client-go/util/cert"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

// tlsConfig returns how the metrics are served: with the certificate of the flags,
// or with one made now, which no authority has signed.
func (o *Options) tlsConfig() (*tls.Config, error) {
	version, err := cliflag.TLSVersion(o.TLSMinVersion)
	if err != nil {
		return nil, fmt.Errorf("reading --tls-min-version: %w", err)
	}
	config := &tls.Config{MinVersion: version, NextProtos: []string{"http/1.1"}}
	if o.HTTP2 {
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	if o.TLSCertFile == "" {
		certificate, err := makeCertificate()
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
		return config, nil
	}
	mounted, err := newMountedCertificate(o.TLSCertFile, o.TLSPrivateKeyFile)
	if err != nil {
		return nil, err
	}
	config.GetCertificate = mounted.get
	return config, nil
}

func makeCertificate() (tls.Certificate, error) {
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("nhc-controller", nil, []string{"localhost"})
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generating a certificate: %w", err)
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("loading the generated certificate: %w", err)
	}
	return certificate, nil
}

// certificateInterval is the time between two looks at the files of a certificate.
// Only a new connection has them looked at.
const certificateInterval = 5 * time.Second

// mountedCertificate is a certificate in files, as of a mounted Secret. It follows
// them: a renewed certificate needs no restart. Its methods may be called from any
// goroutine.
type mountedCertificate struct {
	certFile, keyFile string

	mu   sync.Mutex
	pair *tls.Certificate
	// looked is the time of the last look, and seen what it was that was seen then,
	// good or bad: what has not changed is not loaded, nor complained about, again.
	looked time.Time
	seen   [sha256.Size]byte
}

// newMountedCertificate fails if there is no good certificate in the files now.
func newMountedCertificate(certFile, keyFile string) (*mountedCertificate, error) {
	m := &mountedCertificate{certFile: certFile, keyFile: keyFile, looked: time.Now()}
	pair, seen, err := m.load()
	if err != nil {
		return nil, err
	}
	m.pair, m.seen = pair, seen
	return m, nil
}

// get returns the certificate for a new connection. It has the signature of
// [tls.Config.GetCertificate].
func (m *mountedCertificate) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); now.Sub(m.looked) >= certificateInterval {
		m.looked = now
		m.look(klog.FromContext(hello.Context()))
	}
	return m.pair, nil
}

// look takes over what is in the files, if it is new and good. What is bad may just
// not be complete yet.
func (m *mountedCertificate) look(logger klog.Logger) {
	pair, seen, err := m.load()
	if seen == m.seen {
		return
	}
	m.seen = seen
	if err != nil {
		logger.Error(err, "Certificate cannot be used, the previous one stays", "notAfter", m.pair.Leaf.NotAfter)
		return
	}
	m.pair = pair
	logger.Info("Certificate was renewed", "notAfter", pair.Leaf.NotAfter)
}

// load reads the files. What it has seen is a hash, also of what cannot be used.
func (m *mountedCertificate) load() (pair *tls.Certificate, seen [sha256.Size]byte, err error) {
	certPEM, err := os.ReadFile(m.certFile)
	if err != nil {
		return nil, sha256.Sum256([]byte(err.Error())), fmt.Errorf("reading the certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(m.keyFile)
	if err != nil {
		return nil, sha256.Sum256([]byte(err.Error())), fmt.Errorf("reading the private key: %w", err)
	}
	certSum, keySum := sha256.Sum256(certPEM), sha256.Sum256(keyPEM)
	seen = sha256.Sum256(append(certSum[:], keySum[:]...))
	loaded, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, seen, fmt.Errorf("loading the certificate of %s and %s: %w", m.certFile, m.keyFile, err)
	}
	return &loaded, seen, nil
}
