#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Keeps the results of a nightly run as statuses of its commit: one for each target, "nightly/TARGET", and "nightly" for
# all of them. What has failed goes into the open issue with the label "nightly", or into a new one. It runs in the
# workflow Nightly, whose environment it needs, with SEED.
set -o errexit -o nounset -o pipefail

repository="repos/${GITHUB_REPOSITORY}"
run="${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}/actions/runs/${GITHUB_RUN_ID}"

put_status() { # CONTEXT STATE DESCRIPTION
  gh api --silent "${repository}/statuses/${GITHUB_SHA}" --raw-field "context=$1" --raw-field "state=$2" --raw-field "description=${3:0:140}" --raw-field "target_url=${run}"
}

# A job of a workflow that is called has the names of both: "nightly-fuzz / run".
jobs="$(gh api --paginate "${repository}/actions/runs/${GITHUB_RUN_ID}/attempts/${GITHUB_RUN_ATTEMPT}/jobs" --jq '
  .jobs[] | select(.name | endswith(" / run"))
  | [(.name | rtrimstr(" / run")), .conclusion, ((.completed_at | fromdate) - (.started_at | fromdate))] | @tsv')"
if [[ -z "${jobs}" ]]; then
  put_status nightly failure "nothing was run"
  echo "nothing was run" >&2
  exit 1
fi

failed=()
while IFS=$'\t' read -r target conclusion seconds; do
  state=success
  if [[ "${conclusion}" != success ]]; then
    state=failure
    failed+=("${target}")
  fi
  echo "${target} ${conclusion} ${seconds} s"
  put_status "nightly/${target}" "${state}" "${conclusion} after ${seconds} s, seed ${SEED}"
done <<<"${jobs}"

if ((${#failed[@]} == 0)); then
  put_status nightly success "seed ${SEED}"
  exit 0
fi
put_status nightly failure "failed: ${failed[*]}"
body="These targets failed on ${GITHUB_SHA}, [log](${run}):

$(printf -- '- `make %s NIGHTLY_SEED='"${SEED}"'`\n' "${failed[@]}")"
open="$(gh issue list --repo "${GITHUB_REPOSITORY}" --label nightly --state open --limit 1 --json number --jq '.[].number')"
if [[ -n "${open}" ]]; then
  gh issue comment "${open}" --repo "${GITHUB_REPOSITORY}" --body "${body}"
else
  gh label create nightly --repo "${GITHUB_REPOSITORY}" --force --description "a nightly run has failed"
  gh issue create --repo "${GITHUB_REPOSITORY}" --label nightly --title "The nightly run failed" --body "${body}"
fi
exit 1
