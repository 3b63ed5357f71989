// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package execute carries out the plans of package remediation. It is the only writer of
// remediation objects (CRs), of node leases and of annotations of Nodes. Every write is bound
// to what the plan was made from, by uid, resourceVersion or name.
package execute
