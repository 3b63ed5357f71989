// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watches runs an informer for every kind that has an owner, while kinds come and
// go at run time.
//
// Each kind is reconciled on its own. So neither discovery, nor a permission, nor a cache
// that does not fill delays another kind, or a caller that reads the state:
//
//	          ┌─► not served ─┐
//	pending ──┼─► forbidden  ─┼── CRD event, interval, error of the informer ──► probed again
//	          └─► watched    ─┘
//
// A watched kind can be read once its cache is filled, and as long as its watch is open.
// Short breaks of the watch do not matter.
package watches
