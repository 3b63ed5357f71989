// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// The objects of the tests.
const (
	testGroupVersion = objecttest.GroupVersion
	testNamespace    = objecttest.Namespace
	testKind         = objecttest.Kind
)

var (
	epoch = objecttest.Epoch

	reboot, supportsMultiple, named = objecttest.Template, objecttest.SupportsMultiple, objecttest.Named

	cr, foreign, deleting, succeeded, failed, awaitsDelete, timedOut = objecttest.CR, objecttest.Foreign, objecttest.Deleting, objecttest.Succeeded, objecttest.Failed, objecttest.AwaitsDeletion, objecttest.TimedOut
	forNode, from, annotate                                          = objecttest.ForNode, objecttest.From, objecttest.Annotate

	ownerNamed = objecttest.Owner
)

// rendered is the CR of a target of the NodeHealthCheck of the tests.
func rendered(target object.Target, template *object.Template) *unstructured.Unstructured {
	owner := ownerNamed("workers")
	owner.UID = "workers-uid"
	return object.Render(owner, target, template)
}
