{{- define "cursor-sidecar.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "cursor-sidecar.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "cursor-sidecar.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "cursor-sidecar.selectorLabels" -}}
app.kubernetes.io/name: {{ include "cursor-sidecar.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "cursor-sidecar.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "cursor-sidecar.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "cursor-sidecar.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "cursor-sidecar.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* An image reference from (dict "image" VALUES "tag" DEFAULT). A digest is the last word; the tag stays for people. */}}
{{- define "cursor-sidecar.image" -}}
{{- $tag := .image.tag | default .tag -}}
{{- .image.repository -}}
{{- with $tag }}:{{ . }}{{ end -}}
{{- with .image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/*
A setting's value as the text of an environment variable. Numbers from a values file are floats: they are written out
whole, not as 1.048576e+06. Lists and maps are JSON. Kubernetes would expand $(NAME) in the text, so $( is escaped.
*/}}
{{- define "cursor-sidecar.settingText" -}}
{{- if kindIs "string" . -}}
{{- . -}}
{{- else if or (kindIs "slice" .) (kindIs "map" .) -}}
{{- toJson . -}}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- printf "%.0f" . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/* The settings of values.config as environment variables. */}}
{{- define "cursor-sidecar.settings" -}}
{{- range $section, $settings := .Values.config }}
{{- range $name, $value := $settings }}
{{- if not (kindIs "invalid" $value) }}
- name: {{ printf "CURSOR_SIDECAR_%s__%s" (upper $section) (upper $name) }}
  value: {{ include "cursor-sidecar.settingText" $value | replace "$(" "$$(" | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* One secret as an environment variable, from (dict "name" VARIABLE "secret" VALUES); nothing when none is named. */}}
{{- define "cursor-sidecar.secretEnv" -}}
{{- if .secret.existingSecret }}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret.existingSecret | quote }}
      key: {{ .secret.key | quote }}
{{- end }}
{{- end -}}

{{/* What values.schema.json cannot say. */}}
{{- define "cursor-sidecar.validate" -}}
{{- $deadline := float64 (dig "shutdown" "deadline_seconds" 20 .Values.config) -}}
{{- if le (float64 .Values.terminationGracePeriodSeconds) $deadline -}}
{{- fail (printf "terminationGracePeriodSeconds (%v) must be more than config.shutdown.deadline_seconds (%v): the pod would be killed before the last commit" .Values.terminationGracePeriodSeconds $deadline) -}}
{{- end -}}
{{- end -}}
