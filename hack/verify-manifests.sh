#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails if hack/update-manifests.sh would change anything.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec hack/verify-generated.sh hack/update-manifests.sh manifests charts
