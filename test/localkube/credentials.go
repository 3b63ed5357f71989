// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// identity is a user that the API server knows by a token.
type identity struct {
	user, group, token string
}

// identities of a control plane. The controllers act as they do elsewhere, under
// RBAC, so that neither roles nor audit differ from a real cluster.
type identities struct {
	admin, controllerManager, scheduler identity
	nodes                               []identity // Those of Options.Network.
}

func newIdentities() identities {
	return identities{
		admin:             identity{"admin", "system:masters", rand.Text()},
		controllerManager: identity{"system:kube-controller-manager", "system:authenticated", rand.Text()},
		scheduler:         identity{"system:kube-scheduler", "system:authenticated", rand.Text()},
	}
}

// tokenFile returns the content of --token-auth-file.
func (i identities) tokenFile() []byte {
	var lines strings.Builder
	for _, id := range append([]identity{i.admin, i.controllerManager, i.scheduler}, i.nodes...) {
		fmt.Fprintf(&lines, "%s,%s,%s,%q\n", id.token, id.user, id.user, id.group)
	}
	return []byte(lines.String())
}

// serviceAccountKey returns a new private key that signs ServiceAccount tokens.
func serviceAccountKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// config returns a client configuration without a client-side rate limit.
func (c *ControlPlane) config(token string) *rest.Config {
	host := loopback
	if c.opts.Network != nil {
		host = "localhost" // So the certificate calls one that is reached by all addresses.
	}
	return &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, strconv.Itoa(c.port)),
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.servingCertificate},
		QPS:             -1,
	}
}

// AdminConfig returns the configuration of a client that may do everything, as
// user "admin", without a client-side rate limit.
func (c *ControlPlane) AdminConfig() *rest.Config {
	return c.config(c.identities.admin.token)
}

// AdminKubeconfig returns the path of a kubeconfig file with what AdminConfig
// says.
func (c *ControlPlane) AdminKubeconfig() string {
	return filepath.Join(c.dir, "admin.kubeconfig")
}

// ServiceAccountConfig returns the configuration of a client that is a
// ServiceAccount, subject to RBAC, with a token for a day and without a
// client-side rate limit. The ServiceAccount must exist.
func (c *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return nil, err
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64((24 * time.Hour).Seconds()))},
	}
	request, err = client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return c.config(request.Status.Token), nil
}

// WriteKubeconfig writes a configuration that this package made into a kubeconfig
// file that only its owner can read.
func WriteKubeconfig(path string, cfg *rest.Config) error {
	const name = "localkube"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: cfg.BearerToken}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// writeFile writes a file of the control plane that only its owner can read.
func (c *ControlPlane) writeFile(name string, content []byte) error {
	return os.WriteFile(filepath.Join(c.dir, name), content, 0o600)
}
