// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	_ "embed"
	"strconv"
	"strings"
	"time"
)

// HeartbeatLabel makes kwok play the kubelet of a node that has it with the value
// HeartbeatValue: the node becomes Ready, and its Lease is renewed. Without it the
// node falls silent, and after Options.NodeMonitorGracePeriod the node-lifecycle
// controller sets Ready=Unknown.
const (
	HeartbeatLabel = "localkube.nhc-controller.io/heartbeat"
	HeartbeatValue = "true"
)

//go:embed stages.yaml
var stagesTemplate string

// healthyConditions is the template of all conditions of a healthy node, as the
// kubelet writes them.
const healthyConditions = `{{ $now := Now }}
{{ $old := .status.conditions }}
conditions:
{{ range $want := list
  (list "MemoryPressure" "False" "KubeletHasSufficientMemory")
  (list "DiskPressure" "False" "KubeletHasNoDiskPressure")
  (list "PIDPressure" "False" "KubeletHasSufficientPID")
  (list "Ready" "True" "KubeletReady") }}
{{ $since := $now }}
{{ range $old }}
{{ if and (eq .type (index $want 0)) (eq .status (index $want 1)) }}
{{ $since = .lastTransitionTime }}
{{ end }}
{{ end }}
- type: {{ index $want 0 }}
  status: {{ Quote (index $want 1) }}
  reason: {{ index $want 2 }}
  message: kwok plays the kubelet
  lastHeartbeatTime: {{ Quote $now }}
  lastTransitionTime: {{ Quote $since }}
{{ end }}`

// stages returns kwok's configuration.
func stages(heartbeat time.Duration) []byte {
	const indent = "\n      " // That of HEALTHY_CONDITIONS in the file.
	return []byte(strings.NewReplacer(
		"HEALTHY_CONDITIONS", strings.ReplaceAll(healthyConditions, "\n", indent),
		"HEARTBEAT_MILLISECONDS", strconv.FormatInt(heartbeat.Milliseconds(), 10),
	).Replace(stagesTemplate))
}
