// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// While a Node has a remediation object, that which decides about the object's
// template stays as it is. These rules look at the stored status: an update of
// the spec cannot change it, and an update of the status cannot change the spec.
// They compare the spec first, so that they do not read through thousands of entries
// whenever the status is written.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.spec) || !has(oldSelf.spec) || (has(self.spec.selector) && has(self.spec.selector.matchLabels) ? self.spec.selector.matchLabels : {}) == (has(oldSelf.spec.selector) && has(oldSelf.spec.selector.matchLabels) ? oldSelf.spec.selector.matchLabels : {}) && (has(self.spec.selector) && has(self.spec.selector.matchExpressions) ? self.spec.selector.matchExpressions : []) == (has(oldSelf.spec.selector) && has(oldSelf.spec.selector.matchExpressions) ? oldSelf.spec.selector.matchExpressions : []) || !(has(oldSelf.status) && has(oldSelf.status.unhealthyNodes) && oldSelf.status.unhealthyNodes.exists(n, has(n.remediations) && size(n.remediations) > 0))`,message="selector update prohibited due to running remediation",fieldPath=`.spec.selector`
// +kubebuilder:validation:XValidation:rule=`!has(self.spec) || !has(oldSelf.spec) || has(self.spec.remediationTemplate) == has(oldSelf.spec.remediationTemplate) && (!has(self.spec.remediationTemplate) || self.spec.remediationTemplate == oldSelf.spec.remediationTemplate) || !(has(oldSelf.status) && has(oldSelf.status.unhealthyNodes) && oldSelf.status.unhealthyNodes.exists(n, has(n.remediations) && size(n.remediations) > 0))`,message="remediation template update prohibited due to running remediation",fieldPath=`.spec.remediationTemplate`
// +kubebuilder:validation:XValidation:rule=`!has(self.spec) || !has(oldSelf.spec) || (has(self.spec.escalatingRemediations) ? self.spec.escalatingRemediations : []) == (has(oldSelf.spec.escalatingRemediations) ? oldSelf.spec.escalatingRemediations : []) || !(has(oldSelf.status) && has(oldSelf.status.unhealthyNodes) && oldSelf.status.unhealthyNodes.exists(n, has(n.remediations) && size(n.remediations) > 0))`,message="escalating remediations update prohibited due to running remediation",fieldPath=`.spec.escalatingRemediations`
//
// The rules of the spec are not asked where there is none; this one speaks for
// those that it would break. An object that was stored without a spec may stay so,
// or its status could not be written.
//
// +kubebuilder:validation:XValidation:rule=`has(self.spec) || oldSelf.hasValue() && !has(oldSelf.value().spec)`,message="one of minHealthy and maxUnhealthy should be specified; Selector is mandatory; Either RemediationTemplate or at least one EscalatingRemediations must be set",optionalOldSelf=true,fieldPath=`.spec`

// NodeHealthCheck says which Nodes are observed, what makes them unhealthy, and
// by which remediation templates an unhealthy Node is repaired.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodehealthchecks,singular=nodehealthcheck,scope=Cluster,shortName=nhc,categories={medik8s,remediation}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name=Observed,type=integer,JSONPath=`.status.observedNodes`
// +kubebuilder:printcolumn:name=Healthy,type=integer,JSONPath=`.status.healthyNodes`
// +kubebuilder:printcolumn:name=Unhealthy,type=integer,JSONPath=`.status.unhealthyNodeCount`
// +kubebuilder:printcolumn:name=Remediating,type=integer,JSONPath=`.status.remediatingNodes`
// +kubebuilder:printcolumn:name=Gate,type=string,JSONPath=`.status.conditions[?(@.type=="RemediationAllowed")].reason`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name=Mode,type=string,priority=1,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name=Soon-Unhealthy,type=integer,priority=1,JSONPath=`.status.soonUnhealthyNodes`
// +kubebuilder:printcolumn:name=Storm,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="StormActive")].status`
// +kubebuilder:printcolumn:name=Why,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="RemediationAllowed")].message`
type NodeHealthCheck struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants.
	// +optional
	Spec NodeHealthCheckSpec `json:"spec,omitempty"`
	// status is what the controller has found and is doing. It can be rebuilt from the
	// Nodes and the remediation objects.
	// +optional
	Status NodeHealthCheckStatus `json:"status,omitempty"`
}

