// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/lint"
)

// checkNamed is a NodeHealthCheck with these fields in its spec, and all that lint wants. The fields begin in line 11.
func checkNamed(name, fields string) string {
	return `apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: ` + name + `}
spec:
  selector:
    matchExpressions:
    - {key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}
    - {key: node-role.kubernetes.io/etcd, operator: DoesNotExist}
  stormCooldownDuration: 5m
  remediationTemplate: {apiVersion: example.com/v1, kind: RebootTemplate, name: reboot, namespace: remediators}
` + fields
}

// repository is shaped as GitOps repositories are.
func repository() map[string]string {
	return map[string]string{
		"apps/shop.yaml":                     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shop}\n",
		"apps/dashboards.json":               `[{"a": 1}]`,
		"apps/broken.yml":                    "a: [\n",
		"apps/sync.yaml":                     "apiVersion: argoproj.io/v1alpha1\nkind: Application\nspec: {ignoreDifferences: [{group: remediation.medik8s.io, kind: NodeHealthCheck}]}\n",
		"checks/base/kustomization.yaml":     "resources: [pool.yaml]\n",
		"checks/base/pool.yaml":              checkNamed("pool", "  maxUnhealthy: 10%\n"),
		"checks/large/kustomization.yml":     "resources: [../base]\npatches:\n- path: patches/pool.yaml\n- path: ops.yaml\n  target: {kind: NodeHealthCheck}\n",
		"checks/large/patches/pool.yaml":     "apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck\nmetadata: {name: pool}\nspec: {maxUnhealthy: 5}\n",
		"checks/large/ops.yaml":              "- {op: remove, path: /spec/maxUnhealthy}\n",
		"charts/checks/Chart.yaml":           "apiVersion: v2\nname: checks\nversion: 1.0.0\n",
		"charts/checks/values.yaml":          "pools: [a, b]\nlimit: 10%\n",
		"charts/checks/templates/pools.yaml": "{{- range .Values.pools }}\n---\n" + checkNamed("{{ . }}", "  maxUnhealthy: {{ $.Values.limit }}\n") + "{{- end }}\n",
		"charts/checks/templates/one.yaml":   checkNamed("one", "  maxUnhealthy: '{{ .Values.limit }}'\n"),
		"flux/substituted.yaml":              checkNamed("${POOL}", "  maxUnhealthy: 1\n"),
		"policies/nhc.yaml":                  "apiVersion: policy.open-cluster-management.io/v1\nkind: ConfigurationPolicy\nmetadata: {name: paused}\nspec:\n  object-templates:\n  - complianceType: musthave\n    objectDefinition:\n      apiVersion: remediation.medik8s.io/v1alpha1\n      kind: NodeHealthCheck\n      metadata: {name: pool}\n      spec: {maxUnhealthy: 1}\n",
		"policies/old.yaml":                  "apiVersion: policy.open-cluster-management.io/v1\nkind: ConfigurationPolicy\nmetadata: {name: old}\nspec:\n  object-templates:\n  - complianceType: mustnothave\n    objectDefinition: {apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, metadata: {name: old}}\n",
		"secrets/bmc.enc.yaml":               "apiVersion: v1\nkind: Secret\nmetadata: {name: bmc}\nstringData: {password: 'ENC[AES256_GCM,data:AA==]'}\nsops: {mac: 'ENC[AES256_GCM,data:AA==]'}\n",
		"secrets/locked.yaml":                "\x00GITCRYPT\x00\xff\xfe",
		"empty.yaml":                         "",
		"comments.yaml":                      "# nothing yet\n",
		"README.md":                          "kind: NodeHealthCheck",
	}
}

// lintTree lints files as the job of the documentation does.
func lintTree(t *testing.T, files map[string]string) (report lint.Report, text string, code int) {
	t.Helper()
	directory := t.TempDir()
	for name, content := range files {
		path := filepath.Join(directory, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	args := []string{"lint", "-f", directory, "-R", "--offline", "--strict"}
	text, _, code = run(t, args...)
	out, errOut, _ := run(t, append(args, "-o", "json")...)
	require.NotEmpty(t, out, errOut)
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(out, directory+"/", "")), &report))
	return report, strings.ReplaceAll(text, directory+"/", ""), code
}

