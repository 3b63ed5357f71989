#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs a generator in a copy of this repository and compares:
#
#   hack/verify-generated.sh GENERATOR PATH...
#
# Prints the differences below the paths and fails if there are any.
set -o errexit -o nounset -o pipefail

if [[ $# -lt 2 ]]; then
  echo "usage: $0 GENERATOR PATH..." >&2
  exit 2
fi
generator="$1"
shift

cd "$(dirname "${BASH_SOURCE[0]}")/.."

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
tar --create --exclude=./.git --exclude=./bin --exclude=./_output . | tar --extract --directory "${work}"

if ! (cd "${work}" && "${generator}") >"${work}.log" 2>&1; then
  cat "${work}.log" >&2
  rm -f "${work}.log"
  exit 1
fi
rm -f "${work}.log"

status=0
for path in "$@"; do
  diff --recursive --unified --new-file "${path}" "${work}/${path}" || status=1
done
if [[ "${status}" != 0 ]]; then
  echo "generated files are out of date, run ${generator} (or: make generate)" >&2
fi
exit "${status}"