// NodeHealthCheckList is a list of NodeHealthChecks.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type NodeHealthCheckList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeHealthCheck `json:"items"`
}

// All rules of the spec are rules of the spec as a whole: while it stays as it is,
// the API server only warns of those that a stored spec breaks, so that none of
// them ever prevents the status from being written.
//
// +kubebuilder:validation:XValidation:rule=`!(has(self.minHealthy) && has(self.maxUnhealthy))`,message="minHealthy and maxUnhealthy cannot be specified at the same time"
// +kubebuilder:validation:XValidation:rule=`has(self.minHealthy) || has(self.maxUnhealthy)`,message="one of minHealthy and maxUnhealthy should be specified"
// +kubebuilder:validation:XValidation:rule=`!has(self.minHealthy) || type(self.minHealthy) != int || self.minHealthy >= 0`,message="minHealthy must not be negative",messageExpression=`'minHealthy must not be negative: %d'.format([self.minHealthy])`,fieldPath=`.minHealthy`
// +kubebuilder:validation:XValidation:rule=`!has(self.maxUnhealthy) || type(self.maxUnhealthy) != int || self.maxUnhealthy >= 0`,message="maxUnhealthy must not be negative",messageExpression=`'maxUnhealthy must not be negative: %d'.format([self.maxUnhealthy])`,fieldPath=`.maxUnhealthy`
// +kubebuilder:validation:XValidation:rule=`!has(self.maxUnhealthy) || !has(self.remediationTemplate) || !has(self.remediationTemplate.kind) || self.remediationTemplate.kind.lowerAscii() != 'machinedeletionremediationtemplate'`,message="maxUnhealthy can't be used with MachineDeletionRemediationTemplate",fieldPath=`.maxUnhealthy`
// +kubebuilder:validation:XValidation:rule=`!has(self.maxUnhealthy) || !has(self.escalatingRemediations) || self.escalatingRemediations.all(e, !has(e.remediationTemplate.kind) || e.remediationTemplate.kind.lowerAscii() != 'machinedeletionremediationtemplate')`,message="maxUnhealthy can't be used with MachineDeletionRemediationTemplate escalating remediation",fieldPath=`.maxUnhealthy`
// +kubebuilder:validation:XValidation:rule=`has(self.selector) && (has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0 || has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0)`,message="Selector is mandatory",fieldPath=`.selector`
// +kubebuilder:validation:XValidation:rule=`!has(self.selector) || !has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])`,message="Invalid selector: an operator must be In, NotIn, Exists or DoesNotExist",fieldPath=`.selector`
// +kubebuilder:validation:XValidation:rule=`!has(self.selector) || !has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, (e.operator in ['In', 'NotIn']) ? has(e.values) && size(e.values) > 0 : !(e.operator in ['Exists', 'DoesNotExist']) || !has(e.values) || size(e.values) == 0)`,message="Invalid selector: In and NotIn need at least one value, Exists and DoesNotExist take none",fieldPath=`.selector`
// +kubebuilder:validation:XValidation:rule=`!has(self.selector) || !has(self.selector.matchLabels) || self.selector.matchLabels.all(k, k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))`,message="Invalid selector: a key must be a label key, a name of at most 63 characters after an optional DNS subdomain and a slash",fieldPath=`.selector`
// +kubebuilder:validation:XValidation:rule=`!has(self.selector) || !has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, e.key.indexOf('/') <= 253 && e.key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))`,message="Invalid selector: a key must be a label key, a name of at most 63 characters after an optional DNS subdomain and a slash",fieldPath=`.selector`
// +kubebuilder:validation:XValidation:rule=`!has(self.selector) || !has(self.selector.matchLabels) || self.selector.matchLabels.all(k, self.selector.matchLabels[k].matches('^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$'))`,message="Invalid selector: a value must be a label value, empty or at most 63 characters",fieldPath=`.selector`
// +kubebuilder:validation:XValidation:rule=`!has(self.selector) || !has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, !has(e.values) || e.values.all(v, v.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$')))`,message="Invalid selector: a value must be a label value, empty or at most 63 characters",fieldPath=`.selector`
// +kubebuilder:validation:XValidation:rule=`has(self.remediationTemplate) || has(self.escalatingRemediations) && size(self.escalatingRemediations) > 0`,message="Either RemediationTemplate or at least one EscalatingRemediations must be set"
// +kubebuilder:validation:XValidation:rule=`!has(self.remediationTemplate) || !has(self.escalatingRemediations) || size(self.escalatingRemediations) == 0`,message="RemediationTemplate and EscalatingRemediations usage is mutual exclusive"
// +kubebuilder:validation:XValidation:rule=`!has(self.remediationTemplate) || has(self.remediationTemplate.apiVersion) && self.remediationTemplate.apiVersion != '' && has(self.remediationTemplate.kind) && self.remediationTemplate.kind != '' && has(self.remediationTemplate.name) && self.remediationTemplate.name != ''`,message="remediationTemplate must have apiVersion, kind and name",fieldPath=`.remediationTemplate`
// +kubebuilder:validation:XValidation:rule=`!has(self.escalatingRemediations) || self.escalatingRemediations.all(e, has(e.remediationTemplate.apiVersion) && e.remediationTemplate.apiVersion != '' && has(e.remediationTemplate.kind) && e.remediationTemplate.kind != '' && has(e.remediationTemplate.name) && e.remediationTemplate.name != '')`,message="remediationTemplate must have apiVersion, kind and name",fieldPath=`.escalatingRemediations`
// +kubebuilder:validation:XValidation:rule=`!has(self.escalatingRemediations) || self.escalatingRemediations.all(e, self.escalatingRemediations.exists_one(f, f.order == e.order))`,message="EscalatingRemediation Order must be unique",messageExpression=`self.escalatingRemediations.map(e, !self.escalatingRemediations.exists_one(f, f.order == e.order), 'EscalatingRemediation Order must be unique: found duplicate order %d'.format([e.order]))[0]`,fieldPath=`.escalatingRemediations`
//
// The next rule leaves to the rules of the timeout what is no duration. The
// pattern holds for every duration below a minute, and for none that is too long
// to be parsed.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.escalatingRemediations) || self.escalatingRemediations.all(e, !e.timeout.matches('^-?(0*([0-9]{1,11}([.][0-9]+)?[nuµm]s|[0-9]{1,2}([.][0-9]+)?[smh]))+$') || duration(e.timeout) >= duration('60s'))`,message="EscalatingRemediation Timeout must be at least one minute",messageExpression=`self.escalatingRemediations.map(e, e.timeout.matches('^-?(0*([0-9]{1,11}([.][0-9]+)?[nuµm]s|[0-9]{1,2}([.][0-9]+)?[smh]))+$') && duration(e.timeout) < duration('60s'), 'EscalatingRemediation Timeout must be at least one minute: found timeout ' + e.timeout)[0]`,fieldPath=`.escalatingRemediations`
//
// +kubebuilder:validation:XValidation:rule=`!has(self.escalatingRemediations) || self.escalatingRemediations.all(e, self.escalatingRemediations.exists_one(f, has(f.remediationTemplate.kind) == has(e.remediationTemplate.kind) && (!has(e.remediationTemplate.kind) || f.remediationTemplate.kind == e.remediationTemplate.kind) && has(f.remediationTemplate.__namespace__) == has(e.remediationTemplate.__namespace__) && (!has(e.remediationTemplate.__namespace__) || f.remediationTemplate.__namespace__ == e.remediationTemplate.__namespace__) && has(f.remediationTemplate.name) == has(e.remediationTemplate.name) && (!has(e.remediationTemplate.name) || f.remediationTemplate.name == e.remediationTemplate.name)))`,message="EscalatingRemediation RemediationTemplate must be unique",messageExpression=`self.escalatingRemediations.map(e, !self.escalatingRemediations.exists_one(f, has(f.remediationTemplate.kind) == has(e.remediationTemplate.kind) && (!has(e.remediationTemplate.kind) || f.remediationTemplate.kind == e.remediationTemplate.kind) && has(f.remediationTemplate.__namespace__) == has(e.remediationTemplate.__namespace__) && (!has(e.remediationTemplate.__namespace__) || f.remediationTemplate.__namespace__ == e.remediationTemplate.__namespace__) && has(f.remediationTemplate.name) == has(e.remediationTemplate.name) && (!has(e.remediationTemplate.name) || f.remediationTemplate.name == e.remediationTemplate.name)), 'EscalatingRemediation RemediationTemplate must be unique: found duplicate %s %s/%s'.format([(has(e.remediationTemplate.kind) ? e.remediationTemplate.kind : ''), (has(e.remediationTemplate.__namespace__) ? e.remediationTemplate.__namespace__ : ''), (has(e.remediationTemplate.name) ? e.remediationTemplate.name : '')]))[0]`,fieldPath=`.escalatingRemediations`
// +kubebuilder:validation:XValidation:rule=`!has(self.unhealthyConditions) || size(self.unhealthyConditions) > 0`,message="unhealthyConditions must not be empty, leave it out for the default",fieldPath=`.unhealthyConditions`

