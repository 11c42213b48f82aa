{{- /* The ports of the doors: name, port, protocol. */ -}}
{{- define "culm.connector.ports" -}}
{{- $doors := .Values.connector.doors -}}
- {name: quic, port: {{ $doors.quic.port }}, protocol: UDP}
{{- if $doors.libp2p.enabled }}
- {name: libp2p, port: {{ $doors.libp2p.port }}, protocol: UDP}
{{- end }}
{{- range $name, $title := dict "chotkiTcp" "chotki-tcp" "chotkiTls" "chotki-tls" "bambooTcp" "bamboo-tcp" "bambooTls" "bamboo-tls" "dagHttp" "dag-http" }}
{{- $door := get $doors $name }}
{{- if $door.enabled }}
- {name: {{ $title }}, port: {{ $door.port }}, protocol: TCP}
{{- end }}
{{- end }}
{{- end -}}
