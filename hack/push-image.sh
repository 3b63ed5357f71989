#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Pushes the image of a release to its registry, for all architectures:
#
#   hack/push-image.sh ARCHIVE REGISTRY/NAME:TAG@DIGEST
#
# Fails if the registry then has another digest. Log in before, with docker, podman or
# crane auth login.
set -o errexit -o nounset -o pipefail

if [[ $# -ne 2 || "$2" != *:*@sha256:* ]]; then
  echo "usage: $0 ARCHIVE REGISTRY/NAME:TAG@DIGEST" >&2
  exit 2
fi
archive="$(realpath "$1")"
tagged="${2%@*}"
digest="${2#*@}"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

crane() {
  go tool -modfile=hack/tools/crane/go.mod crane "$@"
}

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
tar --extract --file "${archive}" --directory "${work}"
crane push "${work}" "${tagged}"
got="$(crane digest "${tagged}")"
if [[ "${got}" != "${digest}" ]]; then
  echo "${tagged} has digest ${got}, not ${digest}" >&2
  exit 1
fi
echo "pushed ${tagged}@${digest}"
