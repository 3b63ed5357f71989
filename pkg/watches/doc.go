// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watches keeps an informer running for every kind that has an owner, and for
// no other, while kinds come and go at run time.
//
// Each kind is reconciled on its own, so that neither discovery nor a permission nor a
// cache that does not fill delays another kind, or a caller that reads the state:
//
//	          ┌─► not served ─┐
//	pending ──┼─► forbidden  ─┼── CRD event, poll, error of the informer ──► probed again
//	          ├─► polled     ─┤
//	          └─► watched    ─┘
//
// A kind that is watched can be read once its cache is filled, and as long as a watch of
// it is open, except for short breaks.
package watches
