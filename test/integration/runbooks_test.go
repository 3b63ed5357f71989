// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

var (
	inlineCommand  = regexp.MustCompile("`(kubectl [^`<…]+ [^`<…]+)`")
	sectionHeading = regexp.MustCompile(`^##+ (.+)$`)
	assignment     = regexp.MustCompile(`^([A-Z]+=\S+ *)+(#.*)?$`)
	// unavailable are commands that need running pods, or an API server with an address that pods
	// can reach. The test cluster has neither.
	unavailable = regexp.MustCompile(`kubectl( -n nhc-system)? (logs|top) | get endpointslices `)
	// incomplete are commands that the text mentions without the files they need.
	incomplete = regexp.MustCompile(`^kubectl (apply|diff) --\S+$`)
)

// documented is a section of a page with its commands.
type documented struct {
	heading  string
	commands []string
}

// documentedCommands returns the commands of a page by section.
func documentedCommands(t *testing.T, path string) []documented {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	sections := []documented{{heading: "Introduction"}}
	inBlock := false
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		last := &sections[len(sections)-1]
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock = line == "```console"
		case inBlock && strings.HasPrefix(line, "$ "):
			last.commands = append(last.commands, strings.TrimPrefix(line, "$ "))
		case sectionHeading.MatchString(line):
			sections = append(sections, documented{heading: sectionHeading.FindStringSubmatch(line)[1]})
		case !inBlock:
			for _, match := range inlineCommand.FindAllStringSubmatch(line, -1) {
				last.commands = append(last.commands, match[1])
			}
		}
	}
	return slices.DeleteFunc(sections, func(s documented) bool { return len(s.commands) == 0 })
}

// documentedPages are the pages, other than docs/operations.md and the runbooks, whose commands
// TestDocumentedCommands runs.
var documentedPages = []string{"machine-health-check", "budgets", "configuration", "tuning", "security", "gitops"}

// TestDocumentedCommands runs the commands of the runbooks and of pages of the documentation, in
// the middle of remediations.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.installOptional(t, featureGate)
	c.createOptional(t, featureGate, "", "cluster", map[string]any{"status": map[string]any{"featureGates": []any{map[string]any{
		"version": "4.20", "enabled": []any{map[string]any{"name": "MachineAPIOperatorDisableMachineHealthCheckController"}},
	}}}})
	c.startMachineHealthChecks(t, ownOverlay)
	machinesInTrouble(t, c)
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "runbooks", "*.md"))
	require.NoError(t, err)
	require.Greater(t, len(pages), 10)
	s, ran := inTrouble(t, c), 0
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			for _, section := range documentedCommands(t, page) {
				ran += s.runDocumented(t, section.commands)
			}
		})
	}
	for _, section := range documentedCommands(t, filepath.Join("..", "..", "docs", "operations.md")) {
		t.Run(section.heading, func(t *testing.T) { // What one of them deletes, the next one needs.
			ran += inTrouble(t, c).runDocumented(t, section.commands)
		})
	}
	for _, page := range documentedPages {
		t.Run(page, func(t *testing.T) {
			s, before := inTrouble(t, c), ran
			for _, section := range documentedCommands(t, filepath.Join("..", "..", "docs", page+".md")) {
				ran += s.runDocumented(t, section.commands)
			}
			require.Greater(t, ran, before)
		})
	}
	require.Greater(t, ran, 50)
}

// runDocumented runs those of the commands that can be run here, and returns how many. The
// NodeHealthCheck "workers" of the examples stands for that of the scenario.
func (s *scenario) runDocumented(t *testing.T, commands []string) (ran int) {
	t.Helper()
	for _, command := range commands {
		if assignment.MatchString(command) || unavailable.MatchString(command) || incomplete.MatchString(command) || !strings.Contains(command, "kubectl") {
			continue
		}
		command = strings.ReplaceAll(command, "nhc workers ", `nhc "$NHC" `)
		stdout, stderr := s.shell(t, command)
		ran++
		t.Logf("%s\n%s%s", command, stdout, stderr)
		if strings.Contains(command, "jsonpath") || strings.Contains(command, "custom-columns") {
			require.NotEmpty(t, strings.TrimSpace(stdout), "a path that nothing has: %s", command)
			require.NotContains(t, stdout, "<none>\n", "a column that nothing has: %s", command)
		} else {
			require.NotEmpty(t, stdout+stderr, command)
		}
	}
	return ran
}

