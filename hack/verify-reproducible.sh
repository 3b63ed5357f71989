#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the binaries of the image twice, in different directories and at different
# times, the second time with an empty build cache, a home of its own, another umask and
# another time zone. Fails if they differ:
#
#   hack/verify-reproducible.sh LDFLAGS
#
# With the source, the Go version and the linker flags of a release, anyone can thus
# make sure that its binaries are what was built from it.
set -o errexit -o nounset -o pipefail

if [[ $# -ne 1 ]]; then
  echo "usage: $0 LDFLAGS" >&2
  exit 2
fi
ldflags="$1"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT

build() { # DIRECTORY
  mkdir -p "$1"
  cp -R go.mod go.sum cmd manifests pkg "$1"
  (cd "$1" && CGO_ENABLED=0 GOFLAGS='-buildvcs=false' GOWORK=off \
    go build -trimpath -ldflags "${ldflags}" -o built/ ./cmd/nhc-controller ./cmd/nhc-dashboard)
}

modules="$(go env GOMODCACHE)"
build "${work}/first"
(
  umask 077
  export TZ=Pacific/Kiritimati LANG=C HOME="${work}/home" GOMODCACHE="${modules}" GOCACHE="${work}/cache"
  build "${work}/second/in a directory/of another name"
)
for binary in nhc-controller nhc-dashboard; do
  built="${work}/first/built/${binary}"
  first="$(sha256sum <"${built}")"
  second="$(sha256sum <"${work}/second/in a directory/of another name/built/${binary}")"
  if [[ "${first}" != "${second}" ]]; then
    echo "two builds of ${binary} from the same source differ: ${first%% *} and ${second%% *}" >&2
    exit 1
  fi
  # What a path of this machine would give away.
  if grep --quiet --text --fixed-strings "${work}" "${built}"; then
    echo "${binary} names the directory that it was built in" >&2
    exit 1
  fi
  echo "${first%% *}  ${binary} ($(go env GOVERSION) $(go env GOOS)/$(go env GOARCH))"
done