// TestLintRepository: a whole repository can be linted: what is not ours, and what has to be rendered first, is one line
// for each file.
func TestLintRepository(t *testing.T) {
	t.Parallel()
	_, text, code := lintTree(t, repository())
	require.Equal(t, ExitOK, code, text)
	const rendered, built = "skipped, a template has to be rendered first", ", which has to be built first"
	want := []string{
		"apps/broken.yml: skipped, it is neither YAML nor JSON, and names no kind that there are rules about",
		"apps/dashboards.json: skipped, it is no Kubernetes object, which has fields",
		"apps/shop.yaml: skipped, there are no rules about this kind",
		"apps/sync.yaml: Application: skipped, there are no rules about this kind",
		"charts/checks/Chart.yaml: skipped, it is no Kubernetes object, which has an apiVersion and a kind",
		"charts/checks/templates/one.yaml: NodeHealthCheck one: " + rendered,
		"charts/checks/templates/pools.yaml: " + rendered,
		"charts/checks/values.yaml: skipped, it is no Kubernetes object, which has an apiVersion and a kind",
		"checks/base/kustomization.yaml: skipped, it is a kustomization" + built,
		"checks/base/pool.yaml: NodeHealthCheck pool: ok",
		"checks/large/kustomization.yml: skipped, it is a kustomization" + built,
		"checks/large/ops.yaml: skipped, it is a patch of checks/large/kustomization.yml" + built,
		"checks/large/patches/pool.yaml: skipped, it is a patch of checks/large/kustomization.yml" + built,
		"comments.yaml: skipped, it is empty",
		"empty.yaml: skipped, it is empty",
		"flux/substituted.yaml: " + rendered,
		"policies/nhc.yaml: NodeHealthCheck pool: ok",
		"policies/old.yaml: ConfigurationPolicy old: skipped, there are no rules about this kind",
		"secrets/bmc.enc.yaml: skipped, it is encrypted",
		"secrets/locked.yaml: skipped, it is neither YAML nor JSON, and names no kind that there are rules about",
		"",
		"0 errors in 2 objects.",
		"No cluster was asked: what depends on nodes and templates is not checked.",
		"",
	}
	require.Equal(t, strings.Join(want, "\n"), text)
}

const machineCheck = "apiVersion: machine.openshift.io/v1beta1\nkind: MachineHealthCheck\nmetadata: {name: pool, namespace: machines}\nspec:\n  selector: {matchLabels: {role: worker}}\n  maxUnhealthy: 40%\n"

// policy wraps a health check as Open Cluster Management does.
func policy(compliance, check string) string {
	return "kind: Policy\nspec:\n  policy-templates:\n  - objectDefinition:\n      kind: ConfigurationPolicy\n      spec:\n        object-templates:\n        - complianceType: " + compliance +
		"\n          objectDefinition:\n            " + strings.ReplaceAll(check, "\n", "\n            ")
}

