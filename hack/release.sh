#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Makes everything that a release has, in dist/:
#
#   hack/release.sh VERSION
#
# VERSION is the RELEASE of the Makefile, and the tag of the commit. Of the same commit
# the same Go makes the same files, byte by byte. docs/release.md tells what they are
# for. Nothing is published.
set -o errexit -o nounset -o pipefail

if [[ $# -ne 1 ]]; then
  echo "usage: $0 VERSION" >&2
  exit 2
fi
version="$1"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { # MESSAGE
  echo "$1" >&2
  exit 1
}

number='(0|[1-9][0-9]*)'
identifiers='[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*'
[[ "${version}" =~ ^v${number}\.${number}\.${number}(-${identifiers})?$ ]] || fail "${version} is not a version such as v1.2.3 or v1.2.3-rc.1"
release="$(sed -n 's/^RELEASE := //p' Makefile)"
[[ "${version}" == "${release}" ]] || fail "the Makefile has RELEASE ${release}, not ${version}"
[[ -e .git ]] || fail "a release is made in a clone of the repository"
[[ -z "$(git status --porcelain)" ]] || fail "there are changes that are not committed"
tag="$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null || true)"
[[ "${tag}" == "${version}" ]] || fail "the commit has the tag '${tag}', not ${version}"
image="$(sed -n 's/^ *image: *//p' manifests/install.yaml)"
[[ "${image}" == *":${version}" && "${image}" != *$'\n'* ]] || fail "manifests/install.yaml has to name one image, with the tag ${version}: ${image}"

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
architectures=(amd64 arm64)
make --no-print-directory image-oci IMAGE_DIR="${work}/image" IMAGE="${image}" IMAGE_ARCHITECTURES="${architectures[*]}"

rm -rf dist
mkdir dist
name="nhc-controller-${version}"
for architecture in "${architectures[@]}"; do
  built="${work}/image/linux-${architecture}"
  for binary in nhc-controller nhc-dashboard; do
    install -m 0755 "${built}/${binary}" "dist/${binary}-${version}-linux-${architecture}"
    install -m 0644 "${built}/${binary}.cdx.json" "dist/${binary}-${version}-linux-${architecture}.cdx.json"
  done
  install -m 0644 "${work}/image/docker-${architecture}.tar" "dist/${name}-image-${architecture}.docker.tar"
done
install -m 0644 "${work}/image/oci.tar" "dist/${name}-image.oci.tar"
install -m 0644 "${work}/image/reference" dist/image.txt

# The manifest names the image by its digest: it never runs another one.
reference="$(cat dist/image.txt)"
sed "s|^\( *image: *\)${image//./\\.}\$|\1${reference}|" manifests/install.yaml >dist/install.yaml
changed="$(diff manifests/install.yaml dist/install.yaml | grep -c '^>' || true)"
[[ "${changed}" == 1 ]] || fail "install.yaml differs from manifests/install.yaml in ${changed} lines, not in one"

# The chart, too, names the image by its digest.
go run ./hack/chart pack charts/nhc-controller "${reference}" "dist/nhc-controller-${version#v}.tgz"

# The plugin, and the manifest by which Krew installs it.
make --no-print-directory plugin PLUGIN_DIR=dist

# What else a release has goes into dist/ here, before the checksums.

# A binary that runs here has to say what it is.
for binary in nhc-controller nhc-dashboard; do
  native="dist/${binary}-${version}-linux-$(go env GOHOSTARCH)"
  if [[ "$(go env GOHOSTOS)" == linux && -x "${native}" ]]; then
    says="$("${native}" --version)"
    [[ "${says}" == "${binary} version ${version}" ]] || fail "${native} says that it is ${says}"
  fi
done

(
  cd dist
  export LC_ALL=C # The order of the names.
  sha256sum -- * >"${work}/SHA256SUMS"
)
install -m 0644 "${work}/SHA256SUMS" dist/SHA256SUMS
echo "dist/ has release ${version}, built by $(go env GOVERSION):"
cat dist/SHA256SUMS
