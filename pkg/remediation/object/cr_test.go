// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw := &unstructured.Unstructured{}
	require.NoError(t, raw.UnmarshalJSON([]byte(text)))
	return raw
}

func TestParseCR(t *testing.T) {
	t.Parallel()
	got := object.ParseCR(parse(t, `{
		"apiVersion": "example.com/v1", "kind": "RebootRemediation",
		"metadata": {
			"namespace": "remediators", "name": "node-1-x", "uid": "u", "resourceVersion": "5", "generation": 2,
			"creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:01:00Z",
			"finalizers": ["example.com/f"], "managedFields": [{"manager": "m"}],
			"annotations": {
				"remediation.medik8s.io/node-name": "node-1", "remediation.medik8s.io/template-name": "reboot",
				"remediation.medik8s.io/nhc-timed-out": "2026-01-01T00:00:30Z", "example.com/other": "x"
			},
			"labels": {"remediation.medik8s.io/isControlPlaneNode": "", "app.kubernetes.io/part-of": "x"},
			"ownerReferences": [{"apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck", "name": "workers", "uid": "w", "controller": false}]
		},
		"spec": {"strategy": "reboot"},
		"status": {"phase": "x", "conditions": [
			{"type": "Processing", "status": "True"},
			{"type": "PermanentNodeDeletionExpected", "status": "Unknown", "reason": "r"},
			{"type": "Succeeded", "status": "False", "reason": "NoAgent", "message": "m", "lastTransitionTime": "2026-01-01T00:00:20Z"}
		]}
	}`))
	require.Equal(t, &object.CR{
		TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "RebootRemediation"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "remediators", Name: "node-1-x", UID: "u", ResourceVersion: "5",
			CreationTimestamp: metav1.NewTime(epoch.Local()), DeletionTimestamp: new(metav1.NewTime(epoch.Add(time.Minute).Local())),
			Annotations: map[string]string{
				v1alpha1.AnnotationNodeName: "node-1", v1alpha1.AnnotationTemplateName: "reboot", v1alpha1.AnnotationTimedOut: "2026-01-01T00:00:30Z",
			},
			Labels:          map[string]string{v1alpha1.LabelControlPlane: ""},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "remediation.medik8s.io/v1alpha1", Kind: "NodeHealthCheck", Name: "workers", UID: "w", Controller: new(false)}},
		},
		Succeeded: "False", PermanentNodeDeletionExpected: "Unknown",
		FailureReason: "NoAgent", FailureMessage: "m", FailedSince: epoch.Add(20 * time.Second),
	}, got)
	require.Equal(t, corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "RebootRemediation", Namespace: "remediators", Name: "node-1-x", UID: "u"}, got.Reference(), "18.3")
}

