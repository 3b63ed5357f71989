// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// chartDir is where the chart is in the repository.
const chartDir = "charts/nhc-controller"

// source is a manifest that becomes a template as it is, except for the namespace, the labels
// and a condition.
type source struct {
	manifest  string // In manifests.
	template  string // In templates of the chart.
	condition string // Of the template language; empty means always.
	keep      bool   // Whether its objects stay when the chart is uninstalled.
	patches   []patch
}

// patch is a JSON patch with which a component adds a rule to a ClusterRole.
type patch struct {
	role      string
	manifest  string
	condition string // When the chart has what the component has.
}

const machines = "components/machine-health-check/"

var sources = []source{
	{manifest: "base/crd/nodehealthchecks.yaml", template: "crd.yaml", condition: ".Values.crds.install", keep: true},
	{manifest: "base/crd/remediationbudgets.yaml", template: "crd-remediationbudgets.yaml", condition: ".Values.crds.install", keep: true},
	{manifest: "base/admission.yaml", template: "admission.yaml"},
	{manifest: "base/admission-nodes.yaml", template: "admission-nodes.yaml"},
	{manifest: "base/admission-pause.yaml", template: "admission-pause.yaml"},
	{manifest: "base/quota.yaml", template: "quota.yaml", condition: "and .Values.resourceQuota.create .Values.priorityClassName"},
	{manifest: "base/rbac/controller.yaml", template: "rbac-controller.yaml"},
	{manifest: "base/rbac/aggregation.yaml", template: "rbac-aggregation.yaml"},
	{manifest: "base/rbac/users.yaml", template: "rbac-users.yaml", patches: []patch{
		{role: "nhc-view", manifest: machines + "without-crd/view.yaml", condition: ".Values.machineHealthCheck.enabled"},
		{role: "nhc-operate", manifest: machines + "without-crd/view.yaml", condition: ".Values.machineHealthCheck.enabled"},
		{role: "nhc-aggregate-to-view", manifest: machines + "without-crd/view.yaml", condition: ".Values.machineHealthCheck.enabled"},
		{role: "nhc-edit", manifest: machines + "without-crd/edit.yaml", condition: ".Values.machineHealthCheck.enabled"},
	}},
	{manifest: "base/flowcontrol.yaml", template: "flowcontrol.yaml"},
	{manifest: "base/networkpolicy.yaml", template: "networkpolicy.yaml", condition: ".Values.networkPolicy.enabled"},
	{manifest: "components/openshift/rbac.yaml", template: "openshift-rbac.yaml", condition: ".Values.openshift.enabled"},
	{manifest: "components/openshift/monitoring.yaml", template: "openshift-monitoring.yaml", condition: ".Values.openshift.enabled"},
	{manifest: "components/cluster-api/rbac.yaml", template: "cluster-api-rbac.yaml", condition: ".Values.clusterAPI.enabled"},
	// The CRD of OpenShift is not to be replaced.
	{manifest: machines + "crd/machinehealthchecks.yaml", template: "machine-health-check-crd.yaml", condition: "and .Values.machineHealthCheck.enabled .Values.crds.install (not .Values.openshift.enabled)", keep: true},
	{manifest: machines + "without-crd/admission.yaml", template: "machine-health-check-admission.yaml", condition: ".Values.machineHealthCheck.enabled"},
	{manifest: machines + "without-crd/admission-machines.yaml", template: "machine-health-check-admission-machines.yaml", condition: ".Values.machineHealthCheck.enabled"},
	{manifest: machines + "without-crd/rbac.yaml", template: "machine-health-check-rbac.yaml", condition: ".Values.machineHealthCheck.enabled"},
	{manifest: "components/dashboard/rbac.yaml", template: "dashboard-rbac.yaml", condition: ".Values.dashboard.enabled"},
	{manifest: "components/dashboard/networkpolicy.yaml", template: "dashboard-networkpolicy.yaml", condition: "and .Values.dashboard.enabled .Values.networkPolicy.enabled"},
	{manifest: "monitoring/servicemonitor.yaml", template: "servicemonitor.yaml", condition: "and .Values.monitoring.enabled .Values.monitoring.serviceMonitor"},
}

