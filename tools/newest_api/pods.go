package main

import (
	"context"
	"fmt"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

func podFields(object runtime.Object) fields.Set {
	pod := object.(*core.Pod)
	return fields.Set{"spec.nodeName": pod.Spec.NodeName, "spec.schedulerName": pod.Spec.SchedulerName, "status.phase": string(pod.Status.Phase)}
}

func pending(object runtime.Object) {
	pod := object.(*core.Pod)
	pod.Status = core.PodStatus{Phase: core.PodPending}
	if len(pod.Spec.SchedulingGates) > 0 {
		gated := core.PodCondition{Type: core.PodScheduled, Status: core.ConditionFalse, Reason: core.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates"}
		pod.Status.Conditions = []core.PodCondition{gated}
	}
}

func podDefaults(pod *core.Pod) {
	spec := &pod.Spec
	for to, value := range map[*string]string{&spec.SchedulerName: core.DefaultSchedulerName, &spec.ServiceAccountName: "default",
		(*string)(&spec.RestartPolicy): string(core.RestartPolicyAlways), (*string)(&spec.DNSPolicy): string(core.DNSClusterFirst)} {
		if *to == "" {
			*to = value
		}
	}
	if spec.TerminationGracePeriodSeconds == nil {
		seconds := int64(core.DefaultTerminationGracePeriodSeconds)
		spec.TerminationGracePeriodSeconds = &seconds
	}
	for _, containers := range [][]core.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			wanted := &containers[i].Resources
			for name, limit := range wanted.Limits {
				if _, asked := wanted.Requests[name]; !asked {
					if wanted.Requests == nil {
						wanted.Requests = core.ResourceList{}
					}
					wanted.Requests[name] = limit.DeepCopy()
				}
			}
		}
	}
}

