#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the control plane, with a kubectl, and kwok for the tests and the demo:
#
#   hack/localkube/build.sh OUTDIR [v1.30]
#   hack/localkube/build.sh OUTDIR nodes
#
# The second form builds what the real nodes of test/nodes need besides: a kubelet and a CSI driver.
#
# Versions and checksums come from the go.mod and go.sum here; for another minor version of
# Kubernetes than that of the tests, from the files named after it, such as v1.30.mod and
# v1.30.sum (kwok always comes from go.mod). What is up to date is not built again.
#
# What these programs share with the product has the same versions and flags, so that each package
# is compiled once: hack/verify-versions.sh checks it.
#
# If KUBEBUILDER_ASSETS names a directory with etcd, kube-apiserver and kubectl, these are used, and
# only the rest is built.

set -o errexit -o nounset -o pipefail

if [[ $# -lt 1 || $# -gt 2 ]]; then
  echo "usage: $0 OUTDIR [v1.30|nodes]" >&2
  exit 2
fi
mkdir -p "$1"
GOBIN=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"

# A workspace, flags or a target in the environment do not change what is built. The
# build needs neither a C compiler nor git.
unset GOOS GOARCH
export GOBIN GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0
nodes=
if [[ "${2:-}" == nodes ]]; then
  nodes=true
  set -- "$1"
fi
modfile=${2:-go}.mod

kubernetes=$(go list -m -modfile="${modfile}" -f '{{.Version}}' k8s.io/kubernetes)
kwok=$(go list -m -f '{{.Version}}' sigs.k8s.io/kwok)

# Without these the API server calls itself v0.0.0-master, and clients refuse to
# compare their version with it.
IFS=. read -r major minor _ <<<"${kubernetes#v}"
ldflags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  ldflags+=" -X ${package}.gitVersion=${kubernetes}"
  ldflags+=" -X ${package}.gitMajor=${major} -X ${package}.gitMinor=${minor}"
  ldflags+=" -X ${package}.gitCommit=unknown -X ${package}.gitTreeState=clean"
done

# install, other than build -o, does not link again what is up to date.
install() { # NAME MODFILE LDFLAGS PACKAGE
  local flags=(-modfile="$2" -tags="${tags}" -trimpath -buildvcs=false -ldflags "$3") packages
  if [[ "$(go list "${flags[@]}" -f '{{.Stale}}' "$4")" == true ]]; then
    packages=$(go list "${flags[@]}" -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "$4" | wc -l)
    echo "Building $1: ${packages} packages"
    go install -v "${flags[@]}" "$4" 2>&1 | progress "${packages}"
  fi
}

# progress counts the packages that `go install -v` names as it compiles them, and passes on
# what else it says. The estimate takes all packages for equal: it is rough.
progress() { # PACKAGES
  local line done=0 step=$(($1 / 20 + 1)) begin=${SECONDS}
  while IFS= read -r line; do
    if [[ ! "${line}" =~ ^[A-Za-z0-9._~/-]+$ ]]; then
      echo "${line}" >&2
    elif ((++done % step == 0)); then
      echo "  ${done} of $1 packages, about $(((SECONDS - begin) * ($1 - done) / done / 60 + 1)) min left"
    fi
  done
}

assets=(etcd kube-apiserver kubectl)
tags=
if [[ -n "${nodes}" ]]; then
  install "the kubelet of Kubernetes ${kubernetes}" "${modfile}" "${ldflags}" ./kubelet
  install "the CSI driver" "${modfile}" "-s -w" ./csi
  exit
fi
if [[ -n "${KUBEBUILDER_ASSETS:-}" && $# -eq 1 ]]; then
  for name in "${assets[@]}"; do
    if [[ ! -x "${KUBEBUILDER_ASSETS}/${name}" ]]; then
      echo "KUBEBUILDER_ASSETS has no ${name}: ${KUBEBUILDER_ASSETS}" >&2
      exit 1
    fi
  done
  tags=kubebuilder_assets
fi
install "Kubernetes ${kubernetes}${tags:+ without what KUBEBUILDER_ASSETS has}" "${modfile}" "${ldflags}" .
install "leash" "${modfile}" "-s -w" ./leash
# test/localkube runs what is there beside localkube instead of a part of it.
for name in "${assets[@]}"; do
  [[ ! -L "${GOBIN}/${name}" ]] || rm "${GOBIN}/${name}"
done
if [[ -n "${tags}" ]]; then
  ln -sf "${assets[@]/#/${KUBEBUILDER_ASSETS}/}" "${GOBIN}/"
else
  install "kubectl" "${modfile}" "${ldflags}" ./kubectl
fi
install "kwok ${kwok}" go.mod \
  "-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=${kwok}" sigs.k8s.io/kwok/cmd/kwok
