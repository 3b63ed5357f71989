#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Looks for known vulnerabilities in what the controller calls. That depends on a
# database that changes every day, so it is not part of `make verify`: a commit that
# was good stays good. GOVULNDB names a mirror of the database.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
database="${GOVULNDB:-https://vuln.go.dev}"

log="$(mktemp)"
trap 'rm -f "${log}"' EXIT
status=0
go tool -modfile=hack/tools/govulncheck/go.mod govulncheck -db "${database}" ./cmd/... ./pkg/... 2>&1 | tee "${log}" || status=$?
if grep --quiet 'fetching vulnerabilities' "${log}"; then
  echo "NOTHING WAS CHECKED: the database ${database} cannot be reached from here. Set GOVULNDB to a mirror." >&2
fi
exit "${status}"
