#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails if a source file does not begin with the copyright notice.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

notice="Copyright The nhc-controller Authors."
license="SPDX-License-Identifier: Apache-2.0"

status=0
while IFS= read -r file; do
  head="$(head -n 8 "${file}")"
  if [[ "${head}" != *"${notice}"* || "${head}" != *"${license}"* ]]; then
    echo "${file}: the copyright notice is missing (see hack/boilerplate.go.txt)" >&2
    status=1
  fi
done < <(find . \( -path ./.git -o -path ./bin -o -path ./_output -o -name testdata \) -prune \
  -o -type f \( -name '*.go' -o -name '*.sh' \) -print)
exit "${status}"
