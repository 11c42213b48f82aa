{{- /* Rules that several NetworkPolicies have. */ -}}

{{- /* Who reads metrics: Prometheus and the console. Arguments: root, port. */ -}}
{{- define "culm.network.metrics" -}}
- from:
    {{- if .root.Values.networkPolicy.metricsFrom }}
    {{- toYaml .root.Values.networkPolicy.metricsFrom | nindent 4 }}
    - podSelector:
        matchLabels:
          {{- include "culm.selector" (dict "root" .root "component" "console") | nindent 10 }}
    {{- else }}
    - namespaceSelector: {}
    {{- end }}
  ports:
    - {port: {{ .port }}, protocol: TCP}
{{- end -}}

{{- /* DNS and Kafka. */ -}}
{{- define "culm.network.egress" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
- ports:
    {{- if .Values.networkPolicy.egress.kafkaPorts }}
    {{- range .Values.networkPolicy.egress.kafkaPorts }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
    {{- else }}
    {{- range (regexFindAll ":[0-9]+" .Values.settings.bootstrap -1 | uniq) }}
    - {port: {{ trimPrefix ":" . }}, protocol: TCP}
    {{- end }}
    {{- end }}
{{- end -}}
