#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Generates everything that follows from the types in pkg/apis: their helpers and
# pkg/generated (clientset, listers, informers). hack/verify-codegen.sh is its twin.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

apis=pkg/apis
generated=pkg/generated
boilerplate=hack/boilerplate.go.txt
tools=hack/tools/go.mod
# The generators search these for what they are about to replace.
mkdir -p "${generated}"/{clientset,informers,listers}
package="$(go list -m)/${generated}"

# The generators must match the client library that the generated code uses.
generator="$(go list -m -modfile="${tools}" -f '{{.Version}}' k8s.io/code-generator)"
client="$(go list -m -f '{{.Version}}' k8s.io/client-go)"
if [[ "${generator}" != "${client}" ]]; then
  echo "k8s.io/code-generator is ${generator} in ${tools}, but k8s.io/client-go is ${client} in go.mod" >&2
  exit 1
fi

# kube_codegen.sh installs its generators here, not among the user's programs.
GOBIN="${CODEGEN_BIN:-${PWD}/_output/codegen}"
export GOBIN
mkdir -p "${GOBIN}"

go mod download -modfile="${tools}" k8s.io/code-generator
# shellcheck source=/dev/null # Lives in the module cache.
source "$(go list -m -modfile="${tools}" -f '{{.Dir}}' k8s.io/code-generator)/kube_codegen.sh"

kube::codegen::gen_helpers --boilerplate "${boilerplate}" "${apis}"
kube::codegen::gen_register --boilerplate "${boilerplate}" "${apis}"

kube::codegen::gen_client \
  --with-watch \
  --output-dir "${generated}" \
  --output-pkg "${package}" \
  --boilerplate "${boilerplate}" \
  "${apis}"
