// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package execute carries out the plans of package remediation. It is the only writer of
// remediation objects (CRs) and of annotations of Nodes, and takes every node lease. A uid, a
// resourceVersion or a name binds every write to the objects that the plan was made from.
package execute
