{{- /* Writes a table as TOML. Strings, numbers and booleans of JSON are those of TOML, so `toJson` writes them. */ -}}

{{- define "culm.toml.key" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end -}}

{{- define "culm.toml.value" -}}
{{- if kindIs "slice" . -}}
[{{ range $index, $each := . }}{{ if $index }}, {{ end }}{{ include "culm.toml.value" $each }}{{ end }}]
{{- else if kindIs "map" . -}}
{{- $pairs := list -}}
{{- range $name, $each := . -}}
{{- $pairs = append $pairs (printf "%s = %s" (include "culm.toml.key" $name) (include "culm.toml.value" $each)) -}}
{{- end -}}
{ {{- join ", " $pairs -}} }
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{- /* Arguments: table, path (a list). Values come before tables; null is left out. */ -}}
{{- define "culm.toml" -}}
{{- $path := .path -}}
{{- range $name, $value := .table -}}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ include "culm.toml.key" $name }} = {{ include "culm.toml.value" $value }}
{{- end -}}
{{- end -}}
{{- range $name, $value := .table -}}
{{- if and (kindIs "map" $value) $value -}}
{{- $inner := append $path (include "culm.toml.key" $name) }}

[{{ join "." $inner }}]
{{- include "culm.toml" (dict "table" $value "path" $inner) -}}
{{- end -}}
{{- end -}}
{{- end -}}
