#!/usr/bin/env bash
# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Makes a certificate for the webhooks of an operator that is installed without OLM and
# cert-manager: the Secret webhook-server-cert, and the CA in the webhook configurations
# whose names begin with NAMESPACE-.
#
#   webhook-cert.sh NAMESPACE SERVICE
#
# The certificate is valid for 10 years. Run it again to renew it.
set -o errexit -o nounset -o pipefail

if [[ $# -ne 2 ]]; then
  echo "usage: $0 NAMESPACE SERVICE" >&2
  exit 2
fi
namespace="$1"
service="$2"

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=${service}" \
  -addext "subjectAltName=DNS:${service}.${namespace}.svc" \
  -keyout "${work}/tls.key" -out "${work}/tls.crt" 2>"${work}/log" || { cat "${work}/log" >&2; exit 1; }

kubectl --namespace "${namespace}" create secret tls webhook-server-cert \
  --cert="${work}/tls.crt" --key="${work}/tls.key" --dry-run=client --output=yaml |
  kubectl apply --server-side --force-conflicts --filename=-

ca="$(base64 --wrap=0 <"${work}/tls.crt")"
kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations --output=name |
  { grep "/${namespace}-" || true; } |
  while IFS= read -r configuration; do
    count="$(kubectl get "${configuration}" --output=jsonpath='{.webhooks[*].name}' | wc --words)"
    patch=""
    for ((i = 0; i < count; i++)); do
      patch+="${patch:+,}{\"op\":\"add\",\"path\":\"/webhooks/${i}/clientConfig/caBundle\",\"value\":\"${ca}\"}"
    done
    kubectl patch "${configuration}" --type=json --patch="[${patch}]"
  done
