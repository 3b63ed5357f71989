// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// epoch is when everything begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at is the time after a number of seconds.
func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

// past is the time of objects that existed from the beginning.
var past time.Time

// fixture builds a history. Every change is one resource version later than the change
// before.
type fixture struct {
	*Judge
	rv uint64
}

// newFixture has the templates of all steps.
func newFixture() *fixture {
	f := &fixture{Judge: NewJudge(Config{Tolerance: Quiet})}
	for _, name := range []string{"one", "two", "three"} {
		for _, kind := range []string{"Reboot", "Rebuild"} {
			f.template(past, kind, name, &Template{Spec: how(name), HasSpec: true, Multiple: true})
		}
	}
	return f
}

// how is the spec of the CRs of a template.
func how(name string) map[string]any { return map[string]any{"how": name} }

func (s *fixture) template(seen time.Time, kind, name string, template *Template) {
	add(s.history.templates, strings.ToLower(kind)+"templates ns/"+name, s.next(), seen, template)
}

// objectOf returns a CR as it is stored.
func objectOf(cr *CR) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": how(cr.Template)}}
	object.SetAPIVersion(cr.APIVersion)
	object.SetKind(cr.Kind)
	object.SetNamespace(cr.Namespace)
	object.SetName(cr.Name)
	object.SetUID(cr.UID)
	object.SetLabels(map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf})
	object.SetAnnotations(map[string]string{v1alpha1.AnnotationNodeName: cr.Node, v1alpha1.AnnotationTemplateName: cr.Template})
	object.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: cr.Owners[0], UID: "uid of nhc", Controller: new(false)},
	})
	return object
}

// request is one of the controller.
func request(seconds float64) *Request { return &Request{Time: at(seconds), UserAgent: "test/1"} }

func (s *fixture) next() uint64 {
	s.rv++
	return s.rv
}

func (s *fixture) node(seen time.Time, node *Node) {
	add(s.nodes, node.Name, s.next(), seen, node)
}

func (s *fixture) noNode(seen time.Time, name string) { add(s.nodes, name, s.next(), seen, nil) }

func (s *fixture) nhc(seen time.Time, nhc *NHC) { add(s.nhcs, nhc.Name, s.next(), seen, nhc) }

func (s *fixture) cr(seen time.Time, cr *CR) { s.addCR(crKey(cr), s.next(), seen, cr) }

func (s *fixture) noCR(seen time.Time, cr *CR) { s.addCR(crKey(cr), s.next(), seen, nil) }

func (s *fixture) lease(seen time.Time, lease *coordinationv1.Lease) {
	s.addLease(lease.Name, s.next(), seen, lease)
}

func crKey(cr *CR) string { return cr.Kind + " " + cr.Namespace + "/" + cr.Name }

// newNode returns a node with condition Ready.
func newNode(name string, status corev1.ConditionStatus, since time.Time, change ...func(*Node)) *Node {
	node := &Node{
		Name: name, UID: types.UID("uid of " + name), Labels: map[string]string{"pool": "a"}, Annotations: map[string]string{},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(since)}},
	}
	for _, c := range change {
		c(node)
	}
	return node
}

func labelled(key, value string) func(*Node) { return func(node *Node) { node.Labels[key] = value } }

func annotated(key string) func(*Node) { return func(node *Node) { node.Annotations[key] = "" } }

func updating(node *Node) {
	node.Annotations["machineconfiguration.openshift.io/desiredConfig"] = "new"
}

var controlPlane = labelled("node-role.kubernetes.io/control-plane", "")

func failedNode(name string, change ...func(*Node)) *Node {
	return newNode(name, "False", epoch, change...)
}

func healthyNode(name string, change ...func(*Node)) *Node {
	return newNode(name, "True", epoch, change...)
}

// check returns NodeHealthCheck "nhc", which finds a node unhealthy after a second.
func healthCheck(change ...func(*v1alpha1.NodeHealthCheck)) *NHC {
	object := &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: "nhc", UID: "uid of nhc", Generation: 1},
		Spec: v1alpha1.NodeHealthCheckSpec{
			Selector:            metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
			MinHealthy:          new(intstr.FromInt32(0)),
			UnhealthyConditions: []v1alpha1.UnhealthyCondition{{Type: corev1.NodeReady, Status: "False", Duration: metav1.Duration{Duration: time.Second}}},
			RemediationTemplate: new(template("Reboot", "one")),
		},
	}
	for _, c := range change {
		c(object)
	}
	return NewNHC(object)
}

func template(kind, name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "test/v1", Kind: kind + "Template", Namespace: "ns", Name: name}
}

func dryRun(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.Mode = v1alpha1.ModeDryRun }
func paused(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.PauseRequests = []string{"test"} }

func minHealthy(value string) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.MinHealthy = new(intstr.Parse(value)) }
}

// escalating has three steps, which are not listed in their order.
func escalating(nhc *v1alpha1.NodeHealthCheck) {
	nhc.Spec.RemediationTemplate = nil
	for _, rank := range []struct {
		order int32
		of    corev1.ObjectReference
	}{{3, template("Rebuild", "three")}, {1, template("Reboot", "one")}, {2, template("Reboot", "two")}} {
		nhc.Spec.EscalatingRemediations = append(nhc.Spec.EscalatingRemediations, v1alpha1.EscalatingRemediation{
			Order: rank.order, RemediationTemplate: rank.of, Timeout: metav1.Duration{Duration: time.Minute},
		})
	}
}

// newCR returns a CR of NodeHealthCheck "nhc" that the controller has created.
func newCR(node, kind, template string, change ...func(*CR)) *CR {
	cr := &CR{
		APIVersion: "test/v1", Kind: kind, Namespace: "ns", Name: node + "-" + template, UID: types.UID(node + kind + template), Node: node,
		Template: template, NamesTemplate: true, Owners: []string{"nhc"}, ByController: true, Created: epoch,
	}
	for _, c := range change {
		c(cr)
	}
	return cr
}

func deleting(cr *CR) { cr.Deleting = true }

func marked(cr *CR) { cr.Marked, cr.TimedOut = true, "2026-01-01T00:00:00Z" }

func foreign(cr *CR) {
	cr.Owners, cr.ByController, cr.Name = []string{"other"}, false, cr.Name+"-foreign"
}

func newLease(node, holder string, acquired time.Time, d time.Duration) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + node},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(holder), LeaseDurationSeconds: new(int32(d.Seconds())),
			AcquireTime: new(metav1.NewMicroTime(acquired)), RenewTime: new(metav1.NewMicroTime(acquired)),
		},
	}
}

// broke returns the rules that were broken.
func broke(findings []finding) []string {
	var rules []string
	for _, f := range findings {
		if f.text != "" {
			rules = append(rules, f.rule)
		}
	}
	return rules
}
