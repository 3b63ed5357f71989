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
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// issued is a certificate with its key, as in files.
type issued struct {
	serial    int64
	cert, key []byte
}

func issue(t *testing.T, serial int64) issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "nhc-controller"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return issued{
		serial: serial,
		cert:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
}

// mount is a directory with a certificate, and the configuration that serves it.
type mount struct {
	dir      string
	tls      TLS
	config   *tls.Config
	notAfter func() time.Time
	logger   klog.Logger
}

func newMount(t *testing.T, fill func(m *mount)) *mount {
	t.Helper()
	m := &mount{dir: t.TempDir(), tls: NewTLS(), logger: ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))}
	m.tls.CertFile, m.tls.PrivateKeyFile = filepath.Join(m.dir, "tls.crt"), filepath.Join(m.dir, "tls.key")
	fill(m)
	var err error
	m.config, m.notAfter, err = m.tls.Config("nhc-controller")
	require.NoError(t, err)
	return m
}

func (m *mount) write(t *testing.T, cert, key []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(m.tls.CertFile, cert, 0o600))
	require.NoError(t, os.WriteFile(m.tls.PrivateKeyFile, key, 0o600))
}

// serial returns that of the certificate which a client sees after a while.
func (m *mount) serial(t *testing.T, after time.Duration) int64 {
	t.Helper()
	time.Sleep(after)
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go func() { _ = tls.Server(far, m.config).HandshakeContext(klog.NewContext(t.Context(), m.logger)) }() // The client tells.
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	require.NoError(t, client.HandshakeContext(t.Context()))
	return client.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// logged returns the messages so far.
func (m *mount) logged() []string {
	var messages []string
	for _, entry := range m.logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
		messages = append(messages, entry.Message)
	}
	return messages
}

const (
	renewed  = "Certificate was renewed"
	unusable = "Certificate cannot be used, the previous one stays"
)

func TestCertificateRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := issue(t, 1), issue(t, 2)
		m := newMount(t, func(m *mount) { m.write(t, one.cert, one.key) })
		require.Equal(t, one.serial, m.serial(t, 0))
		require.Equal(t, one.serial, m.serial(t, time.Hour), "nothing has changed")
		m.write(t, two.cert, two.key)
		require.Equal(t, one.serial, m.serial(t, certificateInterval-1), "the files are not read for each connection")
		require.Equal(t, two.serial, m.serial(t, 1))
		require.Equal(t, []string{renewed}, m.logged())
	})
}

// TestCertificateExpiration: what is told is that of the certificate that is served.
func TestCertificateExpiration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hour := time.Now().Add(time.Hour).Unix()
		one := issue(t, 1)
		m := newMount(t, func(m *mount) { m.write(t, one.cert, one.key) })
		require.Equal(t, hour, m.notAfter().Unix())
		time.Sleep(time.Minute)
		two := issue(t, 2)
		m.write(t, two.cert, two.key)
		require.Equal(t, two.serial, m.serial(t, certificateInterval), "as a scrape does")
		require.Equal(t, hour+60, m.notAfter().Unix())

		made := NewTLS()
		_, notAfter, err := made.Config("nhc-controller")
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().AddDate(1, 0, 0), notAfter(), 48*time.Hour, "one made at the start lasts for a year")
	})
}

// A mounted Secret is a directory of links to links. The kubelet replaces one link.
func TestCertificateOfSecret(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := issue(t, 1), issue(t, 2)
		publish := func(m *mount, version string, pair issued) {
			require.NoError(t, os.Mkdir(filepath.Join(m.dir, version), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(m.dir, version, "tls.crt"), pair.cert, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(m.dir, version, "tls.key"), pair.key, 0o600))
			require.NoError(t, os.Symlink(version, filepath.Join(m.dir, "..data_tmp")))
			require.NoError(t, os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")))
		}
		m := newMount(t, func(m *mount) {
			publish(m, "..1", one)
			require.NoError(t, os.Symlink("..data/tls.crt", m.tls.CertFile))
			require.NoError(t, os.Symlink("..data/tls.key", m.tls.PrivateKeyFile))
		})
		require.Equal(t, one.serial, m.serial(t, 0))
		publish(m, "..2", two)
		require.NoError(t, os.RemoveAll(filepath.Join(m.dir, "..1")))
		require.Equal(t, two.serial, m.serial(t, certificateInterval))
		require.Equal(t, []string{renewed}, m.logged(), "there is no moment without a certificate")
	})
}

