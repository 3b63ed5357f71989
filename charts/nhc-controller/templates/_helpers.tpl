{{/* Labels of all objects. */}}
{{- define "nhc-controller.labels" -}}
app.kubernetes.io/name: nhc-controller
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- with .Values.extraLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
The image. The digest that a release has put into Chart.yaml is that of its own version only.
*/}}
{{- define "nhc-controller.image" -}}
{{- $digest := .Values.image.digest -}}
{{- if and (not $digest) (not .Values.image.tag) -}}
{{- $digest = index (.Chart.Annotations | default dict) "imageDigest" -}}
{{- end -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with $digest }}@{{ . }}{{ end }}
{{- end }}

{{/* Nine tenths of the memory limit in the resources of these values, empty without one. */}}
{{- define "nhc-controller.goMemoryLimit" -}}
{{- with dig "limits" "memory" "" (.resources | default dict) -}}
{{- $mebibytes := regexFind "^[0-9]+" . | int64 -}}
{{- if hasSuffix "Gi" . -}}
{{- $mebibytes = mul $mebibytes 1024 -}}
{{- end -}}
{{ div (mul $mebibytes 9) 10 }}MiB
{{- end -}}
{{- end }}

{{/* More labels of the pods of both programs. */}}
{{- define "nhc-controller.podLabels" -}}
{{- range list .Values.extraLabels .Values.podLabels }}
{{- with . }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where the pods of both programs come from, and where they run. */}}
{{- define "nhc-controller.placement" -}}
{{- range $key := list "imagePullSecrets" "nodeSelector" "affinity" "tolerations" }}
{{- with index $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
