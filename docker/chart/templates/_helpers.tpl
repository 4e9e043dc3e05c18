{{- define "pybroker.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "pybroker.controller" -}}
{{ .Release.Name }}-controller-0.{{ .Release.Name }}-controller.{{ .Release.Namespace }}.svc
{{- end }}

{{/* Properties as variables of the image: dots as _, underscores as __, dashes as ___. */}}
{{- define "pybroker.config" -}}
{{- range $key, $value := . }}
- name: KAFKA_{{ $key | replace "-" "\x00" | replace "_" "__" | replace "\x00" "___" | replace "." "_" | upper }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}

{{/* What the pods of the controller and of the brokers have in common. */}}
{{- define "pybroker.pod" -}}
enableServiceLinks: false
terminationGracePeriodSeconds: 90
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "pybroker.container" -}}
image: {{ .Values.image }}
imagePullPolicy: {{ .Values.imagePullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
startupProbe:
  exec:
    command: [python, /opt/pybroker/entrypoint.py, health]
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 150
readinessProbe:
  exec:
    command: [python, /opt/pybroker/entrypoint.py, health]
  periodSeconds: 10
  timeoutSeconds: 5
volumeMounts:
  - name: data
    mountPath: /var/lib/kafka/data
{{- end }}

{{- define "pybroker.claim" -}}
- metadata:
    name: data
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .Values.storageClassName }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests:
        storage: {{ .storage }}
{{- end }}