func TestParseCRLeniently(t *testing.T) {
	t.Parallel()
	const none = corev1.ConditionStatus("")
	tests := map[string]struct {
		status              string
		succeeded, expected corev1.ConditionStatus
	}{
		"11.7 no status":                     {status: `null`},
		"11.7 status is no map":              {status: `"done"`},
		"11.7 status is a list":              {status: `[{"conditions": []}]`},
		"11.7 no conditions":                 {status: `{"phase": "Running"}`},
		"11.7 conditions is null":            {status: `{"conditions": null}`},
		"11.7 conditions is a map":           {status: `{"conditions": {"type": "Succeeded", "status": "True"}}`},
		"11.7 conditions is a string":        {status: `{"conditions": "Succeeded"}`},
		"11.7 entries of any type":           {status: `{"conditions": [null, 1, "Succeeded", true, [], {}]}`},
		"11.7 type is a number":              {status: `{"conditions": [{"type": 1, "status": "True"}]}`},
		"11.7 type is a map":                 {status: `{"conditions": [{"type": {"Succeeded": "True"}, "status": "True"}]}`},
		"11.7 no type":                       {status: `{"conditions": [{"status": "True"}]}`},
		"11.7 no status of the condition":    {status: `{"conditions": [{"type": "Succeeded"}]}`},
		"11.7 status is a bool":              {status: `{"conditions": [{"type": "Succeeded", "status": true}]}`},
		"11.7 other case":                    {status: `{"conditions": [{"type": "succeeded", "status": "True"}]}`},
		"11.7 good entries among bad ones":   {status: `{"conditions": [5, {"type": "Succeeded", "status": "True"}, {"type": []}]}`, succeeded: "True"},
		"11.7 both":                          {status: `{"conditions": [{"type": "PermanentNodeDeletionExpected", "status": "True"}, {"type": "Succeeded", "status": "Unknown"}]}`, succeeded: "Unknown", expected: "True"},
		"11.7 one malformed, the other fine": {status: `{"conditions": [{"type": "Succeeded", "status": 1}, {"type": "PermanentNodeDeletionExpected", "status": "False"}]}`, succeeded: none, expected: "False"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := object.ParseCR(parse(t, `{"apiVersion": "example.com/v1", "kind": "RebootRemediation", "metadata": {"name": "n"}, "status": `+tc.status+`}`))
			require.Equal(t, tc.succeeded, got.Succeeded)
			require.Equal(t, tc.expected, got.PermanentNodeDeletionExpected)
		})
	}
}

func TestParseCRFencing(t *testing.T) {
	t.Parallel()
	now := epoch.Add(time.Hour)
	condition := func(typ, status, since string) string {
		return `{"type": "` + typ + `", "status": "` + status + `", "lastTransitionTime": "` + since + `"}`
	}
	tests := map[string]struct {
		conditions string
		fenced     bool
		at         time.Time
	}{
		"11.7 none":                              {},
		"11.7 fence agent":                       {conditions: condition("FenceAgentActionSucceeded", "True", "2026-01-01T00:00:10Z"), fenced: true, at: epoch.Add(10 * time.Second)},
		"11.7 fencing":                           {conditions: condition("FencingSucceeded", "True", "2026-01-01T00:00:10Z"), fenced: true, at: epoch.Add(10 * time.Second)},
		"11.7 success":                           {conditions: condition("Succeeded", "True", "2026-01-01T00:00:10Z"), fenced: true, at: epoch.Add(10 * time.Second)},
		"11.7 another condition":                 {conditions: condition("Processing", "True", "2026-01-01T00:00:10Z")},
		"11.7 not yet":                           {conditions: condition("FencingSucceeded", "Unknown", "2026-01-01T00:00:10Z")},
		"11.7 failed":                            {conditions: condition("Succeeded", "False", "2026-01-01T00:00:10Z")},
		"11.7 other case":                        {conditions: condition("FencingSucceeded", "true", "2026-01-01T00:00:10Z")},
		"11.7 another zone":                      {conditions: condition("FencingSucceeded", "True", "2026-01-01T02:00:10+02:00"), fenced: true, at: epoch.Add(10 * time.Second)},
		"11.7 at the creation":                   {conditions: condition("FencingSucceeded", "True", "2026-01-01T00:00:00Z"), fenced: true, at: epoch},
		"11.7 before the creation":               {conditions: condition("FencingSucceeded", "True", "2025-12-31T23:59:59Z"), fenced: true, at: now},
		"11.7 this very moment":                  {conditions: condition("FencingSucceeded", "True", "2026-01-01T01:00:00Z"), fenced: true, at: now},
		"11.7 in the future":                     {conditions: condition("FencingSucceeded", "True", "2026-01-01T01:00:01Z"), fenced: true, at: now},
		"11.7 no time":                           {conditions: `{"type": "FencingSucceeded", "status": "True"}`, fenced: true, at: now},
		"11.7 time is null":                      {conditions: `{"type": "FencingSucceeded", "status": "True", "lastTransitionTime": null}`, fenced: true, at: now},
		"11.7 time is a number":                  {conditions: `{"type": "FencingSucceeded", "status": "True", "lastTransitionTime": 5}`, fenced: true, at: now},
		"11.7 time is garbage":                   {conditions: condition("FencingSucceeded", "True", "soon"), fenced: true, at: now},
		"11.7 status is a bool":                  {conditions: `{"type": "FencingSucceeded", "status": true}`},
		"11.7 the earliest of several":           {conditions: condition("FencingSucceeded", "True", "2026-01-01T00:00:20Z") + "," + condition("FenceAgentActionSucceeded", "True", "2026-01-01T00:00:10Z") + "," + condition("Succeeded", "True", "2026-01-01T00:00:30Z"), fenced: true, at: epoch.Add(10 * time.Second)},
		"11.7 one with, one without a time":      {conditions: condition("FencingSucceeded", "True", "") + "," + condition("Succeeded", "True", "2026-01-01T00:00:30Z"), fenced: true, at: epoch.Add(30 * time.Second)},
		"11.7 one with, one without, other way":  {conditions: condition("Succeeded", "True", "2026-01-01T00:00:30Z") + "," + condition("FencingSucceeded", "True", ""), fenced: true, at: epoch.Add(30 * time.Second)},
		"11.7 fenced, then failed":               {conditions: condition("FencingSucceeded", "True", "2026-01-01T00:00:10Z") + "," + condition("Succeeded", "False", "2026-01-01T00:00:05Z"), fenced: true, at: epoch.Add(10 * time.Second)},
		"11.7 good entries among malformed ones": {conditions: `1, null, {"type": {}, "status": []}, ` + condition("FencingSucceeded", "True", "2026-01-01T00:00:10Z"), fenced: true, at: epoch.Add(10 * time.Second)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := object.ParseCR(parse(t, `{"apiVersion": "example.com/v1", "kind": "RebootRemediation",
				"metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": [`+tc.conditions+`]}}`))
			at, fenced := got.FencedAt(now)
			require.Equal(t, tc.fenced, fenced)
			require.Equal(t, tc.at, at)
		})
	}
}

