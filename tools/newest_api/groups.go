package main

import (
	"slices"

	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// listGroups keeps the groups of custom resources in the list of all, as a cluster's aggregator does.
func listGroups(server *extensions.CustomResourceDefinitions) error {
	informer := server.Informers.Apiextensions().V1().CustomResourceDefinitions()
	manager, listed := server.GenericAPIServer.DiscoveryGroupManager, map[string]bool{}
	again := func() {
		all, _ := informer.Lister().List(labels.Everything())
		groups := map[string]meta.APIGroup{}
		for _, each := range all {
			group := groups[each.Spec.Group]
			group.Name = each.Spec.Group
			for _, version := range each.Spec.Versions {
				if version.Served && established(each) {
					found := meta.GroupVersionForDiscovery{GroupVersion: group.Name + "/" + version.Name, Version: version.Name}
					group.Versions, group.PreferredVersion = append(slices.DeleteFunc(group.Versions, func(one meta.GroupVersionForDiscovery) bool { return one == found }), found), found
				}
			}
			groups[group.Name] = group
		}
		for name := range listed {
			if len(groups[name].Versions) == 0 {
				manager.RemoveGroup(name)
				delete(listed, name)
			}
		}
		for name, group := range groups {
			if len(group.Versions) > 0 {
				manager.AddGroup(group)
				listed[name] = true
			}
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { again() }, UpdateFunc: func(any, any) { again() }, DeleteFunc: func(any) { again() },
	})
	return err
}

func established(definition *definitions.CustomResourceDefinition) bool {
	for _, each := range definition.Status.Conditions {
		if each.Type == definitions.Established {
			return each.Status == definitions.ConditionTrue
		}
	}
	return false
}
