package main

import (
	"context"
	"slices"
	"strings"

	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/rbac/v1"
)

// roles let in who a stored role lets in, administrators, and everybody where nothing is told.
type roles struct {
	roles           listers.RoleLister
	bindings        listers.RoleBindingLister
	clusterRoles    listers.ClusterRoleLister
	clusterBindings listers.ClusterRoleBindingLister
}

func newRBAC(informers informers.SharedInformerFactory) roles {
	known := informers.Rbac().V1()
	return roles{known.Roles().Lister(), known.RoleBindings().Lister(), known.ClusterRoles().Lister(), known.ClusterRoleBindings().Lister()}
}

func (r roles) Authorize(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
	public := !asked.IsResourceRequest() && asked.IsReadOnly()
	if public || slices.Contains(asked.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	for _, rule := range r.rules(asked.GetUser(), asked.GetNamespace()) {
		if allows(rule, asked) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "no role allows it", nil
}

// rules are all that somebody has in a namespace; empty for the cluster.
func (r roles) rules(who user.Info, namespace string) (found []rbac.PolicyRule) {
	bound := func(subjects []rbac.Subject, within string, reference rbac.RoleRef) {
		if !slices.ContainsFunc(subjects, func(each rbac.Subject) bool { return is(each, who, within) }) {
			return
		}
		if reference.Kind == "ClusterRole" {
			if role, err := r.clusterRoles.Get(reference.Name); err == nil {
				found = append(found, role.Rules...)
			}
		} else if role, err := r.roles.Roles(within).Get(reference.Name); err == nil {
			found = append(found, role.Rules...)
		}
	}
	everywhere, _ := r.clusterBindings.List(labels.Everything())
	for _, each := range everywhere {
		bound(each.Subjects, "", each.RoleRef)
	}
	if namespace != "" {
		here, _ := r.bindings.RoleBindings(namespace).List(labels.Everything())
		for _, each := range here {
			bound(each.Subjects, namespace, each.RoleRef)
		}
	}
	return found
}

func is(subject rbac.Subject, who user.Info, namespace string) bool {
	switch subject.Kind {
	case rbac.UserKind:
		return subject.Name == who.GetName()
	case rbac.GroupKind:
		return slices.Contains(who.GetGroups(), subject.Name)
	default:
		if subject.Namespace != "" {
			namespace = subject.Namespace
		}
		return serviceaccount.MatchesUsername(namespace, subject.Name, who.GetName())
	}
}

func allows(rule rbac.PolicyRule, asked authorizer.Attributes) bool {
	has := func(list []string, value string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, value)
	}
	if !has(rule.Verbs, asked.GetVerb()) {
		return false
	}
	if !asked.IsResourceRequest() {
		return slices.ContainsFunc(rule.NonResourceURLs, func(each string) bool {
			prefix, open := strings.CutSuffix(each, "*")
			return each == asked.GetPath() || open && strings.HasPrefix(asked.GetPath(), prefix)
		})
	}
	resource := asked.GetResource()
	if asked.GetSubresource() != "" {
		resource += "/" + asked.GetSubresource()
	}
	return has(rule.APIGroups, asked.GetAPIGroup()) && has(rule.Resources, resource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, asked.GetName()))
}
