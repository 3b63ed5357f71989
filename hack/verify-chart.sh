#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Tests charts/nhc-controller with Helm, at the version in hack/tools/helm, which takes
# minutes to compile, once.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p _output
NHC_HELM="${PWD}/_output/helm"
export NHC_HELM
go -C hack/tools/helm build -trimpath -ldflags='-s -w' -o "${NHC_HELM}" helm.sh/helm/v4/cmd/helm
go test -count=1 -timeout 20m "$@" ./test/chart