// inTrouble returns a scenario whose NodeHealthCheck has something to show in each field that
// the commands read: a remediation, a history, a leftover and a pause; and a RemediationBudget
// of its name that cannot be evaluated.
func inTrouble(t *testing.T, c *cluster) *scenario {
	t.Helper()
	s := newScenario(t, c)
	s.createNodes("a", "b", "c", "d")
	s.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.StormCooldownDuration = &metav1.Duration{Duration: time.Minute}
	})
	s.fail("a")
	s.fail("b")
	s.eventuallyCR("a")
	s.eventuallyCR("b")
	s.setFinalizersOf(s.node("a"), "test.nhc-controller.io/remediator")
	s.setFinalizersOf(s.node("b"), "test.nhc-controller.io/remediator")
	s.deleteNode("b")
	s.eventually("a leftover", func() bool { return s.condition(v1alpha1.ConditionLeftoverRemediations).Status == metav1.ConditionTrue })
	s.updateNHC(func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = []string{"maintenance"} })
	s.createBudget(maxConcurrent(1), func(spec *nhcv1alpha1.RemediationBudgetSpec) {
		spec.ActiveDuring = []nhcv1alpha1.BudgetSchedule{{Cron: "0 8 * * MON-FRI", TimeZone: "Europe/Nowhere", Duration: metav1.Duration{Duration: time.Hour}}}
	})
	return s
}

// machinesInTrouble has a MachineHealthCheck with the names of the runbooks, Machines that fail, and
// an owner whose Machines are deleted with a delay.
func machinesInTrouble(t *testing.T, c *cluster) {
	t.Helper()
	s := newMachineScenario(t, c, openShiftMachine)
	s.createMachine("a") // It begins a round of its owner.
	s.createCheck()
	require.NoError(t, s.provided.PatchStatus(t.Context(), "a", map[string]any{"phase": "Failed"}))
	s.eventuallyGone("a")

	s.name, s.provided.Namespace = machineNamespace, machineNamespace
	s.createMachine("b", func(machine *unstructured.Unstructured) { machine.SetOwnerReferences(nil) })
	s.join("b")
	s.setReady("b", corev1.ConditionUnknown)
	check := s.check()
	check.Name, check.Spec.MaxUnhealthy = "workers", (*v1beta1.IntOrString)(new(intstr.FromString("0")))
	_, err := c.nhc.MachineV1beta1().MachineHealthChecks(machineNamespace).Create(t.Context(), check, metav1.CreateOptions{})
	require.NoError(t, err)
	s.eventually("the Machine is listed", func() bool { return len(s.statusOf("workers").UnhealthyMachines) == 1 })
}

// shell runs a command as an operator would, with the variables of the documentation.
func (s *scenario) shell(t *testing.T, command string) (stdout, stderr string) {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join("..", "..", "bin"))
	require.NoError(t, err)
	variables := map[string]string{
		"NHC": s.name, "BUDGET": s.name, "NODE": s.node("a"), "KIND": s.kind.name, "NAMESPACE": s.name, "NAME": s.node("b"),
		"KUBECONFIG": s.AdminKubeconfig(), "HOME": t.TempDir(), "PATH": bin + string(os.PathListSeparator) + os.Getenv("PATH"), "KUBERC": "off",
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit) // A command that serves, for example, does not end.
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-o", "errexit", "-o", "pipefail", "-o", "nounset", "-c", command)
	cmd.WaitDelay = time.Second         // What it has started may hold its output.
	cmd.Dir = filepath.Join("..", "..") // Where the manifests are.
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		cmd.Env = append(cmd.Env, name+"="+variables[name])
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if !strings.HasPrefix(command, "kubectl nhc check") { // That finds that no pod runs here.
		require.NoError(t, err, "%s\n%s%s", command, &out, &errs)
	}
	return out.String(), errs.String()
}
