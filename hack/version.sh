#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints the linker flags that put the version into the binary:
#
#   hack/version.sh RELEASE
#
# In a clone the version is the tag of the commit, or the release with the commit
# added to it. Elsewhere, as in an unpacked archive, it is the release.
set -o errexit -o nounset -o pipefail

if [[ $# -ne 1 ]]; then
  echo "usage: $0 RELEASE" >&2
  exit 2
fi
version="$1"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

flags=()
set_variable() { # NAME VALUE
  local package
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=(-X "${package}.$1=$2")
  done
}

# A copy inside of some other repository does not have that one's version.
if [[ -e .git ]] && commit="$(git rev-parse --verify HEAD 2>/dev/null)"; then
  state=clean
  if [[ -n "$(git status --porcelain 2>/dev/null)" ]]; then
    state=dirty
  fi
  if tag="$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null)" && [[ "${state}" == clean ]]; then
    version="${tag}"
  else
    version="${version}-dev+${commit:0:12}"
    [[ "${state}" == clean ]] || version+=".dirty"
  fi
  set_variable gitCommit "${commit}"
  set_variable gitTreeState "${state}"
fi
set_variable gitVersion "${version}"
echo "${flags[*]}"
