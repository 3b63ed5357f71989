// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os"
	"path/filepath"
	"strings"
)

// PlatformKinds are what the components expect of OpenShift and of the Prometheus operator.
// What is in the objects of the latter is for make verify-monitoring to check.
var PlatformKinds = prometheusKind("ServiceMonitor") + prometheusKind("PrometheusRule") + `
apiVersion: v1
kind: Namespace
metadata:
  name: openshift-etcd
`

// prometheusKind is the CRD of a kind of the Prometheus operator, with any content.
func prometheusKind(kind string) string {
	return strings.NewReplacer("KIND", kind, "NAME", strings.ToLower(kind)).Replace(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: NAMEs.monitoring.coreos.com
spec:
  group: monitoring.coreos.com
  names: {kind: KIND, listKind: KINDList, plural: NAMEs, singular: NAME}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
`)
}

// WriteKustomization writes to a directory what docs/installation.md has users write: base
// with components. The namespace is the parameter of the component of that name.
func WriteKustomization(dir, namespace string, components ...string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // kustomize takes relative paths only.
		return err
	}
	manifests, err := filepath.Rel(dir, filepath.Join(root, "manifests"))
	if err != nil {
		return err
	}
	var content strings.Builder
	content.WriteString("resources:\n- " + filepath.Join(manifests, "base") + "\n- namespace.yaml\ncomponents:\n")
	for _, component := range components {
		content.WriteString("- " + filepath.Join(manifests, "components", component) + "\n")
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content.String()), 0o600); err != nil {
		return err
	}
	parameter := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: nhc-controller-namespace\n" +
		"  annotations: {config.kubernetes.io/local-config: \"true\"}\ndata: {namespace: " + namespace + "}\n"
	return os.WriteFile(filepath.Join(dir, "namespace.yaml"), []byte(parameter), 0o600)
}
