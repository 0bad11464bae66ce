{{- define "evenhand.labels" -}}
app.kubernetes.io/name: evenhand
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
