#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the container image without a container engine, and everything that is in it:
#
#   hack/image.sh OUTPUT IMAGE LDFLAGS ARCHITECTURE...
#
# OUTPUT then has, besides what hack/image writes:
#
#   linux-ARCHITECTURE/nhc-controller, nhc-dashboard    the binaries, as `make build` makes them
#   linux-ARCHITECTURE/BINARY.cdx.json                  what is in each of them
#
# IMAGE is the name of the image with its tag. LDFLAGS are those of `make build`. Of the
# same commit it is the same image, byte by byte.
set -o errexit -o nounset -o pipefail

if [[ $# -lt 4 ]]; then
  echo "usage: $0 OUTPUT IMAGE LDFLAGS ARCHITECTURE..." >&2
  exit 2
fi
mkdir -p "$1"
output="$(realpath "$1")"
image="$2"
ldflags="$3"
shift 3
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOWORK=off GOFLAGS=-buildvcs=false

variable() { # NAME: the value that the linker puts into the binaries
  tr ' ' '\n' <<<"${ldflags}" | sed -n "s|^k8s.io/component-base/version\.$1=||p"
}
version="$(variable gitVersion)"
revision="$(variable gitCommit)"

# The image is as old as its commit.
created="${SOURCE_DATE_EPOCH:-}"
if [[ -z "${created}" && -n "${revision}" ]]; then
  created="$(git show --no-patch --format=%ct "${revision}")"
fi

for architecture in "$@"; do
  directory="${output}/linux-${architecture}"
  CGO_ENABLED=0 GOOS=linux GOARCH="${architecture}" \
    go build -trimpath -ldflags "${ldflags}" -o "${directory}/" ./cmd/nhc-controller ./cmd/nhc-dashboard
  for binary in nhc-controller nhc-dashboard; do
    hack/sbom.sh "${directory}/${binary}" "${directory}/${binary}.cdx.json" "${version}"
  done
done

# go run -C needs an absolute path in its arguments: OUTPUT is one.
go run -C hack/image . -name "${image}" -version "${version}" -revision "${revision}" \
  -created "${created:-0}" -dir "${output}" "$@"
