{{- /* The settings of each program: those of `settings`, and those that follow from other values. */ -}}

{{- /* Refuses what does not belong in `settings`. */ -}}
{{- define "culm.settings.check" -}}
{{- $settings := .Values.settings -}}
{{- if not $settings.bootstrap -}}
{{- fail "settings.bootstrap is not set: name Kafka's brokers, as HOST:PORT,HOST:PORT" -}}
{{- end -}}
{{- range $name, $_ := (default dict $settings.kafka) -}}
{{- if and (regexMatch "(?i)password|secret|key\\.pem|key\\.passphrase|jaas|token|oauthbearer\\.config|keystore\\.key" $name) (ne $name "sasl.oauthbearer.token.endpoint.url") -}}
{{- fail (printf "settings.kafka has %s, and a ConfigMap is no place for a secret: put it into a Secret and name that in kafka.users" $name) -}}
{{- end -}}
{{- end -}}
{{- $owned := dict
  "connector.listen" "connector.doors.quic.port" "connector.listen_libp2p" "connector.doors.libp2p"
  "connector.directory" "connector.persistence" "connector.metrics_port" "no other value: it is 9100"
  "connector.metrics_host" "no other value" "connector.allow_list" "connector.allowList"
  "connector.drain" "connector.drain"
  "connector.chotki.listen" "connector.doors" "connector.bamboo.listen" "connector.doors"
  "connector.dag.listen" "connector.doors.quic.dag"
  "job.master" "jobs.executors" "job.checkpoints" "jobs.checkpoints.url" "job.metrics_port" "no other value: it is 9101"
  "job.metrics_host" "no other value" "job.driver_memory_mb" "jobs.driverMemoryMb"
  "console.listen" "no other value: it is 8780" "console.token" "console.token.secret" "console.targets" "no other value"
  "stack.directory" "no other value" -}}
{{- range $path, $value := $owned -}}
{{- $table := $settings -}}
{{- range initial (splitList "." $path) -}}
{{- $table = default dict (get (default dict $table) .) -}}
{{- end -}}
{{- if hasKey $table (last (splitList "." $path)) -}}
{{- fail (printf "settings.%s is set by the chart: use %s" $path $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "culm.settings.common" -}}
{{- $common := dict "stack" (dict "directory" "/var/lib/culm") -}}
{{- if .Values.kafka.ca.secret -}}
{{- $_ := set $common "kafka" (dict "ssl.ca.location" (printf "/etc/culm/kafka-ca/%s" .Values.kafka.ca.key)) -}}
{{- end -}}
{{- toYaml $common -}}
{{- end -}}

{{- /* Returns culm.toml. Arguments: root, without (tables of other programs), and the program's own settings. */ -}}
{{- define "culm.settings.toml" -}}
{{- $_ := include "culm.settings.check" .root -}}
{{- $settings := deepCopy .root.Values.settings -}}
{{- range .without }}{{ $_ := unset $settings . }}{{ end -}}
{{- $all := mergeOverwrite $settings (fromYaml (include "culm.settings.common" .root)) .own -}}
{{- include "culm.toml" (dict "table" $all "path" list) | trim -}}
{{- end -}}

{{- define "culm.settings.connector" -}}
{{- $connector := .Values.connector -}}
{{- $doors := $connector.doors -}}
{{- $host := $connector.listenHost -}}
{{- $own := dict "listen" (printf "%s:%v" $host $doors.quic.port) "directory" "/var/lib/culm/connector"
  "metrics_host" "0.0.0.0" "metrics_port" 9100
  "drain" (dict "unready_s" $connector.drain.unreadySeconds "spread_s" $connector.drain.spreadSeconds) -}}
{{- /* Python counts the cores of the node, so the threads that check entries follow the limit. */ -}}
{{- $cpu := toString $connector.resources.limits.cpu -}}
{{- $cores := ternary (div (trimSuffix "m" $cpu | float64) 1000) (floor $cpu | int) (hasSuffix "m" $cpu) -}}
{{- if not (hasKey (default dict .Values.settings.connector) "check_threads") -}}
{{- $_ := set $own "check_threads" (max 1 $cores) -}}
{{- end -}}
{{- if $doors.libp2p.enabled }}{{ $_ := set $own "listen_libp2p" (printf "%s:%v" $host $doors.libp2p.port) }}{{ end -}}
{{- if or $connector.allowList.text $connector.allowList.configMap -}}
{{- $_ := set $own "allow_list" (printf "/etc/culm/allow-list/%s" $connector.allowList.key) -}}
{{- end -}}
{{- $tls := dict -}}
{{- if $connector.tls.secret }}{{ $tls = dict "certificate" "/etc/culm/tls/tls.crt" "private_key" "/etc/culm/tls/tls.key" }}{{ end -}}
{{- range $protocol := list "chotki" "bamboo" -}}
{{- $listen := list -}}
{{- $tcp := get $doors (printf "%sTcp" $protocol) -}}
{{- $tlsDoor := get $doors (printf "%sTls" $protocol) -}}
{{- if get $doors.quic $protocol }}{{ $listen = append $listen (printf "quic://%s:%v" $host $doors.quic.port) }}{{ end -}}
{{- if $tcp.enabled }}{{ $listen = append $listen (printf "tcp://%s:%v" $host $tcp.port) }}{{ end -}}
{{- if $tlsDoor.enabled }}{{ $listen = append $listen (printf "tls://%s:%v" $host $tlsDoor.port) }}{{ end -}}
{{- $table := dict -}}
{{- if $listen }}{{ $_ := set $table "listen" $listen }}{{ end -}}
{{- if and $tlsDoor.enabled (not $tls) -}}
{{- fail (printf "connector.doors.%sTls needs a certificate: name a Secret of type kubernetes.io/tls in connector.tls.secret" $protocol) -}}
{{- end -}}
{{- if $tlsDoor.enabled }}{{ $_ := set $table "tls" (deepCopy $tls) }}{{ end -}}
{{- if $table }}{{ $_ := set $own $protocol $table }}{{ end -}}
{{- end -}}
{{- $dag := dict -}}
{{- if $doors.quic.dag }}{{ $_ := set $dag "listen" (printf "%s:%v" $host $doors.quic.port) }}{{ end -}}
{{- if $doors.dagHttp.enabled -}}
{{- $http := dict "host" ($host | trimPrefix "[" | trimSuffix "]") "port" $doors.dagHttp.port -}}
{{- if $tls }}{{ $_ := set $http "tls" (deepCopy $tls) }}{{ end -}}
{{- $_ := set $dag "http" $http -}}
{{- end -}}
{{- if $dag }}{{ $_ := set $own "dag" $dag }}{{ end -}}
{{- include "culm.settings.toml" (dict "root" . "without" (list "job" "console" "peer") "own" (dict "connector" $own)) -}}
{{- end -}}

{{- define "culm.settings.job" -}}
{{- $root := .root -}}
{{- $jobs := $root.Values.jobs -}}
{{- $own := dict "metrics_host" "0.0.0.0" "metrics_port" 9101
  "driver_memory_mb" (default $jobs.driverMemoryMb .group.driverMemoryMb)
  "master" (ternary "k8s://https://kubernetes.default.svc" "local[*]" $jobs.executors.enabled)
  "checkpoints" (default "/var/lib/culm/checkpoints" $jobs.checkpoints.url) -}}
{{- include "culm.settings.toml" (dict "root" $root "without" (list "connector" "console" "peer") "own" (dict "job" $own)) -}}
{{- end -}}

{{- define "culm.settings.topics" -}}
{{- include "culm.settings.toml" (dict "root" . "without" (list "connector" "job" "console" "peer") "own" dict) -}}
{{- end -}}

{{- define "culm.settings.console" -}}
{{- $root := . -}}
{{- $name := include "culm.fullname" . -}}
{{- $targets := list -}}
{{- if .Values.connector.enabled -}}
{{- range $number := until (int .Values.connector.replicas) -}}
{{- $targets = append $targets (printf "http://%s-connector-%d.%s-connector-pods:9100" $name $number $name) -}}
{{- end -}}
{{- end -}}
{{- if .Values.jobs.enabled -}}
{{- range $which, $group := .Values.jobs.groups -}}
{{- if $group.enabled }}{{ $targets = append $targets (printf "http://%s-job-%s:9101" $name $which) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $own := dict "listen" "0.0.0.0:8780" "targets" $targets -}}
{{- if .Values.console.tls.secret -}}
{{- $own = merge $own (dict "tls_certificate" "/etc/culm/tls/tls.crt" "tls_key" "/etc/culm/tls/tls.key") -}}
{{- else if .Values.console.behindProxy -}}
{{- $_ := set $own "behind_proxy" true -}}
{{- else -}}
{{- fail "the console needs TLS: name a Secret of type kubernetes.io/tls in console.tls.secret, or set console.behindProxy if an Ingress terminates TLS" -}}
{{- end -}}
{{- include "culm.settings.toml" (dict "root" . "without" (list "connector" "job" "peer") "own" (dict "console" $own)) -}}
{{- end -}}
