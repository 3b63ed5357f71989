// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

// The resources of the table: one of the core, one without a status of its own, one that a manifest validates, and one
// with any content.
const (
	nodes  = "/api/v1/nodes"
	leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	nhcs   = "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"
	crs    = "/apis/demo.nhc-controller.io/v1alpha1/namespaces/default/powercycleremediations"
)

const (
	refused, absent, taken = "Invalid", "NotFound", "AlreadyExists"
	conflict               = "Conflict"
)

// cr, node, lease and nhc are objects with more metadata, and other fields.
func cr(metadata string) string {
	return `{"apiVersion":"demo.nhc-controller.io/v1alpha1","kind":"PowerCycleRemediation","metadata":{"name":"contract"` + metadata + `}}`
}

func node(metadata string) string {
	return `{"apiVersion":"v1","kind":"Node","metadata":{"name":"contract"` + metadata + `}}`
}

func lease(metadata, holder string) string {
	return `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"contract"` + metadata + `},"spec":{"holderIdentity":"` + holder + `"}}`
}

func nhc(metadata, selector, fields string) string {
	return `{"apiVersion":"remediation.medik8s.io/v1alpha1","kind":"NodeHealthCheck","metadata":{"name":"contract"` + metadata + `},"spec":{"maxUnhealthy":1,"selector":` +
		selector + `,"remediationTemplate":{"apiVersion":"a/v1","kind":"ATemplate","name":"a","namespace":"a"}}` + fields + `}`
}

const (
	one  = `{"matchLabels":{"a":"b"}}`
	two  = `{"matchLabels":{"a":"c"}}`
	none = `{}`
)

