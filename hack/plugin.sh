#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the plugin kubectl nhc for several platforms, and the manifest by which Krew installs it:
#
#   hack/plugin.sh OUTPUT VERSION LDFLAGS OS-ARCHITECTURE...
#
#   kubectl-nhc-VERSION-OS-ARCHITECTURE.tar.gz   the plugin and its licence
#   nhc.yaml                                     the manifest, with their checksums
#
# LDFLAGS are those of `make build`. Of the same commit the same Go makes the same files.
set -o errexit -o nounset -o pipefail

if [[ $# -lt 4 ]]; then
  echo "usage: $0 OUTPUT VERSION LDFLAGS OS-ARCHITECTURE..." >&2
  exit 2
fi
mkdir -p "$1"
output="$(realpath "$1")"
version="$2"
ldflags="$3"
shift 3
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOWORK=off GOFLAGS=-buildvcs=false

repository="https://github.com/nhc-controller/nhc-controller"
work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT

manifest="${output}/nhc.yaml"
cat >"${manifest}" <<MANIFEST
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: nhc
spec:
  version: ${version}
  homepage: ${repository}
  shortDescription: Show and control node remediation by nhc-controller
  description: |
    Shows what NodeHealthChecks, MachineHealthChecks and RemediationBudgets do about
    unhealthy nodes, why they do no more, who is next, and what happened before; and
    pauses, stops, holds and confirms by hand. Needs nhc-controller in the cluster.
  platforms:
MANIFEST

for platform in "$@"; do
  os="${platform%-*}" architecture="${platform#*-}"
  binary=kubectl-nhc
  [[ "${os}" != windows ]] || binary+=.exe
  directory="${work}/${platform}"
  CGO_ENABLED=0 GOOS="${os}" GOARCH="${architecture}" \
    go build -trimpath -ldflags "${ldflags}" -o "${directory}/${binary}" ./cmd/kubectl-nhc
  install -m 0644 LICENSE "${directory}/LICENSE"
  archive="kubectl-nhc-${version}-${platform}.tar.gz"
  tar --create --directory="${directory}" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar --mode=u=rwX,go=rX \
    "${binary}" LICENSE | gzip --no-name --best >"${output}/${archive}"
  sum="$(sha256sum <"${output}/${archive}")"
  cat >>"${manifest}" <<MANIFEST
  - selector:
      matchLabels:
        os: ${os}
        arch: ${architecture}
    uri: ${repository}/releases/download/${version}/${archive}
    sha256: ${sum%% *}
    bin: ${binary}
MANIFEST
done
