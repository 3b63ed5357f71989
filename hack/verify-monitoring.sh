#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks manifests/monitoring and docs/runbooks: the manifests, the tests of the
# alerts, and that alerts and dashboard read only metrics that the controller has.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT

# With the tag, it does not link the SDKs of clouds: an eighth of the source.
go -C test/monitoring build -tags remove_all_sd -ldflags='-s -w' -o "${work}/promtool" github.com/prometheus/prometheus/cmd/promtool
promtool() {
  (cd test/monitoring && "${work}/promtool" "$@")
}

go run -modfile=hack/tools/go.mod sigs.k8s.io/kustomize/kustomize/v5 build manifests/monitoring >"${work}/manifests.yaml"
# The metrics come from the code of the controller.
NHC_METRICS_LIST="${work}/metrics.json" go test -count=1 -run '^TestListMetrics$' ./cmd/nhc-controller/app

NHC_METRICS_LIST="${work}/metrics.json" NHC_MONITORING_MANIFESTS="${work}/manifests.yaml" \
  go -C test/monitoring test -count=1 ./...

promtool check rules --lint=all --lint-fatal ../../manifests/monitoring/rules.yaml
promtool check config --syntax-only ../../manifests/monitoring/prometheus.yaml
for tests in test/monitoring/*_alerts.yaml; do
  promtool test rules "$(basename "${tests}")"
done
