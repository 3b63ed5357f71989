// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// consoleLink is the kind of the links of OpenShift's web console, with what it demands of them.
var consoleLink = optionalKind{
	kind:     "ConsoleLink",
	resource: schema.GroupVersionResource{Group: "console.openshift.io", Version: "v1", Resource: "consolelinks"},
	manifest: strings.NewReplacer("config.openshift.io", "console.openshift.io", "ClusterVersion", "ConsoleLink", "clusterversions", "consolelinks", "clusterversion", "consolelink",
		"spec: {type: object, x-kubernetes-preserve-unknown-fields: true}", `spec:
            type: object
            required: [href, location, text]
            properties:
              href: {type: string, pattern: "^https://"}
              location: {type: string, enum: [ApplicationMenu, HelpMenu, UserMenu, NamespaceDashboard]}
              text: {type: string}
              applicationMenu:
                type: object
                required: [section]
                properties: {section: {type: string}, imageURL: {type: string}}`,
	).Replace(clusterVersion.manifest),
}

// TestConsoleLink: with the patch of docs/dashboard-in-cluster.md, the link leads to the proxy of the user.
func TestConsoleLink(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.createNamespaces(t, "openshift-etcd")
	c.installOptional(t, consoleLink)
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		c.installOptional(t, untypedKind("monitoring.coreos.com", "v1", kind, false))
	}
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "dashboard-in-cluster.md"))
	require.NoError(t, err)
	patches := regexp.MustCompile("(?ms)^patches:\n.*?^```$").Find(docs)
	require.NotEmpty(t, patches)
	dir := t.TempDir()
	require.NoError(t, deploy.WriteKustomization(dir, deploy.Namespace, "openshift", "dashboard", "console-link"))
	path := filepath.Join(dir, "kustomization.yaml")
	kustomization, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(append(kustomization, '\n'), strings.TrimSuffix(string(patches), "```")...), 0o600))
	_, err = c.Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "-k", dir)
	require.NoError(t, err)
	link, err := c.dynamic.Resource(consoleLink.resource).Get(t.Context(), "nhc-dashboard", metav1.GetOptions{})
	require.NoError(t, err)
	href, _, _ := unstructured.NestedString(link.Object, "spec", "href")
	require.Equal(t, "https://node-health.apps.example.com/", href)
	section, _, _ := unstructured.NestedString(link.Object, "spec", "applicationMenu", "section")
	require.NotEmpty(t, section, "the kind has it")
}
