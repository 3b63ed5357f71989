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
  # The source of that database. A proxy for modules may have an older version of it.
  source=golang.org/x/vulndb@latest
  go mod download "${source}"
  echo "vuln.go.dev cannot be reached from here. Using $(go list -m "${source}") instead." >&2
  status=0
  check "file://$(go list -m -f '{{.Dir}}' "${source}")/data/osv" || status=$?
fi
if unreachable; then
  echo "NOTHING WAS CHECKED: the database cannot be reached from here. Set GOVULNDB to a mirror." >&2
fi
exit "${status}"
