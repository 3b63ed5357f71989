#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Generates everything that follows from the types in pkg/apis: their helpers and
# pkg/generated (clientset, listers, informers). hack/verify-codegen.sh is its twin.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

generated=pkg/generated
package="$(go list -m)/${generated}"
versions=(machine/v1beta1 nhc/v1alpha1 remediation/v1alpha1)
apis=("${versions[@]/#/./pkg/apis/}")
tools=hack/tools/go.mod

# The generators must match the client library that the generated code uses.
generator="$(go list -m -modfile="${tools}" -f '{{.Version}}' k8s.io/code-generator)"
client="$(go list -m -f '{{.Version}}' k8s.io/client-go)"
if [[ "${generator}" != "${client}" ]]; then
  echo "k8s.io/code-generator is ${generator} in ${tools}, but k8s.io/client-go is ${client} in go.mod" >&2
  exit 1
fi

# Not kube_codegen.sh of k8s.io/code-generator: it builds more generators than these, from versions of its own.
generate() { # GENERATOR ARGUMENT...
  go run -modfile="${tools}" "k8s.io/code-generator/cmd/$1" --go-header-file hack/boilerplate.go.txt "${@:2}"
}

rm -rf "${generated}"
find pkg/apis -name 'zz_generated.*.go' -delete
generate deepcopy-gen --output-file zz_generated.deepcopy.go "${apis[@]}"
generate register-gen --output-file zz_generated.register.go "${apis[@]}"
generate client-gen --output-dir "${generated}/clientset" --output-pkg "${package}/clientset" \
  --clientset-name versioned --input-base "${PWD}/pkg/apis" "${versions[@]/#/--input=}"
generate lister-gen --output-dir "${generated}/listers" --output-pkg "${package}/listers" "${apis[@]}"
generate informer-gen --output-dir "${generated}/informers" --output-pkg "${package}/informers" \
  --versioned-clientset-package "${package}/clientset/versioned" --listers-package "${package}/listers" "${apis[@]}"
