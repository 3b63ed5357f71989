#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Lists what is in a binary, as CycloneDX 1.6:
#
#   hack/sbom.sh BINARY OUTPUT [VERSION]
#
# Without VERSION the binary is asked for it, which has to run on this machine then.
#
# The list is made of what the Go linker has recorded in the binary: it names the
# modules that are in it, and not those that go.mod names besides. Of the same binary
# it is the same list, byte by byte.
set -o errexit -o nounset -o pipefail

if [[ $# -lt 2 || $# -gt 3 ]]; then
  echo "usage: $0 BINARY OUTPUT [VERSION]" >&2
  exit 2
fi
binary="$(realpath "$1")"
mkdir -p "$(dirname "$2")"
output="$(realpath "$2")"
version="${3:-$("${binary}" --version)}"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go tool -modfile=hack/tools/cyclonedx-gomod/go.mod cyclonedx-gomod bin \
  -json -std -noserial -notimestamp -version "${version##* }" -output "${output}" "${binary}"

# A module that is missing would make the list worthless.
want="$(go version -m "${binary}" | awk '$1 == "dep"' | wc -l)"
got="$(grep -c '"purl": "pkg:golang/.*type=module&*' "${output}" || true)"
if ((want == 0 || got < want)); then
  echo "${output} has ${got} modules, ${binary} has ${want}" >&2
  exit 1
fi
echo "${output}: ${want} modules"
