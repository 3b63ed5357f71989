// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

// TLS has the flags for the encryption of a server.
type TLS struct {
	// CertFile and PrivateKeyFile are the certificate and its key. If both are empty, a
	// certificate is made at the start.
	CertFile, PrivateKeyFile string
	// MinVersion is the lowest version of TLS.
	MinVersion string
}

// NewTLS returns the defaults.
func NewTLS() TLS { return TLS{MinVersion: "VersionTLS12"} }

// minVersions are the secure versions.
var minVersions = []string{"VersionTLS12", "VersionTLS13"}

// AddFlags adds the flags to a set. Their descriptions name the server.
func (t *TLS) AddFlags(flags *pflag.FlagSet, what string) {
	flags.StringVar(&t.CertFile, "tls-cert-file", t.CertFile, "File with the certificate of "+what+" and its intermediate certificates. "+
		"It is read again when it changes. Without it, a certificate is made at the start.")
	flags.StringVar(&t.PrivateKeyFile, "tls-private-key-file", t.PrivateKeyFile, "File with the private key of --tls-cert-file.")
	flags.StringVar(&t.MinVersion, "tls-min-version", t.MinVersion, "Lowest version of TLS of "+what+": "+strings.Join(minVersions, " or ")+".")
}

// Validate returns what is wrong with the flags.
func (t *TLS) Validate() field.ErrorList {
	var problems field.ErrorList
	if t.CertFile != "" && t.PrivateKeyFile == "" {
		problems = append(problems, field.Required(field.NewPath("--tls-private-key-file"), "--tls-cert-file needs the private key"))
	}
	if t.PrivateKeyFile != "" && t.CertFile == "" {
		problems = append(problems, field.Required(field.NewPath("--tls-cert-file"), "--tls-private-key-file needs the certificate"))
	}
	if !slices.Contains(minVersions, t.MinVersion) {
		problems = append(problems, field.NotSupported(field.NewPath("--tls-min-version"), t.MinVersion, minVersions))
	}
	return problems
}

// Config returns the configuration of a server: with the certificate of the flags, or
// with a new self-signed one for this name. notAfter returns when the present certificate
// expires.
func (t *TLS) Config(name string) (config *tls.Config, notAfter func() time.Time, err error) {
	version, err := cliflag.TLSVersion(t.MinVersion)
	if err != nil {
		return nil, nil, fmt.Errorf("reading --tls-min-version: %w", err)
	}
	config = &tls.Config{MinVersion: version, NextProtos: []string{"http/1.1"}}
	if t.CertFile == "" {
		certificate, err := makeCertificate(name)
		if err != nil {
			return nil, nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
		return config, func() time.Time { return certificate.Leaf.NotAfter }, nil
	}
	mounted, err := newMountedCertificate(t.CertFile, t.PrivateKeyFile)
	if err != nil {
		return nil, nil, err
	}
	config.GetCertificate = mounted.get
	return config, mounted.notAfter, nil
}

// makeCertificate returns a self-signed certificate for a year. Its key is an elliptic curve key:
// the search for the primes of an RSA key would take most of the start.
func makeCertificate(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generating a private key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		DNSNames:              []string{name, "localhost"},
		NotBefore:             now.Add(-time.Hour), // The clocks of clients differ.
		NotAfter:              now.AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generating a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("loading the generated certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// certificateInterval is the time between two looks at the files of a certificate. Only a
// new connection causes a look.
const certificateInterval = 5 * time.Second

// mountedCertificate is a certificate in files, for example those of a mounted Secret.
// It follows the files: a renewed certificate needs no restart. Its methods may be called
// from any goroutine.
type mountedCertificate struct {
	certFile, keyFile string

	mu   sync.Mutex
	pair *tls.Certificate
	// looked is the time of the last look, and failure what was wrong with the files then.
	looked  time.Time
	failure string
}

// newMountedCertificate fails if there is no good certificate in the files now.
func newMountedCertificate(certFile, keyFile string) (*mountedCertificate, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("loading the certificate of %s and %s: %w", certFile, keyFile, err)
	}
	return &mountedCertificate{certFile: certFile, keyFile: keyFile, looked: time.Now(), pair: &pair}, nil
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

// notAfter returns when the certificate expires that is served now.
func (m *mountedCertificate) notAfter() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pair.Leaf.NotAfter
}

// look loads the files. Bad ones may just be incomplete.
func (m *mountedCertificate) look(logger klog.Logger) {
	pair, err := tls.LoadX509KeyPair(m.certFile, m.keyFile)
	if err != nil {
		if err.Error() != m.failure {
			logger.Error(err, "Certificate cannot be used, the previous one stays", "notAfter", m.pair.Leaf.NotAfter)
		}
		m.failure = err.Error()
		return
	}
	if !pair.Leaf.Equal(m.pair.Leaf) {
		logger.Info("Certificate was renewed", "notAfter", pair.Leaf.NotAfter)
	}
	m.pair, m.failure = &pair, ""
}
