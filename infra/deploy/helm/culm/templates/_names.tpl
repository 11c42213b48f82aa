{{- /* Names and labels. Component names follow a name of at most 40 characters, so that pods and Services fit into 63. */ -}}

{{- define "culm.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "culm.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Arguments: root, component, and group for the jobs. */ -}}
{{- define "culm.selector" -}}
app.kubernetes.io/name: {{ include "culm.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .group }}
culm/group: {{ . }}
{{- end }}
{{- end -}}

{{- define "culm.labels" -}}
{{ include "culm.selector" . }}
app.kubernetes.io/part-of: culm
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Arguments: root, image. */ -}}
{{- define "culm.image" -}}
{{- $image := .root.Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ default .root.Chart.AppVersion $image.tag }}{{ end -}}
{{- end -}}