func TestCertificateUnusable(t *testing.T) {
	t.Parallel()
	one, two := issue(t, 1), issue(t, 2)
	for name, spoil := range map[string]func(t *testing.T, m *mount){
		"broken":         func(t *testing.T, m *mount) { m.write(t, []byte("no certificate"), one.key) },
		"half written":   func(t *testing.T, m *mount) { m.write(t, two.cert[:len(two.cert)/2], two.key) },
		"empty":          func(t *testing.T, m *mount) { m.write(t, nil, nil) },
		"half a pair":    func(t *testing.T, m *mount) { m.write(t, two.cert, one.key) },
		"the other half": func(t *testing.T, m *mount) { m.write(t, one.cert, two.key) },
		"half a key":     func(t *testing.T, m *mount) { m.write(t, two.cert, two.key[:len(two.key)/2]) },
		"no certificate": func(t *testing.T, m *mount) { require.NoError(t, os.Remove(m.tls.CertFile)) },
		"no key":         func(t *testing.T, m *mount) { require.NoError(t, os.Remove(m.tls.PrivateKeyFile)) },
		"a directory": func(t *testing.T, m *mount) {
			require.NoError(t, os.Remove(m.tls.PrivateKeyFile))
			require.NoError(t, os.Mkdir(m.tls.PrivateKeyFile, 0o700))
		},
		"the key in public": func(t *testing.T, m *mount) { m.write(t, two.key, two.key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMount(t, func(m *mount) { m.write(t, one.cert, one.key) })
				spoil(t, m)
				for range 10 {
					require.Equal(t, one.serial, m.serial(t, certificateInterval), "the previous one stays")
				}
				require.Equal(t, []string{unusable}, m.logged(), "one complaint")
				require.NoError(t, os.RemoveAll(m.tls.PrivateKeyFile))
				m.write(t, two.cert, two.key)
				require.Equal(t, two.serial, m.serial(t, certificateInterval), "until it is complete")
				require.Equal(t, []string{unusable, renewed}, m.logged())
				text := m.logger.GetSink().(ktesting.Underlier).GetBuffer().String()
				require.NotContains(t, text, "PRIVATE KEY", "no secret is logged")
			})
		})
	}
}

func TestCertificateAtTheStart(t *testing.T) {
	t.Parallel()
	one, two := issue(t, 1), issue(t, 2)
	for name, tc := range map[string]struct {
		fill func(m *mount)
		want string
	}{
		"no files":    {fill: func(*mount) {}, want: "tls.crt: no such file"},
		"no key":      {fill: func(m *mount) { m.write(t, one.cert, one.key); _ = os.Remove(m.tls.PrivateKeyFile) }, want: "tls.key: no such file"},
		"another key": {fill: func(m *mount) { m.write(t, one.cert, two.key) }, want: "private key does not match"},
		"half a pair": {fill: func(m *mount) { m.write(t, one.cert[:40], one.key) }, want: "tls.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &mount{dir: t.TempDir(), tls: NewTLS()}
			m.tls.CertFile, m.tls.PrivateKeyFile = filepath.Join(m.dir, "tls.crt"), filepath.Join(m.dir, "tls.key")
			tc.fill(m)
			_, _, err := m.tls.Config("nhc-controller")
			require.ErrorContains(t, err, tc.want, "22.6: a failed start")
		})
	}
}

func TestTLSMinVersion(t *testing.T) {
	t.Parallel()
	for minimum, served := range map[string]map[uint16]bool{
		"VersionTLS12": {tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true},
		"VersionTLS13": {tls.VersionTLS11: false, tls.VersionTLS12: false, tls.VersionTLS13: true},
	} {
		flags := TLS{MinVersion: minimum}
		config, _, err := flags.Config("nhc-controller")
		require.NoError(t, err)
		for version, want := range served {
			near, far := net.Pipe()
			go func() { _ = tls.Server(far, config).HandshakeContext(t.Context()); _ = far.Close() }()                                             // The client tells.
			err := tls.Client(near, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}).HandshakeContext(t.Context()) //nolint:gosec // that is the test
			require.Equal(t, want, err == nil, "%s, client %s: %v", minimum, tls.VersionName(version), err)
			require.NoError(t, near.Close())
		}
	}
}

func TestValidateTLS(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*TLS)
		want   string
	}{
		"no files":               {change: func(*TLS) {}},
		"a pair":                 {change: func(f *TLS) { f.CertFile, f.PrivateKeyFile = "a", "b" }},
		"a certificate only":     {change: func(f *TLS) { f.CertFile = "a" }, want: "--tls-private-key-file: Required value: --tls-cert-file needs the private key"},
		"a key only":             {change: func(f *TLS) { f.PrivateKeyFile = "a" }, want: "--tls-cert-file: Required value: --tls-private-key-file needs the certificate"},
		"TLS 1.3":                {change: func(f *TLS) { f.MinVersion = "VersionTLS13" }},
		"a version that is weak": {change: func(f *TLS) { f.MinVersion = "VersionTLS11" }, want: `--tls-min-version: Unsupported value: "VersionTLS11": supported values: "VersionTLS12", "VersionTLS13"`},
		"a version of no name":   {change: func(f *TLS) { f.MinVersion = "" }, want: "--tls-min-version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := NewTLS()
			tc.change(&flags)
			problems := flags.Validate()
			if tc.want == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.True(t, strings.HasPrefix(problems[0].Error(), tc.want), problems[0].Error())
		})
	}
}
