// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

// combinations are values that change which objects and fields there are, alone and
// together.
var combinations = [][]string{
	{},
	{"openshift.enabled=true"},
	{"clusterAPI.enabled=true"},
	{"machineHealthCheck.enabled=true"},
	{"machineHealthCheck.enabled=true", "crds.install=false"},
	{"machineHealthCheck.enabled=true", "openshift.enabled=true"},
	{"monitoring.enabled=true"},
	{"monitoring.enabled=true", "monitoring.serviceMonitor=false"},
	{"monitoring.enabled=true", "monitoring.prometheusRule=false"},
	{"monitoring.enabled=true", "monitoring.dashboard=false"},
	{"dashboard.enabled=true"},
	{"dashboard.enabled=true", "dashboard.resources=null", "networkPolicy.enabled=false", "openshift.enabled=true"},
	{
		"dashboard.enabled=true", "dashboard.extraArgs={--cluster-name=prod}", "leaseNamespace.name=other-leases", "tolerations=null", "nodeSelector=null",
		"image.pullPolicy=IfNotPresent", "imagePullSecrets[0].name=registry", "podAnnotations.a=b", "extraLabels.team=nodes", "podLabels.on=pods",
		"dashboard.resources=null", "dashboard.extraEnv[0].name=A", "dashboard.extraEnv[0].value=b",
		"dashboard.extraVolumes[0].name=tls", "dashboard.extraVolumes[0].secret.secretName=tls", "dashboard.extraVolumeMounts[0].name=tls", "dashboard.extraVolumeMounts[0].mountPath=/tls",
	},
	{"monitoring.enabled=true", "monitoring.labels.release=prometheus", "monitoring.interval=1m", "serviceAccount.annotations.role=a"},
	{"networkPolicy.enabled=false"},
	{"resourceQuota.create=false"},
	{"priorityClassName="},
	{"crds.install=false"},
	{"leaseNamespace.create=false"},
	{"leaseNamespace.name=other-leases"},
	{"resources=null"},
	{"tolerations=null", "topologySpreadConstraints=null", "nodeSelector=null"},
	{
		"image.pullPolicy=IfNotPresent", "imagePullSecrets[0].name=registry", "image.digest=" + digest, "image.tag=v9",
		"affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1",
		"affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey=rack",
		"affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector.matchLabels.a=b",
		"podAnnotations.a=b", "extraLabels.team=nodes", "extraLabels.empty=", "extraArgs={--v=2}",
	},
	{"networkPolicy.enabled=false", "resourceQuota.create=false", "crds.install=false", "leaseNamespace.create=false", "replicaCount=1"},
	{"openshift.enabled=true", "clusterAPI.enabled=true", "machineHealthCheck.enabled=true", "monitoring.enabled=true", "dashboard.enabled=true", "extraLabels.team=nodes"},
}
