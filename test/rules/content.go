// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// crContent judges the content of a new CR, by any version of its template and of the
// Node (spec 11.1).
func (j *Judge) crContent(w window, created *CR, object *unstructured.Unstructured) []finding {
	findings := []finding{j.crOwners(w, object), j.crMetadata(w, created, object)}
	for _, nhc := range j.nhcs[w.nhc].during(w.known, w.rv) {
		if nhc == nil {
			continue
		}
		steps := stepsOf(nhc)
		if i := stepOf(steps, created); i >= 0 {
			return append(findings, fromTemplate(steps[i], j.history.templates[steps[i].templateKey()].during(w.known, w.rv), created, object))
		}
	}
	return findings // It is of no step, which another rule says.
}

// fromTemplate compares a CR with the versions of the template of its step.
func fromTemplate(s step, versions []*Template, created *CR, object *unstructured.Unstructured) finding {
	var reason string
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		return finding{"11.1", "spec of " + created.String() + " is no map"}
	}
	for _, template := range versions {
		switch {
		case template == nil:
			reason = "its template does not exist"
		case !namedFor(created.Name, created.Node, s, template.Multiple):
			reason = "of its name"
		case !equality.Semantic.DeepEqual(orEmpty(spec), orEmpty(template.Spec)):
			reason = fmt.Sprintf("of its spec: %v, not %v", spec, template.Spec)
		default:
			return finding{rule: "11.1"}
		}
	}
	return finding{"11.1", created.String() + " is not as its template says, because " + reason}
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// longestName is how long the name of an object may be, and hashLength how many digits
// tell the CRs of templates apart.
const longestName, hashLength = 253, 8

// namedFor reports whether a CR has the name that its template demands.
func namedFor(name, node string, s step, multiple bool) bool {
	template := s.template.Namespace + "/" + s.template.Name
	switch {
	case !multiple:
		return name == node
	case len(node)+1+hashLength <= longestName:
		return name == node+"-"+hash(template)
	default:
		cut, found := strings.CutSuffix(name, "-"+hash(node+"/"+template))
		return found && cut != "" && strings.HasPrefix(node, cut)
	}
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// crMetadata judges labels, annotations and finalizers of a new CR.
func (j *Judge) crMetadata(w window, created *CR, object *unstructured.Unstructured) finding {
	annotations := map[string]string{v1alpha1.AnnotationNodeName: created.Node, v1alpha1.AnnotationTemplateName: created.Template}
	labelled := func(node *Node) bool {
		want := map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf}
		if node != nil && node.ControlPlane() {
			want[v1alpha1.LabelControlPlane] = ""
		}
		return maps.Equal(want, object.GetLabels())
	}
	switch {
	case !maps.Equal(annotations, object.GetAnnotations()) || !created.NamesTemplate:
		return finding{"11.1", fmt.Sprintf("a CR with the annotations %v", object.GetAnnotations())}
	case !some(j.nodes[w.node].during(w.known, w.rv), labelled):
		return finding{"11.1", fmt.Sprintf("a CR with the labels %v", object.GetLabels())}
	default:
		return check("11.1", len(object.GetFinalizers()) > 0, "a CR with the finalizers %v", object.GetFinalizers())
	}
}

// crOwners judges the owners of a new CR (spec 11.3).
func (j *Judge) crOwners(w window, object *unstructured.Unstructured) finding {
	owners := object.GetOwnerReferences()
	plain := func(owner metav1.OwnerReference) bool {
		return owner.Controller != nil && !*owner.Controller && owner.BlockOwnerDeletion == nil
	}
	if len(owners) == 0 || owners[0].Kind != v1alpha1.Kind || owners[0].Name != w.nhc || !plain(owners[0]) {
		return finding{"11.3", fmt.Sprintf("a CR with the owners %v", owners)}
	}
	if len(owners) > 2 || (len(owners) == 2 && (owners[1].Kind != "Machine" || !plain(owners[1]))) {
		return finding{"11.3", fmt.Sprintf("a CR with the owners %v", owners)}
	}
	known := some(j.nhcs[w.nhc].during(w.known, w.rv), func(nhc *NHC) bool { return nhc == nil || nhc.UID == owners[0].UID })
	return check("11.3", !known, "the owner of a CR has uid %s", owners[0].UID)
}
