package main

import (
	"context"
	"fmt"
	"reflect"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	scheduling "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// kind is a built-in kind, stored as it is: all that is particular about it stands here.
type kind struct {
	resource, singular string
	object, list       runtime.Object
	everywhere         bool                                             // not in a namespace
	fields             func(runtime.Object) fields.Set                  // for selectors, besides name and namespace
	made               func(runtime.Object)                             // what it begins with
	rules              func(object, old runtime.Object) field.ErrorList // old is nil when it is made
}

var kinds = []kind{
	{resource: "namespaces", singular: "namespace", object: &core.Namespace{}, list: &core.NamespaceList{}, everywhere: true, made: active},
	{resource: "nodes", singular: "node", object: &core.Node{}, list: &core.NodeList{}, everywhere: true},
	{resource: "pods", singular: "pod", object: &core.Pod{}, list: &core.PodList{}, fields: podFields, made: pending, rules: podRules},
	{resource: "events", singular: "event", object: &core.Event{}, list: &core.EventList{}},
	{resource: "services", singular: "service", object: &core.Service{}, list: &core.ServiceList{}},
	{resource: "serviceaccounts", singular: "serviceaccount", object: &core.ServiceAccount{}, list: &core.ServiceAccountList{}},
	{resource: "configmaps", singular: "configmap", object: &core.ConfigMap{}, list: &core.ConfigMapList{}},
	{resource: "secrets", singular: "secret", object: &core.Secret{}, list: &core.SecretList{}},
	{resource: "leases", singular: "lease", object: &coordination.Lease{}, list: &coordination.LeaseList{}},
	{resource: "deployments", singular: "deployment", object: &apps.Deployment{}, list: &apps.DeploymentList{}},
	{resource: "replicasets", singular: "replicaset", object: &apps.ReplicaSet{}, list: &apps.ReplicaSetList{}},
	{resource: "statefulsets", singular: "statefulset", object: &apps.StatefulSet{}, list: &apps.StatefulSetList{}},
	{resource: "daemonsets", singular: "daemonset", object: &apps.DaemonSet{}, list: &apps.DaemonSetList{}},
	{resource: "jobs", singular: "job", object: &batch.Job{}, list: &batch.JobList{}},
	{resource: "poddisruptionbudgets", singular: "poddisruptionbudget", object: &policy.PodDisruptionBudget{}, list: &policy.PodDisruptionBudgetList{}},
	{resource: "networkpolicies", singular: "networkpolicy", object: &networking.NetworkPolicy{}, list: &networking.NetworkPolicyList{}},
	{resource: "priorityclasses", singular: "priorityclass", object: &scheduling.PriorityClass{}, list: &scheduling.PriorityClassList{}, everywhere: true},
	{resource: "roles", singular: "role", object: &rbac.Role{}, list: &rbac.RoleList{}},
	{resource: "rolebindings", singular: "rolebinding", object: &rbac.RoleBinding{}, list: &rbac.RoleBindingList{}},
	{resource: "clusterroles", singular: "clusterrole", object: &rbac.ClusterRole{}, list: &rbac.ClusterRoleList{}, everywhere: true},
	{resource: "clusterrolebindings", singular: "clusterrolebinding", object: &rbac.ClusterRoleBinding{}, list: &rbac.ClusterRoleBindingList{}, everywhere: true},
	{resource: "mutatingadmissionpolicies", singular: "mutatingadmissionpolicy", object: &admissionregistration.MutatingAdmissionPolicy{}, list: &admissionregistration.MutatingAdmissionPolicyList{}, everywhere: true},
	{resource: "mutatingadmissionpolicybindings", singular: "mutatingadmissionpolicybinding", object: &admissionregistration.MutatingAdmissionPolicyBinding{}, list: &admissionregistration.MutatingAdmissionPolicyBindingList{}, everywhere: true},
	{resource: "validatingadmissionpolicies", singular: "validatingadmissionpolicy", object: &admissionregistration.ValidatingAdmissionPolicy{}, list: &admissionregistration.ValidatingAdmissionPolicyList{}, everywhere: true},
	{resource: "validatingadmissionpolicybindings", singular: "validatingadmissionpolicybinding", object: &admissionregistration.ValidatingAdmissionPolicyBinding{}, list: &admissionregistration.ValidatingAdmissionPolicyBindingList{}, everywhere: true},
}

var (
	scheme         = runtime.NewScheme()
	codecs         = serializer.NewCodecFactory(scheme)
	parameterCodec = runtime.NewParameterCodec(scheme)
)

func init() {
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistration.AddToScheme, apps.AddToScheme, authentication.AddToScheme, batch.AddToScheme, coordination.AddToScheme,
		core.AddToScheme, networking.AddToScheme, policy.AddToScheme, rbac.AddToScheme, scheduling.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	addDefaults(scheme)
	for _, each := range kinds {
		gvk := each.gvk()
		utilruntime.Must(scheme.AddFieldLabelConversionFunc(gvk, func(label, value string) (string, string, error) {
			if _, known := each.selectable(each.object)[label]; !known {
				return "", "", fmt.Errorf("%q is not a known field selector of %s", label, each.resource)
			}
			return label, value, nil
		}))
	}
	// What is stored, sent and held in memory is one type here: no kind has an internal form.
	for _, version := range scheme.PreferredVersionAllGroups() {
		for name, each := range scheme.KnownTypes(version) {
			if object := reflect.New(each).Interface(); each.PkgPath() != "k8s.io/apimachinery/pkg/apis/meta/v1" {
				scheme.AddKnownTypeWithName(schema.GroupVersion{Group: version.Group, Version: runtime.APIVersionInternal}.WithKind(name), object.(runtime.Object))
			}
		}
	}
}

func (k kind) gvk() schema.GroupVersionKind {
	found, _, err := scheme.ObjectKinds(k.object)
	utilruntime.Must(err)
	return found[0]
}

func (k kind) selectable(object runtime.Object) fields.Set {
	accessor := object.(meta.Object)
	set := fields.Set{"metadata.name": accessor.GetName()}
	if !k.everywhere {
		set["metadata.namespace"] = accessor.GetNamespace()
	}
	if k.fields != nil {
		for name, value := range k.fields(object) {
			set[name] = value
		}
	}
	return set
}

func (k kind) attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	return object.(meta.Object).GetLabels(), k.selectable(object), nil
}

