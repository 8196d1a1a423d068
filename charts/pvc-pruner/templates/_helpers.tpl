{{/* The name of every object of the release in its namespace. */}}
{{- define "pvc-pruner.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/*
The name of objects that belong to no namespace, or to other namespaces than that of the
release: releases of one name in two namespaces must not share them.
*/}}
{{- define "pvc-pruner.clusterName" -}}
{{- $name := include "pvc-pruner.fullname" . -}}
{{- if eq $name .Release.Namespace -}}
{{- $name -}}
{{- else -}}
{{- printf "%s-%s" $name .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- define "pvc-pruner.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pvc-pruner.labels" -}}
{{ include "pvc-pruner.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The Secret with the certificate that is served. */}}
{{- define "pvc-pruner.certificateSecret" -}}
{{- if eq .Values.certs.mode "provided" -}}
{{- required "certs.mode is provided: certs.secretName is required, a Secret with tls.crt and tls.key" .Values.certs.secretName -}}
{{- else -}}
{{- printf "%s-tls" (include "pvc-pruner.fullname" . | trunc 59 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the authority of mode self-managed. */}}
{{- define "pvc-pruner.caSecret" -}}
{{- printf "%s-ca" (include "pvc-pruner.fullname" . | trunc 60 | trimSuffix "-") -}}
{{- end -}}

{{/*
The self-signed issuer of mode cert-manager, the authority that it signs, and its Secret. Not
the name of caSecret: what one mode leaves behind must not be taken up by the other.
*/}}
{{- define "pvc-pruner.root" -}}
{{- printf "%s-root" (include "pvc-pruner.fullname" . | trunc 58 | trimSuffix "-") -}}
{{- end -}}

{{/* Whether cert-manager signs with an authority of the chart's own. */}}
{{- define "pvc-pruner.ownAuthority" -}}
{{- and (eq .Values.certs.mode "cert-manager") (not .Values.certs.issuerRef) -}}
{{- end -}}

{{/* The names under which the API server reaches the webhook. */}}
{{- define "pvc-pruner.hosts" -}}
- {{ printf "%s.%s.svc" (include "pvc-pruner.fullname" .) .Release.Namespace }}
- {{ printf "%s.%s.svc.cluster.local" (include "pvc-pruner.fullname" .) .Release.Namespace }}
{{- end -}}

{{/* The arguments of the program. */}}
{{- define "pvc-pruner.args" -}}
- --namespace={{ .Release.Namespace }}
- --webhook-configuration={{ include "pvc-pruner.clusterName" . }}
- --lease={{ include "pvc-pruner.fullname" . }}
{{- with .Values.watchNamespaces }}
- --watch-namespaces={{ join "," . }}
{{- end }}
- --webhook-port={{ .Values.webhook.port }}
{{- if eq .Values.certs.mode "self-managed" }}
- --ca-secret={{ include "pvc-pruner.caSecret" . }}
- --cert-hosts={{ include "pvc-pruner.hosts" . | fromYamlArray | join "," }}
- --ca-duration={{ .Values.certs.caDuration }}
- --cert-duration={{ .Values.certs.certDuration }}
{{- else }}
- --cert-dir=/certs
{{- end }}
- --delay={{ .Values.defaults.delay }}
- --scope={{ .Values.defaults.scope }}
- --scale-to-zero={{ .Values.defaults.scaleToZero }}
- --stale-volumes={{ .Values.defaults.staleVolumes }}
{{- with .Values.defaults.templates }}
- --templates={{ . }}
{{- end }}
{{- with .Values.defaults.snapshotClass }}
- --snapshot-class={{ . }}
{{- end }}
- --paused={{ .Values.defaults.paused }}
- --dry-run={{ .Values.defaults.dryRun }}
- --consider-workloads={{ .Values.considerWorkloads }}
- --snapshots={{ .Values.snapshots.enabled }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Annotations of the webhook configurations. */}}
{{- define "pvc-pruner.injection" -}}
{{- if eq .Values.certs.mode "cert-manager" }}
annotations:
  cert-manager.io/inject-ca-from: {{ printf "%s/%s" .Release.Namespace (include "pvc-pruner.fullname" .) }}
{{- end }}
{{- end -}}

{{/*
Two installations for the same namespaces would undo each other's records. The program
refuses too, but here it is said before anything is applied. Without a cluster to look at
(helm template) nothing is found.
*/}}
{{- define "pvc-pruner.refuseSecond" -}}
{{- $own := include "pvc-pruner.clusterName" . -}}
{{- $watched := .Values.watchNamespaces -}}
{{- range $unwatchable := list .Release.Namespace "kube-system" -}}
{{- if has $unwatchable $watched -}}
{{- fail (printf "watchNamespaces names %s, whose StatefulSets are never sent to the webhook: take it out, and use other namespaces for StatefulSets with volumes" $unwatchable) -}}
{{- end -}}
{{- end -}}
{{- range $other := (lookup "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" "" "").items -}}
{{- range $webhook := ($other.webhooks | default list) -}}
{{- if and (ne $other.metadata.name $own) (eq $webhook.name "bookkeeping.pvc-pruner.io") -}}
{{- $disjoint := false -}}
{{- range $term := (($webhook.namespaceSelector | default dict).matchExpressions | default list) -}}
{{- if and (eq $term.key "kubernetes.io/metadata.name") (eq $term.operator "In") $watched -}}
{{- $disjoint = true -}}
{{- range $term.values -}}{{- if has . $watched -}}{{- $disjoint = false -}}{{- end -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $disjoint -}}
{{- $annotations := $other.metadata.annotations | default dict -}}
{{- fail (printf "pvc-pruner is already installed by %s/%s (MutatingWebhookConfiguration %s): two would undo each other's records. Uninstall it first, or give each watchNamespaces of its own" (index $annotations "meta.helm.sh/release-namespace" | default "?") (index $annotations "meta.helm.sh/release-name" | default "?") $other.metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What all three webhooks have in common; "path" is that of the endpoint. */}}
{{- define "pvc-pruner.webhook" -}}
admissionReviewVersions: [v1]
clientConfig:
  {{- if .root.Values.webhook.url }}
  url: {{ .root.Values.webhook.url }}{{ .path }}
  {{- else }}
  service:
    name: {{ include "pvc-pruner.fullname" .root }}
    namespace: {{ .root.Release.Namespace }}
    port: 443
    path: {{ .path }}
  {{- end }}
  {{- if eq .root.Values.certs.mode "provided" }}
  caBundle: {{ required "certs.mode is provided: webhook.caBundle is required, the PEM of the authority" .root.Values.webhook.caBundle | b64enc }}
  {{- end }}
matchPolicy: Equivalent
# By the label that the API server itself sets: others can be changed by users.
namespaceSelector:
  matchExpressions:
    {{- with .root.Values.watchNamespaces }}
    - key: kubernetes.io/metadata.name
      operator: In
      values: {{ toJson . }}
    {{- end }}
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
  # The status subresource can write annotations too. The spec that it sends is never stored,
  # and a controller that is late sends an old one.
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
      (request.?subResource.orValue('') != 'status' &&
      (object.spec.?replicas != oldObject.spec.?replicas || object.spec.?ordinals != oldObject.spec.?ordinals)) ||
      object.metadata.?annotations.orValue({}).exists(k, k.startsWith('pvc-pruner.io/') &&
      oldObject.metadata.?annotations[?k] != optional.of(object.metadata.annotations[k])) ||
      oldObject.metadata.?annotations.orValue({}).exists(k, k.startsWith('pvc-pruner.io/') &&
      !object.metadata.?annotations[?k].hasValue())
{{- end -}}

{{/* The rights in namespaces whose StatefulSets are pruned. */}}
{{- define "pvc-pruner.rules" -}}
# The bookkeeping is in the annotations of StatefulSets.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, patch]
# To prove, by dry runs of a scale-up, that a scale-up would be held.
- apiGroups: [apps]
  resources: [statefulsets/scale]
  verbs: [update]
# To delete unused claims, and to see them go.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, watch, delete]
# To see what uses a claim.
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
{{- if .Values.considerWorkloads }}
# To see what will use a claim later (--consider-workloads).
- apiGroups: [apps]
  resources: [deployments, daemonsets, replicasets]
  verbs: [list]
- apiGroups: [batch]
  resources: [cronjobs, jobs]
  verbs: [list]
- apiGroups: [""]
  resources: [replicationcontrollers]
  verbs: [list]
{{- end }}
{{- if .Values.snapshots.enabled }}
# To take VolumeSnapshots, and to see those that others take (--snapshots).
- apiGroups: [snapshot.storage.k8s.io]
  resources: [volumesnapshots]
  verbs: [list, create]
{{- end }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}

{{- define "pvc-pruner.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote -}}
{{- end -}}

{{/* What the Pod Security Standard "restricted" asks of pods, and of containers. */}}
{{- define "pvc-pruner.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "pvc-pruner.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Annotations of what helm test makes; "." is the weight. */}}
{{- define "pvc-pruner.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}
