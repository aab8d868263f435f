package main

import (
	admissionregistration "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// addDefaults fills what documents leave out, as far as something here hangs on it.
func addDefaults(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&core.Pod{}, func(object any) { podDefaults(object.(*core.Pod)) })
	scheme.AddTypeDefaultingFunc(&core.Namespace{}, func(object any) {
		if namespace := object.(*core.Namespace); namespace.Name != "" {
			if namespace.Labels == nil {
				namespace.Labels = map[string]string{}
			}
			namespace.Labels[core.LabelMetadataName] = namespace.Name
		}
	})
	scheme.AddTypeDefaultingFunc(&admissionregistration.MutatingAdmissionPolicy{}, func(object any) {
		spec := &object.(*admissionregistration.MutatingAdmissionPolicy).Spec
		fill(&spec.FailurePolicy, admissionregistration.Fail)
		matchDefaults(spec.MatchConstraints)
	})
	scheme.AddTypeDefaultingFunc(&admissionregistration.MutatingAdmissionPolicyBinding{}, func(object any) {
		matchDefaults(object.(*admissionregistration.MutatingAdmissionPolicyBinding).Spec.MatchResources)
	})
	scheme.AddTypeDefaultingFunc(&admissionregistration.ValidatingAdmissionPolicy{}, func(object any) {
		spec := &object.(*admissionregistration.ValidatingAdmissionPolicy).Spec
		fill(&spec.FailurePolicy, admissionregistration.Fail)
		matchDefaults(spec.MatchConstraints)
	})
	scheme.AddTypeDefaultingFunc(&admissionregistration.ValidatingAdmissionPolicyBinding{}, func(object any) {
		matchDefaults(object.(*admissionregistration.ValidatingAdmissionPolicyBinding).Spec.MatchResources)
	})
}

func matchDefaults(match *admissionregistration.MatchResources) {
	if match == nil {
		return
	}
	fill(&match.MatchPolicy, admissionregistration.Equivalent)
	fill(&match.NamespaceSelector, meta.LabelSelector{})
	fill(&match.ObjectSelector, meta.LabelSelector{})
	for i := range match.ResourceRules {
		fill(&match.ResourceRules[i].Scope, admissionregistration.AllScopes)
	}
}

func fill[T any](to **T, value T) {
	if *to == nil {
		*to = &value
	}
}

func active(object runtime.Object) { object.(*core.Namespace).Status.Phase = core.NamespaceActive }
