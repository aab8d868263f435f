{{- define "walras.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "walras.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "walras.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "walras.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Labels of a component's object: dict "root" $ "part" "agent", and "more" for further ones from the values. */ -}}
{{- define "walras.labels" -}}
{{- $own := dict "app.kubernetes.io/part-of" "walras" -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- $_ = set $own "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ = set $own "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- include "walras.mergedLabels" (dict "labels" . "own" $own) -}}
{{- end -}}

{{- /* Labels that select a component's pods; they never change. */ -}}
{{- define "walras.selector" -}}
app.kubernetes.io/name: {{ include "walras.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- /* Labels of pods, as of objects. None of them depends on the chart's version, since a change would restart the pods. */ -}}
{{- define "walras.podLabels" -}}
{{- include "walras.mergedLabels" (dict "labels" . "own" (dict "app.kubernetes.io/part-of" "walras")) -}}
{{- end -}}

{{- /* Each label once: values replace the chart's own labels, but never those that select pods. */ -}}
{{- define "walras.mergedLabels" -}}
{{- $common := default dict .labels.root.Values.commonLabels -}}
{{- $selector := include "walras.selector" .labels | fromYaml -}}
{{- merge $selector (default dict .labels.more) $common .own | toYaml -}}
{{- end -}}

{{- define "walras.serviceAccount" -}}
{{- $account := (index .root.Values .part).serviceAccount -}}
{{- default (printf "%s-%s" (include "walras.fullname" .root) .part) $account.name -}}
{{- end -}}

{{- /* Reference to an image: dict "root" $ "part" "agent". */ -}}
{{- define "walras.image" -}}
{{- if and (eq .root.Values.image.registry "registry.walras.dev") (.root.Capabilities.APIVersions.Has "v1/Pod") -}}
{{- fail "image.registry is registry.walras.dev, a placeholder that has no images: set it to the registry of your images, or to localhost for images that the nodes have (docs/install.md, step 1)" -}}
{{- end -}}
{{- $image := index .root.Values.image .part -}}
{{- $path := $image.repository -}}
{{- with .root.Values.image.registry -}}
{{- $path = printf "%s/%s" (trimSuffix "/" .) $path -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $path $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $path (default .root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "walras.priorityClass" -}}
{{- default (printf "%s-%s" (include "walras.fullname" .root) .part) (index .root.Values .part).priorityClassName -}}
{{- end -}}

{{- /* Pod fields that all pods share. */ -}}
{{- define "walras.pod" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
enableServiceLinks: false
{{- end -}}

{{- /* Security context of pods that need no access to their node. */ -}}
{{- define "walras.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "walras.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* Non-empty if the cluster has MutatingAdmissionPolicies. Without a cluster, as in `helm template`, no kinds are
known, and the version counts. */ -}}
{{- define "walras.hasMutation" -}}
{{- $known := .Capabilities.APIVersions -}}
{{- $since := semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version -}}
{{- if or ($known.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") (and $since (not ($known.Has "v1/Pod"))) -}}true{{- end -}}
{{- end -}}

{{- /* Non-empty if a value is true, or is `auto` and the cluster supports it: dict "value" v "there" bool. */ -}}
{{- define "walras.wanted" -}}
{{- if or (and (kindIs "bool" .value) .value) (and (eq (toString .value) "auto") .there) -}}true{{- end -}}
{{- end -}}

{{- /* The ServiceAccount and RBAC of a hook's Job, which exist only while it runs:
dict "root" $ "part" "install" "events" "pre-install,pre-upgrade" "args" list "seconds" n
"cluster" rules "namespaced" rules "keep" bool (whether it stays after it failed). */ -}}
{{- define "walras.hook" -}}
{{- $name := printf "%s-%s" (include "walras.fullname" .root) .part -}}
{{- $labels := include "walras.labels" . -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "walras.hookRights" . | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "walras.hookRights" . | nindent 4 }}
rules: {{- .cluster | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "walras.hookRights" . | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ .root.Release.Namespace }}}
{{- with .namespaced }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ $.root.Release.Namespace }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "walras.hookRights" $ | nindent 4 }}
rules: {{- . | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ $.root.Release.Namespace }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "walras.hookRights" $ | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $.root.Release.Namespace }}}
{{- end }}
{{- end -}}

{{- define "walras.hookRights" -}}
helm.sh/hook: {{ .events }}
helm.sh/hook-weight: "-5"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}

{{- /* Of a NetworkPolicy: connections to API servers and to DNS only, if the ports of API servers are known. */ -}}
{{- define "walras.egress" -}}
{{- if .Values.networkPolicy.apiServerPorts }}
egress:
  - ports:
      {{- range .Values.networkPolicy.apiServerPorts }}
      - {protocol: TCP, port: {{ . }}}
      {{- end }}
      - {protocol: UDP, port: 53}
      - {protocol: TCP, port: 53}
{{- end }}
{{- end -}}

{{- /* The pod of a hook's Job or of the test. */ -}}
{{- define "walras.hookPod" -}}
{{- include "walras.pod" .root }}
serviceAccountName: {{ include "walras.fullname" .root }}-{{ .part }}
restartPolicy: Never
securityContext: {{- include "walras.podSecurity" .root | nindent 2 }}
containers:
  - name: {{ .part }}
    image: {{ include "walras.image" (dict "root" .root "part" "operator") }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    args: {{- toYaml .args | nindent 6 }}
    env:
      - name: POD_NAMESPACE
        valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
    # kubectl describe shows the last lines of the log.
    terminationMessagePolicy: FallbackToLogsOnError
    resources: {{- toYaml .root.Values.hooks.resources | nindent 6 }}
    securityContext: {{- include "walras.containerSecurity" .root | nindent 6 }}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
volumes:
  - name: tmp
    emptyDir: {sizeLimit: 64Mi}
nodeSelector: {{- toYaml .root.Values.hooks.nodeSelector | nindent 2 }}
{{- with .root.Values.hooks.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "walras.hookJob" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "walras.fullname" .root }}-{{ .part }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "walras.labels" . | nindent 4 }}
  annotations:
    helm.sh/hook: {{ .events }}
    # A failed Job is kept for its log until the next run.
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 2
  activeDeadlineSeconds: {{ .seconds | int }}
  template:
    metadata:
      labels: {{- include "walras.podLabels" . | nindent 8 }}
    spec: {{- include "walras.hookPod" . | nindent 6 }}
{{- end -}}
