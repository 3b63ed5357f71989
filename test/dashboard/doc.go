// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard tests the dashboard in a real browser: Chromium without a window.
package dashboard
