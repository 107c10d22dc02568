{{- define "mapwright.labels" -}}
app.kubernetes.io/name: mapwright
app.kubernetes.io/component: service-provider
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