// written are the manifests whose templates are written by hand, because they have values.
var written = []string{"base/namespaces.yaml", "base/deployment.yaml"}

// copied are the files that templates include. Prometheus and Grafana have templates of
// their own in them.
var copied = map[string]string{
	"monitoring/rules.yaml":     "files/rules.yaml",
	"monitoring/dashboard.json": "files/dashboard.json",
}

// generate returns the generated files of the chart, by their path in it.
func generate(root string) (map[string][]byte, error) {
	manifests := filepath.Join(root, "manifests")
	if err := checkComplete(manifests); err != nil {
		return nil, err
	}
	readme, err := readme(filepath.Join(root, chartDir))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"README.md": readme}
	for _, s := range sources {
		content, err := os.ReadFile(filepath.Join(manifests, s.manifest))
		if err != nil {
			return nil, err
		}
		rules := map[string]string{}
		for _, p := range s.patches {
			if rules[p.role], err = p.render(manifests); err != nil {
				return nil, err
			}
		}
		template, err := s.render(string(content), rules)
		if err != nil {
			return nil, fmt.Errorf("making a template of %s: %w", s.manifest, err)
		}
		files["templates/"+s.template] = []byte(template)
	}
	for from, to := range copied {
		content, err := os.ReadFile(filepath.Join(manifests, from))
		if err != nil {
			return nil, err
		}
		// Of the rules, without the comments above them: they are part of an object.
		if i := bytes.Index(content, []byte("\ngroups:\n")); i >= 0 {
			content = content[i+1:]
		}
		files[to] = content
	}
	return files, nil
}

// checkComplete requires that everything of base is in the chart.
func checkComplete(manifests string) error {
	content, err := os.ReadFile(filepath.Join(manifests, "base", "kustomization.yaml"))
	if err != nil {
		return err
	}
	var kustomization struct{ Resources []string }
	if err := yaml.Unmarshal(content, &kustomization); err != nil {
		return fmt.Errorf("reading the kustomization of base: %w", err)
	}
	for _, resource := range kustomization.Resources {
		path := "base/" + resource
		isSource := slices.ContainsFunc(sources, func(s source) bool { return s.manifest == path })
		if !isSource && !slices.Contains(written, path) {
			return fmt.Errorf("%s is not in the chart, see sources in hack/chart", path)
		}
	}
	return nil
}

// The namespaces and the priority class that are values of the chart, as they may stand in
// a manifest. A value is quoted: a namespace may look like a number.
var values = strings.NewReplacer(
	"namespace: nhc-system\n", "namespace: {{ .Release.Namespace | quote }}\n",
	"namespaces: [nhc-system]\n", "namespaces: [{{ .Release.Namespace | quote }}]\n",
	"'system:serviceaccount:nhc-system:nhc-controller'", "'system:serviceaccount:{{ .Release.Namespace }}:nhc-controller'",
	"namespace: medik8s-leases\n", "namespace: {{ .Values.leaseNamespace.name | quote }}\n",
	"    interval: 30s\n", "    interval: {{ .Values.monitoring.interval }}\n",
	"values: [system-cluster-critical]\n", "values: [{{ .Values.priorityClassName | quote }}]\n",
)

// render returns the rule that the patch adds, with its condition, as it stands at the end of
// a ClusterRole.
func (p patch) render(manifests string) (string, error) {
	content, err := os.ReadFile(filepath.Join(manifests, p.manifest))
	if err != nil {
		return "", err
	}
	var operations []struct{ Op, Path string }
	if err := yaml.Unmarshal(content, &operations); err != nil {
		return "", fmt.Errorf("reading %s: %w", p.manifest, err)
	}
	_, value, found := strings.Cut(string(content), "  value:\n    ")
	if len(operations) != 1 || operations[0].Op != "add" || operations[0].Path != "/rules/-" || !found {
		return "", fmt.Errorf("%s does more than add a rule", p.manifest)
	}
	return "{{- if " + p.condition + " }}\n- " + strings.ReplaceAll(value, "\n    ", "\n  ") + "{{- end }}\n", nil
}