func (k kind) hasStatus() bool { return part(k.object, "Status").IsValid() }

func (k kind) store(getter generic.RESTOptionsGetter) (*registry.Store, error) {
	group := schema.GroupResource{Group: k.gvk().Group, Resource: k.resource}
	plan := strategy{ObjectTyper: scheme, kind: k, keeps: "Status"}
	store := &registry.Store{
		NewFunc:                   k.object.DeepCopyObject,
		NewListFunc:               k.list.DeepCopyObject,
		DefaultQualifiedResource:  group,
		SingularQualifiedResource: schema.GroupResource{Group: group.Group, Resource: k.singular},
		CreateStrategy:            plan,
		UpdateStrategy:            plan,
		DeleteStrategy:            plan,
		ResetFieldsStrategy:       plan,
		TableConvertor:            rest.NewDefaultTableConvertor(group),
		PredicateFunc: func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: k.attributes}
		},
	}
	return store, store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter, AttrFunc: k.attributes})
}

// status serves a subresource in which nothing but the status can be changed.
type status struct{ store *registry.Store }

// keeping is a store of the same objects on a path where something else is kept as it is.
func (k kind) keeping(what string, store *registry.Store) *registry.Store {
	own, plan := *store, strategy{ObjectTyper: scheme, kind: k, keeps: what}
	own.UpdateStrategy, own.ResetFieldsStrategy = plan, plan
	return &own
}

