// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/lint"
)

// testPluginLint: what is stored, and what is to be applied, compared with the cluster: by a user who
// may read health checks and Nodes, and by one who may read everything.
func testPluginLint(u *user) {
	u.shows([]string{
		"NodeHealthCheck " + u.scenario.name + "\n", "spec.unhealthyConditions[0].duration", "A node is remediated at the first blip: as soon as its Node has Ready=Unknown once",
		"With 0, all nodes may be remediated at once", "0 errors and 3 pieces of advice in 1 object.", "This view is partial, without powercycleremediationtemplates",
	}, "lint", u.scenario.name)
	u.shows([]string{u.scenario.name + "\n"}, "__complete", "lint", "s-")
	u.fails(`There is no health check or budget "`+u.scenario.name+`x": kubectl nhc status lists what there is.`, "lint", u.scenario.name+"x")

	changed := u.manifest(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.MinHealthy, spec.MaxUnhealthy = new(intstr.FromInt32(3)), nil
		spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{{Type: "ready", Status: corev1.ConditionFalse, Duration: metav1.Duration{Duration: time.Hour}}}
		spec.RemediationTemplate.Name = "missing"
		spec.StormCooldownDuration = &metav1.Duration{Duration: 5 * time.Minute}
	})
	out := u.shows([]string{
		"It selects 3 nodes, and 3 of them must be healthy: no remediation ever begins", "No selected node has a condition ready, but Ready. Use Ready.",
	}, "lint", "-f", changed)
	require.NotContains(u.t, out, "selects 3 nodes of these, too", "it takes the place of what is there")
	content, err := os.ReadFile(changed)
	require.NoError(u.t, err)
	another := filepath.Join(u.t.TempDir(), "another.yaml")
	require.NoError(u.t, os.WriteFile(another, bytes.Replace(content, []byte("name: "+u.scenario.name+"\n"), []byte("name: another\n"), 1), 0o600))

	everything := &user{scenario: u.scenario, name: "system:admin-of-" + u.scenario.name}
	text := everything.shows(nil, "--as-group=system:masters", "lint", "-f", another, "-o", "json")
	var report lint.Report
	require.NoError(u.t, json.Unmarshal([]byte(text), &report))
	require.Empty(u.t, report.Missing)
	var found []string
	for _, finding := range report.Objects[0].Findings {
		found = append(found, finding.Field+": "+finding.What)
	}
	all := strings.Join(found, "\n")
	require.Contains(u.t, all, "spec.selector: NodeHealthCheck "+u.scenario.name+" selects 3 nodes of these, too (")
	require.Contains(u.t, all, "spec.remediationTemplate: Remediation template not found: ")
	stranger := u.newUser("system:basic-user", "")
	stranger.fails("You may not list nodehealthchecks: ask for the ClusterRole nhc-view.", "lint")
	stranger.shows([]string{"This view is partial, without nodes. You may not list nodes: ask for the ClusterRole nhc-view."}, "lint", "-f", another)
}
