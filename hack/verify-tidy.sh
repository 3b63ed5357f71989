#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails if `go mod tidy` would change the go.mod or go.sum of any module here.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0
while IFS= read -r module; do
  if ! (cd "$(dirname "${module}")" && go mod tidy -diff -modfile="$(basename "${module}")"); then
    echo "${module} is not tidy, run go mod tidy there" >&2
    status=1
  fi
done < <(find . \( -path ./.git -o -path ./bin -o -path ./_output \) -prune -o \( -name go.mod -o -path './hack/localkube/v*.mod' \) -print)
exit "${status}"
