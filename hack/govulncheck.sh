#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Looks for known vulnerabilities in what the controller calls. That depends on a
# database that changes every day, so it is not part of `make verify`: a commit that
# was good stays good. GOVULNDB names a mirror of the database.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

log="$(mktemp)"
trap 'rm -f "${log}"' EXIT

# check URL: the exit status is 0 only if nothing was found.
check() {
  go tool -modfile=hack/tools/govulncheck/go.mod govulncheck -db "$1" ./cmd/... ./pkg/... 2>&1 | tee "${log}"
}

unreachable() {
  grep --quiet 'fetching vulnerabilities' "${log}"
}

status=0
check "${GOVULNDB:-https://vuln.go.dev}" || status=$?
if unreachable && [[ -z "${GOVULNDB:-}" ]]; then
  # The records of that database. A proxy for modules may have an older version of them.
  records=golang.org/x/vulndb@latest
  if go mod download "${records}"; then
    echo "vuln.go.dev cannot be reached from here. Using $(go list -m "${records}") instead." >&2
    status=0
    check "file://$(go list -m -f '{{.Dir}}' "${records}")/data/osv" || status=$?
  fi
fi
if unreachable; then
  echo "NOTHING WAS CHECKED: the database cannot be reached from here. Set GOVULNDB to a mirror." >&2
fi
exit "${status}"