func (s status) New() runtime.Object { return s.store.New() }
func (s status) Destroy()            {}
func (s status) Get(ctx context.Context, name string, options *meta.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}
func (s status) Update(ctx context.Context, name string, to rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *meta.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, to, create, update, false, options)
}
func (s status) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.ResetFieldsStrategy.GetResetFields()
}
func (s status) ConvertToTable(ctx context.Context, object, options runtime.Object) (*meta.Table, error) {
	return s.store.ConvertToTable(ctx, object, options)
}

// installKinds serves all kinds, each group at its usual path.
func installKinds(server *apiserver.GenericAPIServer, etcd *options.EtcdOptions) error {
	own := *etcd
	own.StorageConfig.Prefix = "/registry"
	own.StorageConfig.Codec = codecs.LegacyCodec(scheme.PreferredVersionAllGroups()...)
	getter := own.CreateRESTOptionsGetter(&options.SimpleStorageFactory{StorageConfig: own.StorageConfig}, nil)

	stores, groups := map[string]*registry.Store{}, map[schema.GroupVersion]map[string]rest.Storage{}
	for _, each := range kinds {
		store, err := each.store(getter)
		if err != nil {
			return err
		}
		version := each.gvk().GroupVersion()
		if groups[version] == nil {
			groups[version] = map[string]rest.Storage{}
		}
		stores[each.resource], groups[version][each.resource] = store, store
		if each.resource == "pods" {
			groups[version]["pods/binding"] = bindings{each.keeping("", store)}
		}
		if each.hasStatus() {
			groups[version][each.resource+"/status"] = status{each.keeping("Spec", store)}
		}
	}
	groups[core.SchemeGroupVersion]["serviceaccounts/token"] = tokens{stores["serviceaccounts"], stores["pods"]}
	furnish(stores)
	server.AddPostStartHookOrDie("namespaces", func(hook apiserver.PostStartHookContext) error {
		for _, name := range []string{"default", "kube-system"} {
			made := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}
			if _, err := stores["namespaces"].Create(request.WithNamespace(hook, ""), made, rest.ValidateAllObjectFunc, &meta.CreateOptions{}); err != nil && !errors.IsAlreadyExists(err) {
				return err
			}
		}
		return nil
	})

	var others []*apiserver.APIGroupInfo
	for version, resources := range groups {
		info := apiserver.NewDefaultAPIGroupInfo(version.Group, scheme, parameterCodec, codecs)
		info.VersionedResourcesStorageMap[version.Version] = resources
		if version.Group == "" {
			if err := server.InstallLegacyAPIGroup(apiserver.DefaultLegacyAPIPrefix, &info); err != nil {
				return err
			}
		} else {
			others = append(others, &info)
		}
	}
	return server.InstallAPIGroups(others...)
}

// furnish does what controllers do elsewhere: a namespace has an account from the beginning, and what is in
// it ends with it.
func furnish(stores map[string]*registry.Store) {
	stores["namespaces"].AfterCreate = func(object runtime.Object, _ *meta.CreateOptions) {
		ctx := request.WithNamespace(context.Background(), object.(*core.Namespace).Name)
		account := &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: "default"}}
		_, err := stores["serviceaccounts"].Create(ctx, account, rest.ValidateAllObjectFunc, &meta.CreateOptions{})
		utilruntime.HandleError(err)
	}
	stores["namespaces"].AfterDelete = func(object runtime.Object, _ *meta.DeleteOptions) {
		ctx := request.WithNamespace(context.Background(), object.(*core.Namespace).Name)
		for _, each := range kinds {
			if !each.everywhere {
				_, err := stores[each.resource].DeleteCollection(ctx, rest.ValidateAllObjectFunc, &meta.DeleteOptions{}, &metainternal.ListOptions{})
				utilruntime.HandleError(err)
			}
		}
	}
}
