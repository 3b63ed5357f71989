#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Makes a release of the files here, whether they are committed or not, in two clones of
# a repository of its own: the second time with an empty build cache, a home of its own,
# another umask and another time zone. Fails if the releases differ, or if
# hack/release.sh accepts what it has to refuse.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

work="$(mktemp -d)"
trap 'chmod -R u+w "${work}"; rm -rf "${work}"' EXIT
version="$(sed -n 's/^RELEASE := //p' Makefile)"

mkdir "${work}/source"
tar --create --exclude=./.git --exclude=./bin --exclude=./_output --exclude=./dist . | tar --extract --directory "${work}/source"
git_source() {
  git -C "${work}/source" -c user.name=release -c user.email=release@localhost -c commit.gpgsign=false "$@"
}
git_source init --quiet
git_source add --all
git_source commit --quiet --message='The files to release'

refused() { # VERSION WHAT
  local output
  if output="$(cd "${work}/source" && hack/release.sh "$1" 2>&1)"; then
    echo "hack/release.sh accepts $2" >&2
    exit 1
  fi
  if [[ "${output}" != *"$2"* ]]; then
    echo "hack/release.sh $1 does not say '$2', but: ${output}" >&2
    exit 1
  fi
}

refused "${version}" "the commit has the tag"
git_source tag "${version}"
refused "${version#v}" "is not a version"
refused "${version}.1" "is not a version"
refused "${version}+1" "is not a version"
refused v999.0.0 "the Makefile has RELEASE"
echo >>"${work}/source/README.md"
refused "${version}" "not committed"
git_source checkout --quiet -- README.md

release() { # DIRECTORY
  git clone --quiet "${work}/source" "$1"
  (cd "$1" && hack/release.sh "${version}" && cd dist && sha256sum --quiet --check SHA256SUMS)
}

first="${work}/first"
second="${work}/second/in a directory/of another name"
modules="$(go env GOMODCACHE)"
mkdir -p "$(dirname "${second}")"
release "${first}"
(
  umask 077
  export TZ=Pacific/Kiritimati LANG=C HOME="${work}/home" GOMODCACHE="${modules}" GOCACHE="${work}/cache"
  release "${second}" >/dev/null
)
diff --recursive "${first}/dist" "${second}/dist"
# What a path of this machine would give away.
if grep --recursive --quiet --text --fixed-strings "${work}" "${first}/dist"; then
  echo "the release names the directory that it was made in" >&2
  exit 1
fi
echo "two releases of the same files are the same"
