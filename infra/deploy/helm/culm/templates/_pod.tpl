{{- /* Parts of every pod: accounts, rights, folders that can be written, settings, and secrets as files. */ -}}

{{- /* Arguments: root, program (in kafka.users), settings (name of the ConfigMap), own (values of the program). */ -}}
{{- define "culm.pod.head" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
# Variables of Services would begin with CULM_.
enableServiceLinks: false
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .own.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "culm.container.head" -}}
image: {{ include "culm.image" (dict "root" .root "image" .own.image) | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  {{- toYaml .root.Values.containerSecurityContext | nindent 2 }}
{{- end -}}

{{- define "culm.env" -}}
{{- $user := get .root.Values.kafka.users .program -}}
- name: CULM_CONFIG
  value: /etc/culm/settings/culm.toml
# The root of the file system is read-only.
- name: HOME
  value: /tmp
{{- with $user.name }}
- name: CULM_KAFKA__SASL_USERNAME
  value: {{ . | quote }}
{{- end }}
{{- with $user.secret }}
- name: CULM_KAFKA__SASL_PASSWORD_FILE
  value: /run/secrets/culm/kafka/password
{{- end }}
{{- with $user.certificate }}
- name: CULM_KAFKA__SSL_CERTIFICATE_LOCATION
  value: /run/secrets/culm/kafka-certificate/tls.crt
- name: CULM_KAFKA__SSL_KEY_LOCATION
  value: /run/secrets/culm/kafka-certificate/tls.key
{{- end }}
{{- with .own.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "culm.mounts" -}}
{{- $user := get .root.Values.kafka.users .program -}}
- name: settings
  mountPath: /etc/culm/settings
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- if .root.Values.kafka.ca.secret }}
- name: kafka-ca
  mountPath: /etc/culm/kafka-ca
  readOnly: true
{{- end }}
{{- if $user.secret }}
- name: kafka-user
  mountPath: /run/secrets/culm/kafka
  readOnly: true
{{- end }}
{{- if $user.certificate }}
- name: kafka-certificate
  mountPath: /run/secrets/culm/kafka-certificate
  readOnly: true
{{- end }}
{{- with .own.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "culm.volumes" -}}
{{- $user := get .root.Values.kafka.users .program -}}
{{- $keys := .root.Values.kafka.certificateKeys -}}
- name: settings
  configMap:
    name: {{ .settings }}
- name: tmp
  emptyDir:
    sizeLimit: {{ default "1Gi" .scratch }}
{{- with .root.Values.kafka.ca }}
{{- if .secret }}
- name: kafka-ca
  secret:
    secretName: {{ .secret }}
    items: [{key: {{ .key }}, path: {{ .key }}}]
{{- end }}
{{- end }}
{{- with $user.secret }}
- name: kafka-user
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items: [{key: {{ $user.key }}, path: password}]
{{- end }}
{{- with $user.certificate }}
- name: kafka-certificate
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items: [{key: {{ $keys.certificate }}, path: tls.crt}, {key: {{ $keys.privateKey }}, path: tls.key}]
{{- end }}
{{- with .own.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Arguments: unready (failed checks of readiness until the pod counts as not ready). */ -}}
{{- define "culm.probes" -}}
# A process that starts may take long, for example while it checks its index; it is alive as soon as it answers.
startupProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: {{ .unready }}
{{- end -}}
