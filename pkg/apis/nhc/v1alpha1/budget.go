// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What a budget is, its fields and its validation are sections B1 and B2 of the specification.

// RemediationBudget limits how many Nodes or Machines all health checks together take into
// remediation. It only delays the beginning of remediations.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=remediationbudgets,singular=remediationbudget,scope=Cluster,shortName=rbudget,categories={medik8s,remediation}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=`Not Healthy`,type=integer,JSONPath=`.status.notHealthyNodes`
// +kubebuilder:printcolumn:name=Remediating,type=integer,JSONPath=`.status.remediatingNodes`
// +kubebuilder:printcolumn:name=Allowed,type=integer,JSONPath=`.status.remediationsAllowed`
// +kubebuilder:printcolumn:name=Exhausted,type=string,JSONPath=`.status.conditions[?(@.type=="Exhausted")].status`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name=Reason,type=string,priority=1,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name=Why,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Exhausted")].message`
type RemediationBudget struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants.
	// +required
	Spec RemediationBudgetSpec `json:"spec"`
	// status is what the controller has counted.
	// +optional
	Status RemediationBudgetStatus `json:"status,omitempty"`
}

// RemediationBudgetList is a list of RemediationBudgets.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type RemediationBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RemediationBudget `json:"items"`
}

// RemediationBudgetSpec is the wanted bound. At least one of maxUnhealthy, maxConcurrent and
// minInterval must be set. A Node has to be admitted by all budgets that select it or its Machine.
//
// +kubebuilder:validation:XValidation:rule=`has(self.maxUnhealthy) || has(self.maxConcurrent) || has(self.minInterval)`,message="one of maxUnhealthy, maxConcurrent and minInterval should be specified"
// +kubebuilder:validation:XValidation:rule=`!has(self.cooldown) || has(self.maxUnhealthy)`,message="cooldown needs maxUnhealthy",fieldPath=`.cooldown`
// +kubebuilder:validation:XValidation:rule=`has(self.nodeSelector) != has(self.machineSelector)`,message="exactly one of nodeSelector and machineSelector must be specified; nodeSelector: {} selects all Nodes",fieldPath=`.nodeSelector`
// +kubebuilder:validation:XValidation:rule=`!has(self.nodeSelector) || !has(self.nodeSelector.matchExpressions) || self.nodeSelector.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])`,message="Invalid nodeSelector: an operator must be In, NotIn, Exists or DoesNotExist",fieldPath=`.nodeSelector`
// +kubebuilder:validation:XValidation:rule=`!has(self.nodeSelector) || !has(self.nodeSelector.matchExpressions) || self.nodeSelector.matchExpressions.all(e, (e.operator in ['In', 'NotIn']) ? has(e.values) && size(e.values) > 0 : !(e.operator in ['Exists', 'DoesNotExist']) || !has(e.values) || size(e.values) == 0)`,message="Invalid nodeSelector: In and NotIn need at least one value, Exists and DoesNotExist take none",fieldPath=`.nodeSelector`
// +kubebuilder:validation:XValidation:rule=`!has(self.nodeSelector) || !has(self.nodeSelector.matchLabels) || self.nodeSelector.matchLabels.all(k, k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))`,message="Invalid nodeSelector: a key must be a label key, a name of at most 63 characters after an optional DNS subdomain and a slash",fieldPath=`.nodeSelector`
// +kubebuilder:validation:XValidation:rule=`!has(self.nodeSelector) || !has(self.nodeSelector.matchExpressions) || self.nodeSelector.matchExpressions.all(e, e.key.indexOf('/') <= 253 && e.key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))`,message="Invalid nodeSelector: a key must be a label key, a name of at most 63 characters after an optional DNS subdomain and a slash",fieldPath=`.nodeSelector`
// +kubebuilder:validation:XValidation:rule=`!has(self.nodeSelector) || !has(self.nodeSelector.matchLabels) || self.nodeSelector.matchLabels.all(k, self.nodeSelector.matchLabels[k].matches('^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$'))`,message="Invalid nodeSelector: a value must be a label value, empty or at most 63 characters",fieldPath=`.nodeSelector`
// +kubebuilder:validation:XValidation:rule=`!has(self.nodeSelector) || !has(self.nodeSelector.matchExpressions) || self.nodeSelector.matchExpressions.all(e, !has(e.values) || e.values.all(v, v.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$')))`,message="Invalid nodeSelector: a value must be a label value, empty or at most 63 characters",fieldPath=`.nodeSelector`
type RemediationBudgetSpec struct {
	// nodeSelector selects the Nodes that count, and that the budget bounds. The empty
	// selector, {}, selects all Nodes.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// machineSelector selects Machines instead of Nodes. They count whether they have a Node or
	// not, and the labels that topologyKey names are theirs. It needs the controller of
	// MachineHealthChecks.
	// +optional
	MachineSelector *BudgetMachineSelector `json:"machineSelector,omitempty"`

	// topologyKey is the key of a label of Nodes, or of Machines. Those with the same value form a
	// group, and the budget holds for each group by itself. Those without the label form one group.
	// Without topologyKey, all that are selected form one group.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self.indexOf('/') <= 253 && self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')`,message="topologyKey must be a label key, a name of at most 63 characters after an optional DNS subdomain and a slash"
	TopologyKey string `json:"topologyKey,omitempty"`

	// maxUnhealthy is a number of Nodes, or a percentage of the Nodes of a group. While more
	// Nodes of the group are not healthy, no remediation begins there. The Node to be
	// remediated counts as one of them. Percentages are rounded up.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]+)$`
	// +kubebuilder:validation:XValidation:rule=`type(self) != int || self >= 0`,message="maxUnhealthy must not be negative"
	// +kubebuilder:validation:XValidation:rule=`!string(self).matches('^[0-9]+$') || size(string(self)) <= 18 && int(string(self)) <= 2147483647`,message="maxUnhealthy must not exceed 2147483647"
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`

	// maxConcurrent is the number, or the percentage of the Nodes of a group, that may be
	// under remediation at the same time. 0 keeps everything from beginning. Percentages are
	// rounded up.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]+)$`
	// +kubebuilder:validation:XValidation:rule=`type(self) != int || self >= 0`,message="maxConcurrent must not be negative"
	// +kubebuilder:validation:XValidation:rule=`!string(self).matches('^[0-9]+$') || size(string(self)) <= 18 && int(string(self)) <= 2147483647`,message="maxConcurrent must not exceed 2147483647"
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`

	// minInterval is the time between two beginnings in a group.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^(0*([0-9]{1,11}([.][0-9]+)?[nuµm]s|[0-9]{1,2}([.][0-9]+)?[smh]))+$') || duration(self) > duration('0s')`,message="minInterval must be positive"
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') || self.findAll('[0-9.]+[a-zµ]+').map(p, double(p.find('[0-9.]+')) * (p.endsWith('h') ? 3600.0 : p.endsWith('m') ? 60.0 : p.endsWith('ms') ? 0.001 : p.endsWith('us') || p.endsWith('µs') ? 0.000001 : p.endsWith('ns') ? 0.000000001 : 1.0)).sum() <= 9223372036.0`,message="minInterval must not be longer than 2562047h47m16s"
	MinInterval *metav1.Duration `json:"minInterval,omitempty"`

	// cooldown delays remediations in a group that has exceeded maxUnhealthy. Nothing begins there until
	// the group has been within maxUnhealthy again for this long. After an outage the last Nodes are
	// still booting when the group comes back within maxUnhealthy.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^(0*([0-9]{1,11}([.][0-9]+)?[nuµm]s|[0-9]{1,2}([.][0-9]+)?[smh]))+$') || duration(self) > duration('0s')`,message="cooldown must be positive"
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') || self.findAll('[0-9.]+[a-zµ]+').map(p, double(p.find('[0-9.]+')) * (p.endsWith('h') ? 3600.0 : p.endsWith('m') ? 60.0 : p.endsWith('ms') ? 0.001 : p.endsWith('us') || p.endsWith('µs') ? 0.000001 : p.endsWith('ns') ? 0.000000001 : 1.0)).sum() <= 9223372036.0`,message="cooldown must not be longer than 2562047h47m16s"
	Cooldown *metav1.Duration `json:"cooldown,omitempty"`

	// activeDuring are the times at which the budget applies. Outside of them it limits nothing. Left
	// out, it always applies.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ActiveDuring []BudgetSchedule `json:"activeDuring,omitempty"`

	// reason says why the budget is set. It is shown wherever the budget refuses.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// BudgetMachineSelector selects Machines of one namespace.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.selector) || !has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])`,message="Invalid machineSelector: an operator must be In, NotIn, Exists or DoesNotExist",fieldPath=`.selector`
// +kubebuilder:validation:XValidation:rule=`!has(self.selector) || !has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, (e.operator in ['In', 'NotIn']) ? has(e.values) && size(e.values) > 0 : !(e.operator in ['Exists', 'DoesNotExist']) || !has(e.values) || size(e.values) == 0)`,message="Invalid machineSelector: In and NotIn need at least one value, Exists and DoesNotExist take none",fieldPath=`.selector`
// +kubebuilder:validation:XValidation:rule=`!has(self.selector) || !has(self.selector.matchLabels) || self.selector.matchLabels.all(k, k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))`,message="Invalid machineSelector: a key must be a label key, a name of at most 63 characters after an optional DNS subdomain and a slash",fieldPath=`.selector`
// +kubebuilder:validation:XValidation:rule=`!has(self.selector) || !has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, e.key.indexOf('/') <= 253 && e.key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))`,message="Invalid machineSelector: a key must be a label key, a name of at most 63 characters after an optional DNS subdomain and a slash",fieldPath=`.selector`
// +kubebuilder:validation:XValidation:rule=`!has(self.selector) || !has(self.selector.matchLabels) || self.selector.matchLabels.all(k, self.selector.matchLabels[k].matches('^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$'))`,message="Invalid machineSelector: a value must be a label value, empty or at most 63 characters",fieldPath=`.selector`
// +kubebuilder:validation:XValidation:rule=`!has(self.selector) || !has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, !has(e.values) || e.values.all(v, v.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$')))`,message="Invalid machineSelector: a value must be a label value, empty or at most 63 characters",fieldPath=`.selector`
type BudgetMachineSelector struct {
	// namespace is that of the Machines.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message="namespace must be the name of a namespace"
	Namespace string `json:"namespace"`

	// selector selects Machines by their labels. The empty selector, {}, selects all Machines of
	// the namespace.
	// +required
	Selector metav1.LabelSelector `json:"selector"`
}

// BudgetSchedule is a window that opens again and again.
type BudgetSchedule struct {
	// cron says when the window opens, in the five fields of cron: minute, hour, day of the
	// month, month, day of the week.
	// +required
	// +kubebuilder:validation:MaxLength=192
	// +kubebuilder:validation:XValidation:rule=`self.matches('^ *[^ ]+( +[^ ]+){4} *$')`,message="cron must have five fields with spaces in between: minute, hour, day of the month, month and day of the week"
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^ *[^ ]+( +[^ ]+){4} *$') || self.matches('^ *(([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/0*[1-9][0-9]{0,3})?,)*([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/0*[1-9][0-9]{0,3})?( |$)')`,message="cron: the minute must be * or a list of numbers and ranges from 0 to 59, each with a step such as /2 if need be"
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^ *[^ ]+( +[^ ]+){4} *$') || self.matches('^ *([^ ]+ +){1}(([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/0*[1-9][0-9]{0,3})?,)*([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/0*[1-9][0-9]{0,3})?( |$)')`,message="cron: the hour must be * or a list of numbers and ranges from 0 to 23, each with a step such as /2 if need be"
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^ *[^ ]+( +[^ ]+){4} *$') || self.matches('^ *([^ ]+ +){2}(([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/0*[1-9][0-9]{0,3})?,)*([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/0*[1-9][0-9]{0,3})?( |$)')`,message="cron: the day of the month must be * or a list of numbers and ranges from 1 to 31, each with a step such as /2 if need be"
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^ *[^ ]+( +[^ ]+){4} *$') || self.lowerAscii().matches('^ *([^ ]+ +){3}(([*?]|((0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?|(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(-(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))?))(/0*[1-9][0-9]{0,3})?,)*([*?]|((0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?|(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(-(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))?))(/0*[1-9][0-9]{0,3})?( |$)')`,message="cron: the month must be * or a list of numbers and ranges from 1 to 12, or JAN to DEC, each with a step such as /2 if need be"
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^ *[^ ]+( +[^ ]+){4} *$') || self.lowerAscii().matches('^ *([^ ]+ +){4}(([*?]|(0?[0-6](-0?[0-6])?|(sun|mon|tue|wed|thu|fri|sat)(-(sun|mon|tue|wed|thu|fri|sat))?))(/0*[1-9][0-9]{0,3})?,)*([*?]|(0?[0-6](-0?[0-6])?|(sun|mon|tue|wed|thu|fri|sat)(-(sun|mon|tue|wed|thu|fri|sat))?))(/0*[1-9][0-9]{0,3})?( |$)')`,message="cron: the day of the week must be * or a list of numbers and ranges from 0, which is Sunday, to 6, or SUN to SAT, each with a step such as /2 if need be"
	// +kubebuilder:validation:XValidation:rule=`self.findAll('[0-9]{1,2}-[0-9]{1,2}').all(r, int(r.split('-')[0]) <= int(r.split('-')[1]))`,message="cron: ranges must be ascending, such as 1-5"
	// +kubebuilder:validation:XValidation:rule=`self.lowerAscii().findAll('[a-z]{3}-[a-z]{3}').all(r, 'sunmontuewedthufrisatjanfebmaraprmayjunjulaugsepoctnovdec'.indexOf(r.substring(0, 3)) <= 'sunmontuewedthufrisatjanfebmaraprmayjunjulaugsepoctnovdec'.indexOf(r.substring(4)))`,message="cron: ranges must be ascending, such as MON-FRI"
	Cron string `json:"cron"`

	// timeZone is the IANA name of the time zone of cron, UTC if it is left out.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`

	// duration is how long the window stays open.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^(0*([0-9]{1,11}([.][0-9]+)?[nuµm]s|[0-9]{1,2}([.][0-9]+)?[smh]))+$') || duration(self) > duration('0s')`,message="duration must be positive"
	// +kubebuilder:validation:XValidation:rule=`!self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') || self.findAll('[0-9.]+[a-zµ]+').map(p, double(p.find('[0-9.]+')) * (p.endsWith('h') ? 3600.0 : p.endsWith('m') ? 60.0 : p.endsWith('ms') ? 0.001 : p.endsWith('us') || p.endsWith('µs') ? 0.000001 : p.endsWith('ns') ? 0.000000001 : 1.0)).sum() <= 9223372036.0`,message="duration must not be longer than 2562047h47m16s"
	Duration metav1.Duration `json:"duration"`
}

// RemediationBudgetStatus is what the controller has counted (spec B5.2). It also keeps what a
// restart must not forget: when the last remediation of a group began. With a machineSelector, the
// numbers count Machines, although the fields are named after Nodes.
type RemediationBudgetStatus struct {
	// observedGeneration is the generation of the spec this status is for.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// observedNodes is the number of selected Nodes.
	// +optional
	ObservedNodes *int32 `json:"observedNodes,omitempty"`

	// notHealthyNodes is the number of selected Nodes that are not Ready, that a health check
	// judges not to be healthy, or that are under remediation.
	// +optional
	NotHealthyNodes *int32 `json:"notHealthyNodes,omitempty"`

	// remediatingNodes is the number of selected Nodes that are under remediation.
	// +optional
	RemediatingNodes *int32 `json:"remediatingNodes,omitempty"`

	// remediationsAllowed is how many more remediations may begin now, in the group that
	// allows the fewest. It is absent while nothing limits the number.
	// +optional
	RemediationsAllowed *int32 `json:"remediationsAllowed,omitempty"`

	// groups are the groups of Nodes, those first that allow the fewest remediations. At most
	// 100 are listed; the numbers above are exact.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Groups []BudgetGroup `json:"groups,omitempty"`

	// conditions are Valid and Exhausted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BudgetGroup are the Nodes with the same value of the label topologyKey.
type BudgetGroup struct {
	// name is the value of the label, empty for Nodes without it and for a budget without
	// topologyKey.
	// +required
	Name string `json:"name"`
	// observedNodes is the number of Nodes.
	// +required
	ObservedNodes int32 `json:"observedNodes"`
	// notHealthyNodes is the number of those that are not healthy.
	// +required
	NotHealthyNodes int32 `json:"notHealthyNodes"`
	// remediatingNodes is the number of those under remediation.
	// +required
	RemediatingNodes int32 `json:"remediatingNodes"`
	// remediationsAllowed is how many more may be taken into remediation now, absent while
	// nothing limits the number.
	// +optional
	RemediationsAllowed *int32 `json:"remediationsAllowed,omitempty"`
	// lastStarted is when the last remediation began.
	// +optional
	LastStarted *metav1.Time `json:"lastStarted,omitempty"`
	// withinSince is when the group came back within maxUnhealthy after it had exceeded it. It is absent once
	// cooldown is over.
	// +optional
	WithinSince *metav1.Time `json:"withinSince,omitempty"`
}

const (
	// BudgetKind is the kind of the RemediationBudget.
	BudgetKind = "RemediationBudget"
	// BudgetPlural is its resource name.
	BudgetPlural = "remediationbudgets"

	// MaxBudgetGroups is how many groups status lists at most.
	MaxBudgetGroups = 100
)

// Conditions of a RemediationBudget, and their reasons.
const (
	// ConditionBudgetValid is False while the spec cannot be evaluated. Then the budget
	// refuses all Nodes that it selects (spec B2.2).
	ConditionBudgetValid = "Valid"
	// ReasonBudgetValid is the reason while it is True.
	ReasonBudgetValid = "Valid"
	// ReasonInvalidBudget is the reason while it is False, and that of the event.
	ReasonInvalidBudget = "InvalidBudget"

	// ConditionBudgetExhausted is True while the budget keeps a Node waiting.
	ConditionBudgetExhausted = "Exhausted"
	// ReasonBudgetExhausted is the reason while it is True, and that of the event when it
	// becomes so.
	ReasonBudgetExhausted = "BudgetExhausted"
	// ReasonBudgetAvailable is the reason while it is False, and that of the event when it
	// becomes so.
	ReasonBudgetAvailable = "BudgetAvailable"
)