func TestParseCRMalformedMetadata(t *testing.T) {
	t.Parallel()
	for name, metadata := range map[string]string{
		"11.7 everything is a number":     `{"name": "n", "annotations": 1, "labels": 2, "ownerReferences": 3, "creationTimestamp": 4, "deletionTimestamp": 5, "uid": 6}`,
		"11.7 everything is a list":       `{"name": "n", "annotations": [], "labels": [], "ownerReferences": [[]], "creationTimestamp": [], "deletionTimestamp": [], "uid": []}`,
		"11.7 values of the wrong type":   `{"name": "n", "annotations": {"remediation.medik8s.io/node-name": 7}, "ownerReferences": [1, "x", {"kind": 5}], "creationTimestamp": "yesterday"}`,
		"11.7 everything is null":         `{"name": "n", "annotations": null, "labels": null, "ownerReferences": null, "creationTimestamp": null, "deletionTimestamp": null}`,
		"11.7 an owner that is not there": `{"name": "n", "ownerReferences": [{}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := object.ParseCR(parse(t, `{"apiVersion": "example.com/v1", "kind": "RebootRemediation", "metadata": `+metadata+`}`))
			require.Equal(t, "n", got.Node(), "1.4: without the annotation, the name")
			require.Empty(t, got.Owners())
			require.False(t, got.OwnedBy(ownerNamed("")))
			require.False(t, got.Deleting())
			require.True(t, got.CreationTimestamp.IsZero())
		})
	}
}

func TestOwnership(t *testing.T) {
	t.Parallel()
	reference := func(apiVersion, kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: "uid"}
	}
	const v1 = "remediation.medik8s.io/v1alpha1"
	tests := map[string]struct {
		owners []metav1.OwnerReference
		own    bool
		want   []string
	}{
		"1.4 no owner":                      {},
		"1.4 apiVersion, kind and name":     {owners: []metav1.OwnerReference{reference(v1, "NodeHealthCheck", "workers")}, own: true, want: []string{"workers"}},
		"1.4 the uid is not compared":       {owners: []metav1.OwnerReference{{APIVersion: v1, Kind: "NodeHealthCheck", Name: "workers", UID: "of-a-former-life"}}, own: true, want: []string{"workers"}},
		"1.4 another name":                  {owners: []metav1.OwnerReference{reference(v1, "NodeHealthCheck", "others")}, want: []string{"others"}},
		"1.4 another kind":                  {owners: []metav1.OwnerReference{reference(v1, "MachineHealthCheck", "workers")}},
		"1.4 another version":               {owners: []metav1.OwnerReference{reference("remediation.medik8s.io/v1", "NodeHealthCheck", "workers")}},
		"1.4 another group":                 {owners: []metav1.OwnerReference{reference("example.com/v1alpha1", "NodeHealthCheck", "workers")}},
		"P7 any owner, wherever it is":      {owners: []metav1.OwnerReference{reference("v1", "Node", "workers"), reference(v1, "NodeHealthCheck", "workers")}, own: true, want: []string{"workers"}},
		"1.4 several NodeHealthChecks":      {owners: []metav1.OwnerReference{reference(v1, "NodeHealthCheck", "others"), reference(v1, "NodeHealthCheck", "workers")}, own: true, want: []string{"others", "workers"}},
		"11.3 the Machine does not disturb": {owners: []metav1.OwnerReference{reference(v1, "NodeHealthCheck", "workers"), reference("machine.openshift.io/v1beta1", "Machine", "m")}, own: true, want: []string{"workers"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := cr("node-1", func(c *object.CR) { c.OwnerReferences = tc.owners })
			require.Equal(t, tc.own, got.OwnedBy(ownerNamed("workers")))
			require.Equal(t, tc.want, got.Owners())
		})
	}
}

func TestTimedOut(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cr    *object.CR
		want  bool
		at    time.Time
		known bool
	}{
		"13.2 no annotation":              {cr: cr("n")},
		"13.8 a time":                     {cr: cr("n", timedOut), want: true, at: epoch, known: true},
		"13.2 garbage is carried as well": {cr: cr("n", annotate(v1alpha1.AnnotationTimedOut, "soon")), want: true},
		"18.2 a year after the last":      {cr: cr("n", annotate(v1alpha1.AnnotationTimedOut, "9999-12-31T23:59:59-14:00")), want: true},
		"18.2 a year before the first":    {cr: cr("n", annotate(v1alpha1.AnnotationTimedOut, "0000-01-01T00:00:00+14:00")), want: true},
		"18.2 no time at all":             {cr: cr("n", annotate(v1alpha1.AnnotationTimedOut, "0001-01-01T00:00:00Z")), want: true},
		"13.2 empty is carried as well":   {cr: cr("n", annotate(v1alpha1.AnnotationTimedOut, "")), want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.cr.TimedOut())
			at, known := tc.cr.TimedOutAt()
			require.Equal(t, tc.known, known)
			require.True(t, tc.at.Equal(at), "%s", at)
		})
	}
}

// TestFailureOfCR: what is kept of a failure is bounded, and of anything else nothing is
// kept, so that it is no news (spec 13.7, 21.1).
func TestFailureOfCR(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 5000)
	for name, tc := range map[string]struct{ conditions, want string }{
		"13.7":                            {`[{"type":"Succeeded","status":"False","reason":"NoAgent","message":"no agent answers"}]`, "RebootRemediation n reports failure: NoAgent: no agent answers, and no step follows"},
		"13.7 without a message":          {`[{"type":"Succeeded","status":"False","reason":"NoAgent","message":""}]`, "RebootRemediation n reports failure: NoAgent, and no step follows"},
		"13.7 without anything":           {`[{"type":"Succeeded","status":"False"}]`, "RebootRemediation n reports failure, and no step follows"},
		"21.1 of a success":               {`[{"type":"Succeeded","status":"True","reason":"Done","message":"rebooted"}]`, "RebootRemediation n reports failure, and no step follows"},
		"21.1 of what goes on":            {`[{"type":"Succeeded","status":"Unknown","reason":"Step7","message":"17 %"}]`, "RebootRemediation n reports failure, and no step follows"},
		"11.7 the last of several counts": {`[{"type":"Succeeded","status":"False","reason":"NoAgent"},{"type":"Succeeded","status":"True"}]`, "RebootRemediation n reports failure, and no step follows"},
		"11.7 of another type":            {`[{"type":"Succeeded","status":"False","reason":1,"message":["a"],"lastTransitionTime":7}]`, "RebootRemediation n reports failure, and no step follows"},
		"18.6 cut":                        {`[{"type":"Succeeded","status":"False","reason":"` + long + `","message":"` + long + `"}]`, "RebootRemediation n reports failure: " + long[:124] + "...: " + long[:252] + "..., and no step follows"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, object.ParseCR(parse(t, `{"apiVersion":"example.com/v1","kind":"RebootRemediation","metadata":{"name":"n"},"status":{"conditions":`+tc.conditions+`}}`)).Failure())
		})
	}
}

func TestCRSameAs(t *testing.T) {
	t.Parallel()
	base := func() *object.CR { return cr("n", forNode("n"), from("reboot")) }
	require.True(t, base().SameAs(base()))
	tests := map[string]struct {
		change func(*object.CR)
		same   bool
	}{
		"21.1 resource version alone is no news": {change: func(c *object.CR) { c.ResourceVersion = "99" }, same: true},
		"21.1 uid":                               {change: func(c *object.CR) { c.UID = "new" }},
		"21.1 success":                           {change: succeeded},
		"21.1 failure":                           {change: failed},
		"13.7 another reason of it":              {change: func(c *object.CR) { c.FailureReason = "NoAgent" }},
		"13.7 another message of it":             {change: func(c *object.CR) { c.FailureMessage = "no agent answers" }},
		"13.7 the time of it alone is no news":   {change: func(c *object.CR) { c.FailedSince = epoch }, same: true},
		"21.1 permanent node deletion":           {change: awaitsDelete},
		"21.1 fencing":                           {change: func(c *object.CR) { c.Fenced = true }},
		"21.1 the time of it alone is no news":   {change: func(c *object.CR) { c.FencedSince = epoch }, same: true},
		"21.1 deletion":                          {change: deleting},
		"21.1 node":                              {change: forNode("m")},
		"21.1 template":                          {change: from("fence")},
		"21.1 timed out":                         {change: timedOut},
		"21.1 control plane label":               {change: func(c *object.CR) { c.Labels = map[string]string{v1alpha1.LabelControlPlane: ""} }},
		"21.1 owner gone":                        {change: foreign},
		"21.1 another owner":                     {change: func(c *object.CR) { c.OwnerReferences[0].Name = "others" }},
		"M12.4 garbage collection of one more": {change: func(c *object.CR) {
			c.OwnerReferences = append(c.OwnerReferences, metav1.OwnerReference{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineHealthCheck", Name: "east", UID: "1"})
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := base()
			tc.change(changed)
			require.Equal(t, tc.same, base().SameAs(changed))
			require.Equal(t, tc.same, changed.SameAs(base()), "both ways")
		})
	}
}

func TestCRDeepCopy(t *testing.T) {
	t.Parallel()
	original := cr("n", forNode("n"), deleting)
	clone := original.DeepCopyObject().(*object.CR)
	require.Equal(t, original, clone)
	clone.Annotations[v1alpha1.AnnotationNodeName] = "m"
	clone.OwnerReferences[0].Name = "others"
	clone.DeletionTimestamp.Time = epoch.Add(time.Hour)
	require.Equal(t, cr("n", forNode("n"), deleting), original)
	require.Equal(t, testKind, original.GetObjectKind().GroupVersionKind().Kind)
}
