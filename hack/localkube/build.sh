#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the control plane for the tests and the demo, with a kubectl:
#
#   hack/localkube/build.sh OUTDIR [PACKAGE...]
#   hack/localkube/build.sh OUTDIR v1.30
#   hack/localkube/build.sh OUTDIR nodes
#
# The first form builds packages of the product beside it, in one graph (go.work), with the linker flags
# in PRODUCT_LDFLAGS. The second takes another minor version of Kubernetes, from v1.30.mod and v1.30.sum.
# The third builds what the real nodes of test/nodes need besides: all controllers and the
# scheduler, a kubelet and a CSI driver.
#
# Versions and checksums come from the go.mod and go.sum here. What is up to date is not built again. The
# product has the same versions and flags, so that each package is compiled once:
# hack/verify-versions.sh checks it.

set -o errexit -o nounset -o pipefail

if [[ $# -lt 1 ]]; then
  echo "usage: $0 OUTDIR [v1.30|nodes|PACKAGE...]" >&2
  exit 2
fi
if ! command -v go >/dev/null; then
  echo "Install Go 1.26 or later (https://go.dev/doc/install), and run this again" >&2
  exit 1
fi
if ! mkdir -p "$1"; then
  echo "Free some space, or choose another directory than $1, and run this again" >&2
  exit 1
fi
GOBIN=$(cd "$1" && pwd)
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=./hack/localkube

# A workspace, flags or a target in the environment do not change what is built. The build needs neither a
# C compiler nor git. With the flags that the Makefile exports, tests share the packages, too. Compilers are
# not short of memory (GOGC).
unset GOOS GOARCH
export GOBIN GOWORK=${PWD}/hack/localkube/go.work GOFLAGS='-mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false' CGO_ENABLED=0 GOGC=400

# In the directory of the programs, they are moved into place as a whole. What a killed build has left goes.
find "${GOBIN}" -maxdepth 1 -name '.build-*' -mmin +60 -exec rm -rf {} +
output=$(mktemp -d "${GOBIN}/.build-XXXXXX")
trap 'rm -rf "${output}"' EXIT
export GOTMPDIR=${output}

# fail says what to do first, then what Go has said.
fail() {
  case "$(<"${output}/log")" in
  *"no space left on device"* | *"disk quota exceeded"*)
    echo "The disk is full: free 6 GB in $(go env GOCACHE), or 1 GB in ${GOBIN}, and run this again. Go says:"
    ;;
  *"dial tcp"* | *"no such host"* | *"module lookup disabled"* | *"i/o timeout"* | *"proxyconnect"* | *"unexpected status"*)
    echo "A Go module cannot be fetched: connect to the network, or set GOPROXY to a mirror of proxy.golang.org, and run this again. Go says:"
    ;;
  *) echo "The build has failed. Go says:" ;;
  esac >&2
  tail -n 20 "${output}/log" >&2
  exit 1
}

# build installs what is not up to date. Other than build -o, install does not link again what is.
build() { # FLAG... -- PACKAGE...
  local flags=() total
  while [[ "$1" != -- ]]; do
    flags+=("$1")
    shift
  done
  shift
  : >"${output}/log"
  go list "${flags[@]}" -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "$@" 2> >(downloads) >"${output}/stale" || fail
  total=$(wc -l <"${output}/stale")
  ((total > 0)) || return 0
  echo "Building ${total} packages"
  go install -v "${flags[@]}" "$@" 2>&1 | progress "${total}" || fail
}

# downloads counts the modules that are fetched, and keeps what else Go says.
downloads() {
  local line count=0
  while IFS= read -r line; do
    if [[ "${line}" != "go: downloading "* ]]; then
      echo "${line}" >>"${output}/log"
    elif ((++count % 50 == 0)); then
      echo "  ${count} modules fetched"
    fi
  done
}

# progress counts the packages that `go install -v` names as it compiles them, and keeps what else it says.
progress() { # PACKAGES
  local line count=0 step=$(($1 / 20 + 1))
  while IFS= read -r line; do
    if [[ ! "${line}" =~ ^[A-Za-z0-9._~/-]+$ ]]; then
      echo "${line}" >>"${output}/log"
    elif ((++count % step == 0)); then
      echo "  ${count} of $1 packages"
    fi
  done
}

# Without these the API server calls itself v0.0.0-master, and clients refuse to compare their version with it.
kubernetes_ldflags() { # VERSION
  local major minor package
  IFS=. read -r major minor _ <<<"${1#v}"
  echo -n "-s -w"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    echo -n " -X ${package}.gitVersion=$1 -X ${package}.gitMajor=${major} -X ${package}.gitMinor=${minor}"
    echo -n " -X ${package}.gitCommit=unknown -X ${package}.gitTreeState=clean"
  done
}

modfile=go.mod
if [[ "${1:-}" == v* ]]; then
  modfile=$1.mod
  export GOWORK=off
fi
kubernetes=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "${here}/${modfile}")
ldflags=$(kubernetes_ldflags "${kubernetes}")

case "${1:-}" in
v*)
  cd "${here}"
  build -modfile="${modfile}" -tags=full -ldflags="${ldflags}" -- . ./leash ./kubectl
  ;;
nodes)
  build -ldflags="${ldflags}" -- "${here}/kubelet" "${here}/csi"
  GOBIN=${GOBIN}/full build -tags=full -ldflags="${ldflags}" -- "${here}"
  ;;
*)
  build -ldflags="-s -w ${PRODUCT_LDFLAGS:-}" -ldflags="github.com/nhc-controller/nhc-controller/hack/localkube/...=${ldflags}" \
    -- "${here}" "${here}/leash" "${here}/kubectl" "$@"
  ;;
esac
