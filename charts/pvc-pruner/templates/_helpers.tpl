{{/* The name of every object of the release. */}}
{{- define "pvc-pruner.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "pvc-pruner.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* What all three webhooks have in common; "path" is that of the endpoint. */}}
{{- define "pvc-pruner.webhook" -}}
admissionReviewVersions: [v1]
clientConfig:
  url: {{ required "webhook.url is required: the https:// URL, without a path, under which the API server reaches pvc-pruner" .root.Values.webhook.url }}{{ .path }}
  {{- with .root.Values.webhook.caBundle }}
  caBundle: {{ . | b64enc }}
  {{- end }}
matchPolicy: Equivalent
# By the label that the API server itself sets: others can be changed by users.
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{ concat (list "kube-system" .root.Release.Namespace) .root.Values.excludeNamespaces | uniq | toJson }}
# A Scale has no labels, and StatefulSets opt in by annotation.
objectSelector: {}
sideEffects: None
timeoutSeconds: {{ .root.Values.webhook.timeoutSeconds }}
{{- end -}}

{{/*
Rules and conditions for StatefulSets. A condition that cannot be evaluated fails the
request under failurePolicy Fail, so each is written for absent parts: oldObject is null
on CREATE, and annotations, ordinals or replicas may be missing. What never concerns us
(rollouts, labels, finalizers, sets without our annotations) is never sent.
*/}}
{{- define "pvc-pruner.statefulsets" -}}
rules:
  - apiGroups: [apps]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [statefulsets]
    scope: Namespaced
  # The status subresource can write annotations too.
  - apiGroups: [apps]
    apiVersions: [v1]
    operations: [UPDATE]
    resources: [statefulsets/status]
    scope: Namespaced
matchConditions:
  - name: has-pvc-pruner-annotation
    expression: >-
      object.metadata.?annotations.orValue({}).exists(k, k.startsWith('pvc-pruner.io/')) ||
      (request.operation == 'UPDATE' &&
      oldObject.metadata.?annotations.orValue({}).exists(k, k.startsWith('pvc-pruner.io/')))
  - name: concerns-pvc-pruner
    expression: >-
      request.operation == 'CREATE' ||
      object.spec.?replicas != oldObject.spec.?replicas ||
      object.spec.?ordinals != oldObject.spec.?ordinals ||
      object.metadata.?annotations.orValue({}).exists(k, k.startsWith('pvc-pruner.io/') &&
      oldObject.metadata.?annotations[?k] != optional.of(object.metadata.annotations[k])) ||
      oldObject.metadata.?annotations.orValue({}).exists(k, k.startsWith('pvc-pruner.io/') &&
      !object.metadata.?annotations[?k].hasValue())
{{- end -}}
