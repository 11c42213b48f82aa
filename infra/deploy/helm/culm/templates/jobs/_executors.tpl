{{- /* Executors in pods of their own. Arguments: root, which. */ -}}

{{- /* Spark's properties of the driver, as YAML; none without executors. */ -}}
{{- define "culm.executors.options" -}}
{{- $executors := .root.Values.jobs.executors -}}
{{- $full := printf "%s-job-%s" (include "culm.fullname" .root) .which -}}
{{- if $executors.enabled -}}
spark.driver.host: {{ printf "%s.%s.svc" $full .root.Release.Namespace }}
spark.driver.bindAddress: 0.0.0.0
spark.driver.port: "7078"
spark.driver.blockManager.port: "7079"
spark.blockManager.port: "7079"
spark.executor.instances: {{ $executors.instances | quote }}
spark.executor.cores: {{ $executors.cores | quote }}
spark.executor.memory: {{ printf "%vm" $executors.memoryMb }}
spark.executor.memoryOverhead: {{ printf "%vm" $executors.overheadMb }}
spark.kubernetes.namespace: {{ .root.Release.Namespace }}
spark.kubernetes.container.image: {{ include "culm.image" (dict "root" .root "image" .root.Values.jobs.image) }}
spark.kubernetes.container.image.pullPolicy: {{ .root.Values.image.pullPolicy }}
# Executors belong to the driver's pod: Kubernetes deletes them with it.
spark.kubernetes.driver.pod.name: $(POD_NAME)
spark.kubernetes.executor.podTemplateFile: /etc/culm/executor/pod.yaml
spark.kubernetes.executor.podTemplateContainerName: executor
{{- end -}}
{{- end -}}

{{- /* The pod of an executor. Spark adds its name, image, resources, environment and the argument `executor`. */ -}}
{{- define "culm.executors.pod" -}}
{{- $jobs := .root.Values.jobs -}}
{{- $part := dict "root" .root "component" "executor" "group" .which "own" $jobs -}}
apiVersion: v1
kind: Pod
metadata:
  labels:
    {{- include "culm.labels" $part | nindent 4 }}
spec:
  serviceAccountName: {{ include "culm.fullname" .root }}-executor
  automountServiceAccountToken: false
  {{- include "culm.pod.head" $part | trim | nindent 2 }}
  containers:
    - name: executor
      {{- include "culm.container.head" $part | nindent 6 }}
      command: [python3, -m, culm_infra.stack.executor]
      # Executors keep fetched jars in their working directory.
      workingDir: /tmp
      env:
        - {name: HOME, value: /tmp}
        {{- with $jobs.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      resources:
        requests: {cpu: {{ $jobs.executors.cores | quote }}, memory: {{ printf "%vMi" (add $jobs.executors.memoryMb $jobs.executors.overheadMb) }}}
        limits: {cpu: {{ $jobs.executors.cores | quote }}, memory: {{ printf "%vMi" (add $jobs.executors.memoryMb $jobs.executors.overheadMb) }}}
      # Spark replaces an executor that does not answer its driver; this sees one whose Java has stopped.
      livenessProbe:
        tcpSocket: {port: 7079}
        initialDelaySeconds: 60
        periodSeconds: 20
        failureThreshold: 6
      readinessProbe:
        tcpSocket: {port: 7079}
      volumeMounts:
        - name: tmp
          mountPath: /tmp
        {{- with $jobs.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir:
        sizeLimit: {{ $jobs.scratchSize }}
    {{- with $jobs.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
