// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// metricsHost is what scrapers call the metrics by (Service nhc-controller-metrics).
const metricsHost = "nhc-controller-metrics.nhc-system.svc"

// mountedSecret is a directory with a certificate as the kubelet mounts a Secret:
// links to links. An update replaces one link.
type mountedSecret struct{ dir string }

func newMountedSecret(t *testing.T) *mountedSecret {
	t.Helper()
	m := &mountedSecret{dir: t.TempDir()}
	for _, file := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", file), filepath.Join(m.dir, file)))
	}
	return m
}

func (m *mountedSecret) flags() []string {
	return []string{"--tls-cert-file=" + filepath.Join(m.dir, "tls.crt"), "--tls-private-key-file=" + filepath.Join(m.dir, "tls.key")}
}

// publish replaces the files at once.
func (m *mountedSecret) publish(t *testing.T, version string, cert, key []byte) {
	t.Helper()
	dir, link := filepath.Join(m.dir, ".."+version), filepath.Join(m.dir, "..data_tmp")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	require.NoError(t, os.Symlink(filepath.Base(dir), link))
	require.NoError(t, os.Rename(link, filepath.Join(m.dir, "..data")))
}

// issueCertificate returns a certificate for metricsHost, which has signed itself.
func issueCertificate(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: metricsHost}, DNSNames: []string{metricsHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// scraper reads metrics with connections that are verified.
type scraper struct {
	url, token string
	client     *http.Client
}

// newScraper returns one that trusts certificates. Each request has a connection of
// its own.
func newScraper(t *testing.T, p *localkube.Process, token string, trusted ...[]byte) *scraper {
	t.Helper()
	roots := x509.NewCertPool()
	for _, cert := range trusted {
		require.True(t, roots.AppendCertsFromPEM(cert))
	}
	return &scraper{
		url: "https://" + address(t, p, "metrics") + "/metrics", token: token,
		client: &http.Client{Timeout: patience.Limit, Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: metricsHost, MinVersion: tls.VersionTLS12},
		}},
	}
}

// scrape returns the status code and the serial number of the certificate.
func (s *scraper) scrape(t *testing.T) (code int, serial int64, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+s.token)
	response, err := s.client.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.TLS.PeerCertificates[0].SerialNumber.Int64(), err
}

func (s *scraper) requireScrape(t *testing.T, serial int64) {
	t.Helper()
	code, got, err := s.scrape(t)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, serial, got)
}

// testRotation renews the certificate of a controller that runs, well and badly. At
// the end it is the second one.
func testRotation(t *testing.T, p *localkube.Process, mount *mountedSecret, token string, first, second, secondKey []byte) {
	t.Helper()
	one, two := newScraper(t, p, token, first), newScraper(t, p, token, second)
	one.requireScrape(t, 1)
	_, _, err := two.scrape(t)
	require.ErrorAs(t, err, new(*tls.CertificateVerificationError))

	mount.publish(t, "broken", second[:len(second)/2], secondKey)
	patience.Eventually(t, "the broken certificate is noticed", func() bool {
		one.requireScrape(t, 1)
		return len(logged(t, p, "Certificate cannot be used, the previous one stays")) == 1
	})
	mount.publish(t, "second", second, secondKey)
	patience.Eventually(t, "the new certificate is served", func() bool {
		code, _, err := two.scrape(t)
		return err == nil && code == http.StatusOK
	})
	two.requireScrape(t, 2)
	_, _, err = one.scrape(t)
	require.ErrorAs(t, err, new(*tls.CertificateVerificationError))
	require.Len(t, logged(t, p, "Certificate cannot be used, the previous one stays"), 1)
	require.Len(t, logged(t, p, "Certificate was renewed"), 1)
	requireRunning(t, p)
}