// podRules are those of k8s.io/kubernetes/pkg/apis/core/validation that are about gates, and what they open.
func podRules(object, before runtime.Object) (found field.ErrorList) {
	spec, path := object.(*core.Pod).Spec, field.NewPath("spec")
	if len(spec.Containers) == 0 {
		found = append(found, field.Required(path.Child("containers"), ""))
	}
	gates := path.Child("schedulingGates")
	names := sets.New[string]()
	for i, each := range spec.SchedulingGates {
		for _, said := range validation.IsQualifiedName(each.Name) {
			found = append(found, field.Invalid(gates.Index(i), each.Name, said))
		}
		if names.Has(each.Name) {
			found = append(found, field.Duplicate(gates.Index(i), each.Name))
		}
		names.Insert(each.Name)
	}
	if before == nil {
		if spec.NodeName != "" && len(spec.SchedulingGates) > 0 {
			found = append(found, field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
		}
		return found
	}

	old := before.(*core.Pod).Spec
	known := sets.New[string]()
	for _, each := range old.SchedulingGates {
		known.Insert(each.Name)
	}
	for name := range names.Difference(known) {
		found = append(found, field.Forbidden(gates, fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", name)))
	}

	kept := *spec.DeepCopy() // but for what may change
	kept.SchedulingGates, kept.TerminationGracePeriodSeconds = old.SchedulingGates, old.TerminationGracePeriodSeconds
	kept.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds
	if n := len(old.Tolerations); len(kept.Tolerations) >= n && equality.Semantic.DeepEqual(kept.Tolerations[:n:n], old.Tolerations) {
		kept.Tolerations = old.Tolerations
	}
	for i := range kept.Containers {
		if i < len(old.Containers) {
			kept.Containers[i].Image = old.Containers[i].Image
		}
	}
	if len(old.SchedulingGates) > 0 {
		found = append(found, narrowed(required(spec), required(old), path)...)
		if required(spec) != nil {
			kept.Affinity = withRequired(kept.Affinity, required(old))
			if old.Affinity == nil && equality.Semantic.DeepEqual(kept.Affinity, &core.Affinity{NodeAffinity: &core.NodeAffinity{}}) {
				kept.Affinity = nil
			} else if old.Affinity != nil && old.Affinity.NodeAffinity == nil && equality.Semantic.DeepEqual(kept.Affinity.NodeAffinity, &core.NodeAffinity{}) {
				kept.Affinity.NodeAffinity = nil
			}
		}
		for key, value := range old.NodeSelector {
			if now, there := spec.NodeSelector[key]; !there || now != value {
				found = append(found, field.Invalid(path.Child("nodeSelector"), spec.NodeSelector, "only additions are allowed (no mutations or deletions)"))
			}
		}
		kept.NodeSelector = old.NodeSelector
	}
	if !equality.Semantic.DeepEqual(kept, old) {
		found = append(found, field.Forbidden(path, "pod updates may not change fields other than `spec.containers[*].image`,"+
			"`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"+
			"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"))
	}
	return found
}

// narrowed finds terms of required node affinity that were changed otherwise than by additions to each.
func narrowed(now, old *core.NodeSelector, spec *field.Path) (found field.ErrorList) {
	path := spec.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	if old == nil || len(old.NodeSelectorTerms) == 0 {
		return nil
	}
	if now == nil || len(now.NodeSelectorTerms) != len(old.NodeSelectorTerms) {
		return field.ErrorList{field.Invalid(path, now, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	begins := func(now, old []core.NodeSelectorRequirement) bool {
		return len(now) >= len(old) && (len(old) == 0 || equality.Semantic.DeepEqual(now[:len(old)], old))
	}
	for i, term := range old.NodeSelectorTerms {
		next := now.NodeSelectorTerms[i]
		empty := len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0
		if !begins(next.MatchExpressions, term.MatchExpressions) || !begins(next.MatchFields, term.MatchFields) ||
			empty && (len(next.MatchExpressions) > 0 || len(next.MatchFields) > 0) {
			found = append(found, field.Invalid(path.Index(i), next, "only additions are allowed (no mutations or deletions)"))
		}
	}
	return found
}

func required(spec core.PodSpec) *core.NodeSelector {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func withRequired(affinity *core.Affinity, terms *core.NodeSelector) *core.Affinity {
	affinity = affinity.DeepCopy()
	affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = terms
	return affinity
}

// bindings give pods their nodes, once, and none that is still gated.
type bindings struct{ store *registry.Store }

func (b bindings) New() runtime.Object   { return &core.Binding{} }
func (b bindings) Destroy()              {}
func (b bindings) NamespaceScoped() bool { return true }

func (b bindings) Create(ctx context.Context, name string, object runtime.Object, admitted rest.ValidateObjectFunc, options *meta.CreateOptions) (runtime.Object, error) {
	binding := object.(*core.Binding)
	if binding.Name != name {
		return nil, errors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if admitted != nil {
		if err := admitted(ctx, object.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	bind := func(_ context.Context, _, stored runtime.Object) (runtime.Object, error) {
		pod := stored.DeepCopyObject().(*core.Pod)
		refused := func(format string, about ...any) error {
			return errors.NewConflict(core.Resource("pods/binding"), name, fmt.Errorf(format, about...))
		}
		if binding.UID != "" && binding.UID != pod.UID {
			return nil, refused("Precondition failed: UID in precondition: %v, UID in object meta: %v", binding.UID, pod.UID)
		}
		if pod.DeletionTimestamp != nil {
			return nil, refused("pod %s is being deleted, cannot be assigned to a host", name)
		}
		if pod.Spec.NodeName != "" {
			return nil, refused("pod %v is already assigned to node %q", name, pod.Spec.NodeName)
		}
		if len(pod.Spec.SchedulingGates) > 0 {
			return nil, refused("pod %v has non-empty .spec.schedulingGates", name)
		}
		pod.Spec.NodeName = binding.Target.Name
		for key, value := range binding.Annotations {
			meta.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
		}
		pod.Status.Conditions = append(pod.Status.Conditions, core.PodCondition{Type: core.PodScheduled, Status: core.ConditionTrue})
		return pod, nil
	}
	_, _, err := b.store.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, bind), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &meta.UpdateOptions{DryRun: options.DryRun})
	return &meta.Status{Status: meta.StatusSuccess}, err
}