// render makes a template of a manifest. The rules are added at the end of the objects with
// these names.
func (s source) render(manifest string, rules map[string]string) (string, error) {
	if strings.Contains(manifest, "{{") {
		return "", errors.New("it has {{, which is special in a template")
	}
	var body strings.Builder
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		labelled, err := addMetadata(strings.TrimSuffix(document, "\n")+"\n", s.keep)
		if err != nil {
			return "", err
		}
		for head, lines := range added {
			if strings.Contains(document, head) {
				labelled = strings.Replace(labelled, allLabels, allLabels+lines, 1)
			}
		}
		if body.Len() > 0 {
			body.WriteString("---\n")
		}
		body.WriteString(labelled)
		if _, name, named := strings.Cut(document, metadata+"  name: "); named {
			name, _, _ = strings.Cut(name, "\n")
			body.WriteString(rules[name])
		}
	}
	template := values.Replace(body.String())
	for line := range strings.Lines(template) {
		code, _, _ := strings.Cut(line, "#")
		if strings.Contains(code, "nhc-system") || strings.Contains(code, "medik8s-leases") {
			return "", fmt.Errorf("a namespace is where none is expected: %s", strings.TrimSpace(line))
		}
	}
	const head = "{{- /* Generated by hack/update-chart.sh from manifests/%s. DO NOT EDIT. */}}\n"
	template = fmt.Sprintf(head, s.manifest) + template
	if s.condition != "" {
		template = "{{- if " + s.condition + " }}\n" + template + "{{- end }}\n"
	}
	return template, nil
}

const (
	metadata    = "\nmetadata:\n"
	labels      = "  labels:\n"
	annotations = "  annotations:\n"
	nameLabel   = "    app.kubernetes.io/name: nhc-controller\n"
	allLabels   = "    {{- include \"nhc-controller.labels\" . | nindent 4 }}\n"
	keepPolicy  = "    helm.sh/resource-policy: keep\n"
)

// added is what values add to the metadata of objects, after the labels, by how the object begins.
var added = map[string]string{
	"kind: ServiceMonitor" + metadata + "  name: nhc-controller\n": "    {{- with .Values.monitoring.labels }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n",
	"kind: ServiceAccount" + metadata + "  name: nhc-controller\n": "  {{- with .Values.serviceAccount.annotations }}\n  annotations:\n    {{- toYaml . | nindent 4 }}\n  {{- end }}\n",
}

// addMetadata adds the labels of the chart to the metadata of an object, and the annotation
// that keeps it when the chart is uninstalled.
func addMetadata(document string, keep bool) (string, error) {
	before, after, found := strings.Cut(document, metadata)
	if !found || strings.Contains(after, metadata) {
		return "", fmt.Errorf("an object has no metadata, or more than one: %.100s", document)
	}
	end := endOfBlock(after)
	own, rest := after[:end], after[end:]
	own = strings.Replace(own, nameLabel, "", 1) // It is among those of the chart.
	own = addTo(own, labels, allLabels)
	if keep {
		own = addTo(own, annotations, keepPolicy)
	}
	return before + metadata + own + rest, nil
}

// addTo adds a line to a map in the metadata, which it makes if there is none.
func addTo(own, key, line string) string {
	if before, after, found := strings.Cut(own, key); found {
		return before + key + line + after
	}
	return own + key + line
}

// endOfBlock returns where the first line begins that is not indented.
func endOfBlock(text string) int {
	end := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, " ") {
			break
		}
		end += len(line)
	}
	return end
}
