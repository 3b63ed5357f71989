#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails if a package of the product, or the tests in all, have grown by more than 2 % beyond their entry in
# hack/lines.txt. With --update it writes the entries. Generated code does not count.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Prints "LINES PACKAGE" for each package of pkg and cmd, then the tests. It works in a copy that is no clone, too.
count() {
  find pkg cmd test hack -name '*.go' -not -path 'pkg/generated/*' -not -name 'zz_generated*' -not -path '*/node_modules/*' -print0 | xargs -0 awk '
    FNR == 1 {
      package = FILENAME
      sub("/[^/]*$", "", package)
      if (FILENAME ~ /^test\/|_test[.]go$/) package = "tests"
      else if (FILENAME ~ /^hack\//) package = ""
    }
    package != "" { lines[package]++ }
    END { for (package in lines) print lines[package], package }' | LC_ALL=C sort -k 2
}

if [[ "${1:-}" == --update ]]; then
  count >hack/lines.txt
fi
awk '
  NR == FNR { permitted[$2] = $1; next }
  { if ($2 == "tests") tests = $1; else product += $1 }
  $1 > permitted[$2] * 1.02 {
    print $2 " has " $1 " lines, and hack/lines.txt permits " permitted[$2] + 0 ": take lines away, or raise the entry and give the reason in the commit"
    grown = 1
  }
  END { print "Lines: product " product ", tests " tests; exit grown }' hack/lines.txt <(count)