// NodeHealthCheckSpec is the wanted behaviour.
type NodeHealthCheckSpec struct {
	// selector selects the Nodes to observe. It must not be empty.
	// +optional
	Selector metav1.LabelSelector `json:"selector,omitempty"`

	// unhealthyConditions are the Node conditions that make a Node unhealthy. A
	// Node is unhealthy as soon as one of them has lasted for its duration. The
	// list must not be empty; left out, it defaults to Ready=False and
	// Ready=Unknown, both for 300s.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +listMapKey=status
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:default={{type:Ready,status:"False",duration:"300s"},{type:Ready,status:Unknown,duration:"300s"}}
	UnhealthyConditions []UnhealthyCondition `json:"unhealthyConditions,omitempty"`

	// minHealthy is the number, or the percentage of the selected Nodes, that
	// must be healthy for a remediation to be started. Percentages are rounded
	// up. Exactly one of minHealthy and maxUnhealthy must be set.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]+)$`
	// +kubebuilder:validation:XValidation:rule=`!string(self).matches('^[0-9]+$') || size(string(self)) <= 18 && int(string(self)) <= 2147483647`,message="must not exceed 2147483647"
	MinHealthy *intstr.IntOrString `json:"minHealthy,omitempty"`

	// maxUnhealthy is a number of Nodes, or a percentage of the selected Nodes. While more of
	// them are not healthy, no remediation is started. Percentages are rounded up. Exactly
	// one of minHealthy and maxUnhealthy must be set.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]+)$`
	// +kubebuilder:validation:XValidation:rule=`!string(self).matches('^[0-9]+$') || size(string(self)) <= 18 && int(string(self)) <= 2147483647`,message="must not exceed 2147483647"
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`

	// remediationTemplate refers to the template from which the remediation
	// object of an unhealthy Node is created. It must have apiVersion, kind and
	// name. Exactly one of remediationTemplate and escalatingRemediations must be
	// set.
	// +optional
	RemediationTemplate *corev1.ObjectReference `json:"remediationTemplate,omitempty"`

	// escalatingRemediations are remediations that are tried one after the
	// other, in ascending order, each for its timeout. Each has a template of its
	// own.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	EscalatingRemediations []EscalatingRemediation `json:"escalatingRemediations,omitempty"`

	// pauseRequests are reasons to pause. While there is one, no remediation is
	// started; those that run are finished.
	// +optional
	// +listType=atomic
	PauseRequests []string `json:"pauseRequests,omitempty"`

	// mode is Enforce, the default, or DryRun. In DryRun everything is evaluated and
	// reported, and nothing is begun: no remediation object is created, no step is
	// ended, and no Lease is acquired. Remediations that run when the mode is set are
	// finished, as in a pause.
	// +optional
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`

	// healthyDelay is how long a Node must stay healthy before its remediation
	// objects are deleted. Zero, the default, deletes them at once; a negative
	// value keeps them until the Node is confirmed healthy by hand.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^-?([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') || self.findAll('[0-9.]+[a-zµ]+').map(p, double(p.find('[0-9.]+')) * (p.endsWith('h') ? 3600.0 : p.endsWith('m') ? 60.0 : p.endsWith('ms') ? 0.001 : p.endsWith('us') || p.endsWith('µs') ? 0.000001 : p.endsWith('ns') ? 0.000000001 : 1.0)).sum() <= 9223372036.0`,message="must not be longer than 2562047h47m16s"
	HealthyDelay *metav1.Duration `json:"healthyDelay,omitempty"`

	// stormRecoveryThreshold turns on storm recovery: a storm is calm at or below
	// this number of Nodes that are not healthy.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	StormRecoveryThreshold *int32 `json:"stormRecoveryThreshold,omitempty"`

	// stormCooldownDuration turns on storm recovery: a storm ends when it has
	// been calm for this time without interruption.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') || self.findAll('[0-9.]+[a-zµ]+').map(p, double(p.find('[0-9.]+')) * (p.endsWith('h') ? 3600.0 : p.endsWith('m') ? 60.0 : p.endsWith('ms') ? 0.001 : p.endsWith('us') || p.endsWith('µs') ? 0.000001 : p.endsWith('ns') ? 0.000000001 : 1.0)).sum() <= 9223372036.0`,message="must not be longer than 2562047h47m16s"
	StormCooldownDuration *metav1.Duration `json:"stormCooldownDuration,omitempty"`

	// remediationHistoryLimit is the maximum number of episodes that have ended, and
	// of open ones, in status.remediationHistory. 20 if it is not set; 0 turns the
	// history off.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RemediationHistoryLimit *int32 `json:"remediationHistoryLimit,omitempty"`
}

