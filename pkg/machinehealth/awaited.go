// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// MaxReplacementWait is how long a control plane Machine that is gone keeps the control plane slot for
// a replacement that does not come (spec M13.4).
const MaxReplacementWait = 30 * time.Minute

// MayAwaitReplacement reports whether an entry of the history keeps the control plane slot once its
// Machine is gone: that of a control plane Machine with an owner, whose deletion was announced or has
// begun, until it ends.
func MayAwaitReplacement(entry *v1beta1.Remediation) bool {
	return entry.ControlPlane && entry.Owner != "" && entry.RemediationType == v1beta1.RemediationMachineDeletion && !ended(entry)
}

// AwaitsReplacement reports whether an entry of the history keeps the control plane slot at the instant
// now: its Machine is gone, and its replacement has not joined. The owner may make that only afterwards.
// The Machines are those of the namespace, by name. It returns until when at the latest, zero while the
// history does not say since when the Machine is gone.
func AwaitsReplacement(entry *v1beta1.Remediation, machines map[string]*Machine, joined func(*Machine) bool, now time.Time) (until time.Time, awaits bool) {
	if !MayAwaitReplacement(entry) || machines[entry.Machine] != nil {
		return time.Time{}, false
	}
	if replacement := machines[entry.Replacement]; replacement != nil && joined(replacement) {
		return time.Time{}, false
	}
	if entry.Fenced == nil { // A status that cannot be written does not block the others for ever.
		return time.Time{}, now.Before(entry.Detected.Add(maxRemediationAge))
	}
	until = entry.Fenced.Add(MaxReplacementWait)
	return until, now.Before(until)
}
