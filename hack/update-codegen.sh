#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Generates everything that follows from the types in pkg/apis: their helpers,
# the OpenAPI models and pkg/generated (clientset, listers, informers, apply
# configurations). hack/verify-codegen.sh is its twin.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

apis=pkg/apis
generated=pkg/generated
boilerplate=hack/boilerplate.go.txt
tools=hack/tools/go.mod
# The generators search these for what they are about to replace.
mkdir -p "${generated}"/{applyconfiguration,clientset,informers,listers,openapi}
package="$(go list -m)/${generated}"

# The generators must match the client library that the generated code uses.
generator="$(go list -m -modfile="${tools}" -f '{{.Version}}' k8s.io/code-generator)"
client="$(go list -m -f '{{.Version}}' k8s.io/client-go)"
if [[ "${generator}" != "${client}" ]]; then
  echo "k8s.io/code-generator is ${generator} in ${tools}, but k8s.io/client-go is ${client} in go.mod" >&2
  exit 1
fi

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT

# kube_codegen.sh installs its generators here, not among the user's programs.
GOBIN="${CODEGEN_BIN:-${PWD}/_output/codegen}"
export GOBIN
mkdir -p "${GOBIN}"

go mod download -modfile="${tools}" k8s.io/code-generator
# shellcheck source=/dev/null # Lives in the module cache.
source "$(go list -m -modfile="${tools}" -f '{{.Dir}}' k8s.io/code-generator)/kube_codegen.sh"

kube::codegen::gen_helpers --boilerplate "${boilerplate}" "${apis}"
kube::codegen::gen_register --boilerplate "${boilerplate}" "${apis}"

# intstr is named because its type is part of our API: without its model the
# apply configurations would have no schema for these fields.
kube::codegen::gen_openapi \
  --extra-pkgs k8s.io/apimachinery/pkg/util/intstr \
  --output-dir "${generated}/openapi" \
  --output-pkg "${package}/openapi" \
  --output-model-name-file zz_generated.model_name.go \
  --report-filename hack/openapi-violations.list \
  --update-report \
  --boilerplate "${boilerplate}" \
  "${apis}"

go run ./hack/models-schema >"${work}/models.json"
kube::codegen::gen_client \
  --with-watch \
  --with-applyconfig \
  --applyconfig-openapi-schema "${work}/models.json" \
  --output-dir "${generated}" \
  --output-pkg "${package}" \
  --boilerplate "${boilerplate}" \
  "${apis}"