// Mode says whether a NodeHealthCheck acts.
//
// +kubebuilder:validation:Enum=Enforce;DryRun
type Mode string

const (
	// ModeEnforce remediates unhealthy Nodes. A NodeHealthCheck without a mode does.
	ModeEnforce Mode = "Enforce"
	// ModeDryRun only reports what would be done.
	ModeDryRun Mode = "DryRun"
)

// UnhealthyCondition makes a Node unhealthy that has the condition of this type
// with this status for this duration.
type UnhealthyCondition struct {
	// type of the Node condition.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	Type corev1.NodeConditionType `json:"type"`
	// status of the Node condition.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	Status corev1.ConditionStatus `json:"status"`
	// duration for which the Node condition must have had this status, counted
	// from its lastTransitionTime.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') || self.findAll('[0-9.]+[a-zµ]+').map(p, double(p.find('[0-9.]+')) * (p.endsWith('h') ? 3600.0 : p.endsWith('m') ? 60.0 : p.endsWith('ms') ? 0.001 : p.endsWith('us') || p.endsWith('µs') ? 0.000001 : p.endsWith('ns') ? 0.000000001 : 1.0)).sum() <= 9223372036.0`,message="must not be longer than 2562047h47m16s"
	Duration metav1.Duration `json:"duration"`
}

// EscalatingRemediation is one step of escalatingRemediations.
type EscalatingRemediation struct {
	// remediationTemplate refers to the template of this step. It must have
	// apiVersion, kind and name.
	// +required
	RemediationTemplate corev1.ObjectReference `json:"remediationTemplate"`
	// order ranks the steps, lower first. It must be unique.
	// +required
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	Order int32 `json:"order"`
	// timeout is how long the Node has to recover, counted from the creation of
	// the remediation object, before the next step is taken. At least 60s.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') || self.findAll('[0-9.]+[a-zµ]+').map(p, double(p.find('[0-9.]+')) * (p.endsWith('h') ? 3600.0 : p.endsWith('m') ? 60.0 : p.endsWith('ms') ? 0.001 : p.endsWith('us') || p.endsWith('µs') ? 0.000001 : p.endsWith('ns') ? 0.000000001 : 1.0)).sum() <= 9223372036.0`,message="must not be longer than 2562047h47m16s"
	Timeout metav1.Duration `json:"timeout"`
}