// mistakes are files that people have written, each with what is wanted: severity, line, field, and a part of what is
// said of it. The first three files are those that had exit code 0 once.
var mistakes = map[string]struct {
	file string
	want []string
}{
	"the group of a remediator (FR-306)":             {strings.Replace(checkNamed("a", "  maxUnhealthy: 1\n"), "remediation.medik8s.io", "self-node-remediation.medik8s.io", 1), []string{"error 1 apiVersion NodeHealthCheck is remediation.medik8s.io/v1alpha1, not"}},
	"the kind of Cluster API (FR-336)":               {"# ours\n" + strings.Replace(machineCheck, "machine.openshift.io/v1beta1", "cluster.x-k8s.io/v1beta1", 1), []string{"error 2 apiVersion This is the kind of Cluster API itself, which nhc-controller does not read. use machine.openshift.io/v1beta1 with the annotation nhc-controller.io/machine-api: cluster.x-k8s.io"}},
	"a typing error in a policy (FR-309)":            {policy("musthave", "apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck\nmetadata: {name: w}\nspec:\n  maxUnhealty: 1\n"), []string{`error 14 spec.maxUnhealty unknown field "spec.maxUnhealty"`}},
	"a policy that has to have all":                  {policy("mustonlyhave", checkNamed("w", "")), []string{"error 13 spec Invalid value: one of minHealthy and maxUnhealthy should be specified"}},
	"no group":                                       {"kind: NodeHealthCheck\nmetadata: {name: a}\n", []string{"error 1 apiVersion NodeHealthCheck is remediation.medik8s.io/v1alpha1"}},
	"a kind in small letters":                        {strings.Replace(machineCheck, "MachineH", "machineh", 1), []string{`error 2 kind The kind is MachineHealthCheck, not "machinehealthCheck"`}},
	"a kind with a typing error":                     {strings.Replace(checkNamed("a", ""), "kind: NodeHealthCheck", "kind: NodeHealthChek", 1), []string{`error 2 kind There is no kind "NodeHealthChek" in the group remediation.medik8s.io`}},
	"a paused check with a placeholder (FR-304)":     {checkNamed("a", "  maxUnhealthy: 1\n  pauseRequests:\n  - <ticket>\n"), []string{"advice 12 spec.pauseRequests A pause in a file lasts for ever", "advice 13 spec.pauseRequests[0] There is still the placeholder <ticket>"}},
	"a paused MachineHealthCheck":                    {strings.Replace(machineCheck, "namespace: machines", "namespace: machines, annotations: {cluster.x-k8s.io/paused: ''}", 1) + "  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]\n", []string{"advice 3 metadata.annotations A pause in a file lasts for ever"}},
	"fields of a step in the only template (FR-303)": {strings.Replace(checkNamed("a", "  maxUnhealthy: 1\n"), "name: reboot,", "name: reboot, order: 1, timeout: 60s,", 1), []string{"error 10 spec.remediationTemplate.order unknown field", "error 10 spec.remediationTemplate.timeout unknown field \"spec.remediationTemplate.timeout\". use escalatingRemediations, a list whose steps have order, timeout (at least 60s) and remediationTemplate"}},
	"no selector and a namespace (FR-305)":           {strings.Replace(strings.Replace(checkNamed("a", "  maxUnhealthy: 1\n"), "selector:", "selektor:", 1), "{name: a}", "{name: a, namespace: b}", 1), []string{"error 4 spec.selector Invalid value: Selector is mandatory. for all nodes, write selector: {matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}", "error 5 spec.selektor unknown field", "advice 3 metadata.namespace NodeHealthChecks have no namespace"}},
	"both kinds of templates":                        {checkNamed("a", "  minHealthy: <n>\n  escalatingRemediations: [{order: 1, timeout: 300s, remediationTemplate: {apiVersion: a/v1, kind: BTemplate, name: c}}]\n"), []string{"error 4 spec Invalid value: RemediationTemplate and EscalatingRemediations usage is mutual exclusive", "error 11 spec.minHealthy \"<n>\" is no limit. write a number, or a percentage from 0% to 100%", "advice 11 spec.minHealthy There is still the placeholder <n>"}},
	"a bad key of a label (O25)":                     {strings.Replace(checkNamed("a", "  maxUnhealthy: 1\n"), "key: node-role.kubernetes.io/etcd", "key: a/b/c", 1), []string{"error 5 spec.selector Invalid value: Invalid selector: a key must be a label key, a name of at most 63 characters after an optional DNS subdomain and a slash. correct \"a/b/c\""}},
	"a bad value of a label (O25)":                   {"apiVersion: nhc-controller.io/v1alpha1\nkind: RemediationBudget\nmetadata: {name: a}\nspec: {maxConcurrent: 1, nodeSelector: {matchLabels: {pool: a b}}}\n", []string{"error 4 spec.nodeSelector Invalid value: Invalid nodeSelector: a value must be a label value, empty or at most 63 characters. correct \"a b\""}},
	"a label with two values (FR-302)":               {strings.Replace(machineCheck, "{matchLabels: {role: worker}}", "\n    matchLabels:\n      role: worker\n      role: infra", 1), []string{`error 8  It is neither YAML nor JSON: line 8: key "role" already set in map`}},
	"either of two roles (FR-301)":                   {strings.Replace(checkNamed("a", "  maxUnhealthy: 1\n"), "control-plane, operator: DoesNotExist}\n", "worker, operator: Exists}\n    - {key: node-role.kubernetes.io/infra, operator: Exists}\n", 1), []string{"advice 5 spec.selector All of matchLabels and matchExpressions have to hold: it selects only nodes with both labels, node-role.kubernetes.io/infra and node-role.kubernetes.io/worker"}},
	"fields of v1beta2 (FR-310)":                     {machineCheck + "  clusterName: one\n  checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 300}]}\n", []string{"error 8 spec.checks unknown field \"spec.checks\". use unhealthyConditions", "error 7 spec.clusterName unknown field", "advice 4 spec.unhealthyConditions There are none: a Machine whose node is silent is never remediated"}},
	"an empty list of conditions (FR-328)":           {machineCheck + "  unhealthyConditions: []\n", []string{"advice 7 spec.unhealthyConditions There are none"}},
	"a timeout of zero (FR-307)":                     {machineCheck + "  unhealthyConditions:\n  - {type: Ready, status: Unknown, timeout: 0s}\n", []string{"advice 8 spec.unhealthyConditions[0].timeout A Machine is deleted at the first blip"}},
	"FR-425 types":                                   {machineCheck + "  unhealthyConditions:\n  - {type: Ready, status: False, timeout: 300s}\n  - {type: Ready, status: Unknown, timeout: 300}\n", []string{"error 8 spec.unhealthyConditions[0].status Without quotes it is no text. write \"True\" or \"False\", with the quotes", "error 9 spec.unhealthyConditions[1].timeout It has no unit. write numbers with units, such as 300s or 5m"}},
	"FR-425 a map for a list":                        {machineCheck + "  unhealthyConditions: {type: Ready, status: Unknown, timeout: 300s}\n", []string{"error 7 spec.unhealthyConditions It has to be a list. write a hyphen before each entry"}},
	"FR-425 a list for a map":                        {strings.Replace(machineCheck, "{role: worker}", "[role]", 1) + "  unhealthyConditions: [{type: Ready, status: Unknown, timeout: \"300\"}]\n", []string{"error 5 spec.selector.matchLabels It is a list, and has to have names and values. write name: value, without hyphens", "error 7 spec.unhealthyConditions[0].timeout It has no unit"}},
	"members of etcd":                                {strings.Replace(checkNamed("a", "  maxUnhealthy: 1\n"), "    - {key: node-role.kubernetes.io/etcd, operator: DoesNotExist}\n", "", 1), []string{"advice 5 spec.selector It may select members of etcd"}},
	"a template without name (O11)":                  {strings.Replace(checkNamed("a", "  maxUnhealthy: 1\n"), "name: reboot, ", "", 1), []string{"error 10 spec.remediationTemplate Invalid value: remediationTemplate must have apiVersion, kind and name"}},
	"an empty template (O11)":                        {strings.Replace(checkNamed("a", "  maxUnhealthy: 1\n"), "{apiVersion: example.com/v1, kind: RebootTemplate, name: reboot, namespace: remediators}", "{}", 1), []string{"error 10 spec.remediationTemplate Invalid value: remediationTemplate must have apiVersion, kind and name"}},
	"all but some at once (FR-308)":                  {checkNamed("a", "  minHealthy: 2\n"), []string{"advice 11 spec.minHealthy With 2, all but 2 may be remediated at once, however many nodes there are. if that is too much, add a RemediationBudget with maxConcurrent: 1"}},
	"the same advice for two conditions (O30)":       {checkNamed("a", "  maxUnhealthy: 1\n  unhealthyConditions:\n  - {type: Ready, status: Unknown, duration: 30s}\n  - {type: Ready, status: 'False', duration: 30s}\n"), []string{"advice 13 spec.unhealthyConditions[0].duration A node that only reboots is not ready for longer than 30s"}},
	"an error in the second document":                {checkNamed("a", "  maxUnhealthy: 1\n") + "---\n" + checkNamed("b", "  maxUnhealthy: -1\n"), []string{"error 23 spec.maxUnhealthy Invalid value: maxUnhealthy must not be negative: -1"}},
	"an error in a list":                             {"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(checkNamed("b", "  maxUnhealthy: -1\n"), "\n", "\n  "), []string{"error 14 spec.maxUnhealthy Invalid value"}},
	"no YAML and ours":                               {checkNamed("a", "  maxUnhealthy: [\n"), []string{"error 11  It is neither YAML nor JSON: line 11"}},
	"a template action only in a comment":            {"# {{ .Values }}\n" + checkNamed("a", "  maxUnhealthy: -1\n"), []string{"error 12 spec.maxUnhealthy Invalid value"}},
}

// TestLintMistakes: each of them alone in a repository that is right otherwise is found, with its line.
func TestLintMistakes(t *testing.T) {
	t.Parallel()
	for name, tc := range mistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := repository()
			files["checks/mistake.yaml"] = tc.file
			report, text, code := lintTree(t, files)
			require.Equal(t, ExitFound, code, text)
			var found []string
			for _, object := range report.Objects {
				for _, finding := range object.Findings {
					require.Contains(t, object.Source, "checks/mistake.yaml")
					found = append(found, fmt.Sprintf("%s %d %s %s. %s", finding.Severity, finding.Line, finding.Field, finding.What, finding.Do))
				}
			}
			require.Len(t, found, len(tc.want), strings.Join(found, "\n"))
			for i, want := range tc.want {
				require.True(t, strings.HasPrefix(found[i], want), "%s\nis not\n%s", found[i], want)
			}
		})
	}
}
