#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs every fuzz test for a while:
#
#   FUZZTIME=5s hack/fuzz.sh [REGEXP]
#
# REGEXP selects tests by name. What fails is kept in testdata/fuzz of its package,
# from where every `go test` runs it again; it is to be committed with the mend.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root="${PWD}"
fuzztime="${FUZZTIME:-5s}"
names="${1:-.}"

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT

# time_is_up reports whether a test has failed only because its time was up. Go before 1.27 may report its own deadline as
# a failure (go.dev/issue/75804). An input that fails is written to a file.
time_is_up() {
  grep --quiet --line-regexp ' *context deadline exceeded' "${work}/log" && ! grep --quiet 'Failing input written to' "${work}/log"
}

fuzz_package() { # DIRECTORY
  local directory="$1" name
  local tests
  tests="$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "${directory}"/*_test.go | grep -E -- "${names}")" || return 0
  # One build for all tests of the package.
  rm -f "${work}/fuzz.test"
  go test -c -fuzz . -o "${work}/fuzz.test" "./${directory}" || return 1
  for name in ${tests}; do
    echo "${directory} ${name}"
    (cd "${directory}" && "${work}/fuzz.test" -test.run '^$' -test.fuzz "^${name}\$" -test.fuzztime "${fuzztime}" \
      -test.fuzzcachedir "$(go env GOCACHE)/fuzz/$(go list .)") >"${work}/log" 2>&1 || time_is_up || {
      cat "${work}/log" >&2
      echo "${name} has failed, see ${root}/${directory}/testdata/fuzz/${name}" >&2
      return 1
    }
    # Without one of these lines nothing was run. In a short time that may be no more
    # than what was found earlier.
    grep '^fuzz: elapsed' "${work}/log" | tail -n 1 | grep . || {
      echo "${name} did not run" >&2
      return 1
    }
  done
}

status=0
while IFS= read -r directory; do
  fuzz_package "${directory}" || status=1
done < <(grep -rl --include='*_test.go' '^func Fuzz' cmd pkg | xargs -n 1 dirname | sort -u)
exit "${status}"
