#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails if the product and the control plane of the tests and the demo take a module that both need
# in two versions, if another module here takes Kubernetes or golang.org/x in another version, or if a first
# `make demo` compiles more packages than it has to. With the same versions and the same flags, each package is compiled once.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What make demo builds; as in hack/localkube/build.sh, without cgo.
export CGO_ENABLED=0 GOWORK=off
product=(./cmd/... ./test/demo)
localkube=(. ./leash ./kubectl)
limit=2550

deps() { # FORMAT
  go list -deps -f "$1" "${product[@]}"
  go -C hack/localkube list -deps -f "$1" "${localkube[@]}"
}

modules=$(deps '{{with .Module}}{{if not .Main}}{{.Path}} {{if .Replace}}{{.Replace.Version}}{{else}}{{.Version}}{{end}}{{end}}{{end}}' | sort -u)
twice=$(awk '{ versions[$1] = versions[$1] " " $2; if (++count[$1] == 2) print $1 }' <<<"${modules}")
if [[ -n "${twice}" ]]; then
  echo "go.mod and hack/localkube/go.mod have different versions of these modules; take the newer one in both (go get MODULE@VERSION):" >&2
  grep -F -w -f <(echo "${twice}") <<<"${modules}" >&2
  exit 1
fi

# Not those that are compiled apart from the others, by hand or at night, and golangci-lint, which needs newer ones.
apart='hack/tools/(cyclonedx-gomod|golangci-lint|govulncheck|gremlins)/'
wanted=$(go list -m all | grep -E '^(k8s\.io|golang\.org/x)/')
for module in $(git ls-files '*go.mod' | grep -v -E "^go\.mod$|^hack/localkube/|${apart}"); do
  others=$(awk '$1 ~ "^(k8s\\.io|golang\\.org/x)/" { print $1, $2 }' "${module}" | grep -v -x -F -f <(echo "${wanted}") | awk '{ print $1 }' |
    grep -x -F -f <(awk '{ print $1 }' <<<"${wanted}") || true)
  if [[ -n "${others}" ]]; then
    echo "${module} has other versions of these modules than go.mod has (go get MODULE@VERSION):" ${others} >&2
    exit 1
  fi
done

packages=$(deps '{{.ImportPath}}' | sort -u | wc -l)
if ((packages > limit)); then
  echo "make demo compiles ${packages} packages, more than ${limit}" >&2
  exit 1
fi
