#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Generates what follows from manifests in charts/nhc-controller: the templates without
# values of their own, the alerts and the dashboard. hack/verify-manifests.sh and
# TestUpToDate of hack/chart fail if it was not run.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
go run ./hack/chart generate .