// steps is the table.
var steps = []step{
	// Objects with any content.
	{what: "nothing is there", verb: "GET", path: crs + "/contract", code: 404, reason: absent},
	{what: "a kind that is not served", verb: "GET", path: "/apis/demo.nhc-controller.io/v1alpha1/namespaces/default/others", code: 404},
	{what: "a version is not set at creation", verb: "POST", path: crs, body: cr(`,"resourceVersion":"7"`), code: 500},
	{what: "create", verb: "POST", path: crs, body: cr(`,"finalizers":["example.com/a"],"labels":{"l":"1"}`), code: 201, want: map[string]any{"metadata.generation": 1}, keep: "cr"},
	{what: "create again", verb: "POST", path: crs, body: cr(""), code: 409, reason: taken},
	{what: "get", verb: "GET", path: crs + "/contract", code: 200, same: "cr"},
	{what: "a patch that changes nothing", verb: merge, path: crs + "/contract", body: `{"metadata":{"labels":{"l":"1"}}}`, code: 200, same: "cr"},
	{what: "a patch that removes nothing", verb: merge, path: crs + "/contract", body: `{"metadata":{"annotations":{"none":null}}}`, code: 200, same: "cr"},
	{what: "a patch of metadata", verb: merge, path: crs + "/contract", body: `{"metadata":{"annotations":{"a":"1"}}}`, code: 200, want: map[string]any{"metadata.generation": 1}, newer: "cr", keep: "cr2"},
	{what: "a patch of an older version", verb: merge, path: crs + "/contract", body: `{"metadata":{"resourceVersion":"{version:cr}","annotations":{"a":"2"}}}`, code: 409, reason: conflict},
	{what: "a patch of this version", verb: merge, path: crs + "/contract", body: `{"metadata":{"resourceVersion":"{version:cr2}","annotations":{"a":"2"}}}`, code: 200, keep: "cr3"},
	{what: "a patch with its uid", verb: merge, path: crs + "/contract", body: `{"metadata":{"uid":"{uid:cr}","annotations":{"a":"3"}}}`, code: 200, keep: "cr4"},
	{what: "a patch with another uid", verb: merge, path: crs + "/contract", body: `{"metadata":{"uid":"other","annotations":{"a":"4"}}}`, code: 422, reason: refused},
	{what: "a patch of nothing", verb: merge, path: crs + "/none", body: `{"metadata":{"annotations":{"a":"4"}}}`, code: 404, reason: absent},
	{what: "status by the wrong path", verb: merge, path: crs + "/contract", body: `{"status":{"conditions":[]}}`, code: 200, same: "cr4", want: map[string]any{"status": nil}},
	{what: "status", verb: merge, path: crs + "/contract/status", body: `{"status":{"conditions":[]},"metadata":{"labels":{"l":"9"}}}`, code: 200, want: map[string]any{"metadata.generation": 1, "metadata.labels.l": "1"}, newer: "cr4", keep: "cr5"},
	{what: "status of nothing", verb: merge, path: crs + "/none/status", body: `{"status":{}}`, code: 404, reason: absent},
	{what: "an unknown way to patch", verb: "PATCH", path: crs + "/contract", body: `{}`, code: 415},
	{what: "update without a version", verb: "PUT", path: crs + "/contract", body: cr(""), code: 422, reason: refused},
	{what: "update of an older version", verb: "PUT", path: crs + "/contract", body: cr(`,"resourceVersion":"{version:cr}"`), code: 409, reason: conflict},
	{what: "update of another object", verb: "PUT", path: crs + "/contract", body: cr(`,"resourceVersion":"{version:cr5}","uid":"other"`), code: 409, reason: conflict},
	{what: "update under another name", verb: "PUT", path: crs + "/other", body: cr(`,"resourceVersion":"{version:cr5}"`), code: 400, reason: "BadRequest"},
	{what: "update of nothing", verb: "PUT", path: crs + "/none", body: `{"apiVersion":"demo.nhc-controller.io/v1alpha1","kind":"PowerCycleRemediation","metadata":{"name":"none","resourceVersion":"{version:cr5}"}}`, code: 404, reason: absent},

	// Deletion.
	{what: "delete another object", verb: "DELETE", path: crs + "/contract", body: `{"preconditions":{"uid":"other"}}`, code: 409, reason: conflict},
	{what: "delete an older version", verb: "DELETE", path: crs + "/contract", body: `{"preconditions":{"resourceVersion":"{version:cr}"}}`, code: 409, reason: conflict},
	{what: "delete what has a finalizer", verb: "DELETE", path: crs + "/contract", body: `{"preconditions":{"uid":"{uid:cr}","resourceVersion":"{version:cr5}"}}`, code: 200, want: map[string]any{"kind": "PowerCycleRemediation", "metadata.generation": 2}, newer: "cr5", keep: "going"},
	{what: "delete it again", verb: "DELETE", path: crs + "/contract", code: 200, same: "going"},
	{what: "it is still there", verb: "GET", path: crs + "/contract", code: 200, same: "going"},
	{what: "a deletion cannot be undone", verb: merge, path: crs + "/contract", body: `{"metadata":{"deletionTimestamp":null}}`, code: 200, same: "going"},
	{what: "what is being deleted gets no finalizer", verb: merge, path: crs + "/contract", body: `{"metadata":{"finalizers":["example.com/a","example.com/b"]}}`, code: 422, reason: refused},
	{what: "the last finalizer goes", verb: merge, path: crs + "/contract", body: `{"metadata":{"finalizers":null}}`, code: 200, keep: "gone"},
	{what: "it is gone", verb: "GET", path: crs + "/contract", code: 404, reason: absent},
	{what: "delete nothing", verb: "DELETE", path: crs + "/contract", code: 404, reason: absent},
	{what: "create anew", verb: "POST", path: crs, body: cr(`,"labels":{"l":"2"}`), code: 201, keep: "anew"},
	{what: "delete at once", verb: "DELETE", path: crs + "/contract", body: `{"preconditions":{"uid":"{uid:anew}"}}`, code: 200, want: map[string]any{"kind": "Status", "status": "Success"}},
	{what: "a finalizer that goes before a deletion", verb: "POST", path: crs, body: cr(`,"finalizers":["example.com/a"]`), code: 201},
	{what: "without it", verb: merge, path: crs + "/contract", body: `{"metadata":{"finalizers":null}}`, code: 200, want: map[string]any{"metadata.deletionTimestamp": nil}, keep: "free"},
	{what: "it stays", verb: "GET", path: crs + "/contract", code: 200, same: "free"},

	// Watches.
	{what: "all since the beginning", verb: watch, path: crs + "?resourceVersion={version:cr}", events: []string{
		"MODIFIED contract", "MODIFIED contract", "MODIFIED contract", "MODIFIED contract", "MODIFIED contract", "DELETED contract", "ADDED contract", "DELETED contract", "ADDED contract", "MODIFIED contract",
	}},
	{what: "those with a label that it loses", verb: merge, path: crs + "/contract", body: `{"metadata":{"labels":{"in":"yes"}}}`, code: 200, keep: "in"},
	{what: "the label goes", verb: merge, path: crs + "/contract", body: `{"metadata":{"labels":{"in":null}}}`, code: 200},
	{what: "and comes back", verb: merge, path: crs + "/contract", body: `{"metadata":{"labels":{"in":"yes"}}}`, code: 200},
	{what: "what leaves a selector is deleted", verb: watch, path: crs + "?labelSelector=in&resourceVersion={version:free}", events: []string{"ADDED contract", "DELETED contract", "ADDED contract"}},
	{what: "the opposite", verb: watch, path: crs + "?labelSelector=!in&resourceVersion={version:free}", events: []string{"DELETED contract", "ADDED contract", "DELETED contract"}},
	{what: "by name", verb: watch, path: crs + "?fieldSelector=metadata.name%3Dcontract&resourceVersion={version:in}", events: []string{"MODIFIED contract", "MODIFIED contract"}},
	{what: "from now on, beginning with what there is", verb: watch, path: crs + "?resourceVersion=0&labelSelector=in", events: []string{"ADDED contract"}},
	{what: "with a list and a bookmark", verb: watch, path: crs + "?resourceVersionMatch=NotOlderThan&sendInitialEvents=true&allowWatchBookmarks=true&labelSelector=in", events: []string{"ADDED contract", "BOOKMARK "}},
	{what: "from before there was anything", verb: watch, path: crs + "?resourceVersion=1", events: []string{"ERROR 410"}},
	{what: "from a version that is none", verb: watch, path: crs + "?resourceVersion=x", code: 500},
	{what: "a selector that is none", verb: "GET", path: crs + "?labelSelector=a%3D%3D%3D", code: 400, reason: "BadRequest"},
	{what: "a list", verb: "GET", path: crs + "?labelSelector=in", code: 200, want: map[string]any{"kind": "PowerCycleRemediationList"}},

	// What a CRD validates.
	{what: "a selector is mandatory", verb: "POST", path: nhcs, body: nhc("", none, ""), code: 422, reason: refused},
	{what: "create a NodeHealthCheck", verb: "POST", path: nhcs, body: nhc("", one, `,"status":{"observedNodes":3}`), code: 201, want: map[string]any{"metadata.generation": 1, "status": nil}, keep: "nhc"},
	{what: "a spec of another type", verb: merge, path: nhcs + "/contract", body: `{"spec":{"selector":"all"}}`, code: 422, reason: refused},
	{what: "another spec", verb: merge, path: nhcs + "/contract", body: `{"spec":{"selector":` + two + `}}`, code: 200, want: map[string]any{"metadata.generation": 2}, newer: "nhc", keep: "nhc2"},
	{what: "an unknown field", verb: merge, path: nhcs + "/contract", body: `{"spec":{"other":1}}`, code: 200, same: "nhc2", want: map[string]any{"metadata.generation": 2, "spec.other": nil}},
	{what: "a default returns", verb: merge, path: nhcs + "/contract", body: `{"spec":{"unhealthyConditions":null}}`, code: 200, same: "nhc2"},
	{what: "a status of another type", verb: merge, path: nhcs + "/contract/status", body: `{"status":{"observedNodes":"many"}}`, code: 422, reason: refused},
	{what: "a status", verb: merge, path: nhcs + "/contract/status", body: `{"status":{"observedNodes":3}}`, code: 200, want: map[string]any{"metadata.generation": 2, "status.observedNodes": 3}, newer: "nhc2", keep: "nhc3"},
	{what: "the same status", verb: merge, path: nhcs + "/contract/status", body: `{"status":{"observedNodes":3}}`, code: 200, same: "nhc3"},
	{what: "a status without a version", verb: "PUT", path: nhcs + "/contract/status", body: nhc("", one, ""), code: 422, reason: refused},
	{what: "status by an update keeps the spec", verb: "PUT", path: nhcs + "/contract/status", body: nhc(`,"resourceVersion":"{version:nhc3}"`, one, `,"status":{"observedNodes":4}`), code: 200, want: map[string]any{"metadata.generation": 2, "spec.selector.matchLabels.a": "c", "status.observedNodes": 4}},
	{what: "delete a NodeHealthCheck", verb: "DELETE", path: nhcs + "/contract", code: 200, want: map[string]any{"kind": "Status"}},

	// What is built in.
	{what: "create a Node", verb: "POST", path: nodes, body: node(""), code: 201, keep: "node"},
	{what: "a Node without a version", verb: "PUT", path: nodes + "/contract", body: node(`,"labels":{"a":"b"}`), code: 200, want: map[string]any{"metadata.labels.a": "b"}, newer: "node", keep: "node2"},
	{what: "its status", verb: merge, path: nodes + "/contract/status", body: `{"status":{"phase":"Running"}}`, code: 200, newer: "node2"},
	{what: "delete a Node", verb: "DELETE", path: nodes + "/contract", code: 200, want: map[string]any{"kind": "Status"}},
	{what: "create a Lease", verb: "POST", path: leases, body: lease("", "a"), code: 201, want: map[string]any{"metadata.generation": nil}, keep: "lease"},
	{what: "a Lease has no status", verb: merge, path: leases + "/contract/status", body: `{"metadata":{"labels":{"a":"b"}}}`, code: 404},
	{what: "a Lease without a version", verb: "PUT", path: leases + "/contract", body: lease("", "b"), code: 422, reason: refused},
	{what: "a Lease of this version", verb: "PUT", path: leases + "/contract", body: lease(`,"resourceVersion":"{version:lease}"`, "b"), code: 200, want: map[string]any{"metadata.generation": nil, "spec.holderIdentity": "b"}, newer: "lease"},
	{what: "a Lease of an older version", verb: "PUT", path: leases + "/contract", body: lease(`,"resourceVersion":"{version:lease}"`, "c"), code: 409, reason: conflict},
	{what: "delete a Lease", verb: "DELETE", path: leases + "/contract", code: 200},
}
