package main

import (
	"context"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy says what becomes of an object on its way into the store: of spec and status each is changed on a
// path of its own, and a generation counts changes of the former.
type strategy struct {
	runtime.ObjectTyper
	kind  kind
	keeps string // what is not changed on this path: Status, in the subresource Spec, by a binding neither
}

func (s strategy) NamespaceScoped() bool          { return !s.kind.everywhere }
func (s strategy) AllowCreateOnUpdate() bool      { return s.kind.resource == "leases" }
func (s strategy) AllowUnconditionalUpdate() bool { return s.kind.resource != "leases" }
func (s strategy) Canonicalize(runtime.Object)    {}
func (s strategy) GenerateName(base string) string {
	return names.SimpleNameGenerator.GenerateName(base)
}
func (s strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }
func (s strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (s strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	if status := part(object, "Status"); status.IsValid() {
		if s.kind.resource != "nodes" { // whose kubelet tells at once
			status.SetZero()
		}
		object.(meta.Object).SetGeneration(1)
	}
	if s.kind.made != nil {
		s.kind.made(object)
	}
}

func (s strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	if !s.kind.hasStatus() {
		return
	}
	if s.keeps != "" {
		part(object, s.keeps).Set(part(old, s.keeps))
	}
	now, before := object.(meta.Object), old.(meta.Object)
	now.SetGeneration(before.GetGeneration())
	if !equality.Semantic.DeepEqual(part(object, "Spec").Interface(), part(old, "Spec").Interface()) {
		now.SetGeneration(before.GetGeneration() + 1)
	}
}

func (s strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	if s.kind.rules == nil {
		return nil
	}
	return s.kind.rules(object, nil)
}

func (s strategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	if s.kind.rules == nil || s.keeps != "Status" {
		return nil
	}
	return s.kind.rules(object, old)
}

// GetResetFields has server-side apply own nothing of what is not changed on this path.
func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	reset := fieldpath.NewSet()
	if s.keeps != "" && s.kind.hasStatus() {
		reset.Insert(fieldpath.MakePathOrDie(strings.ToLower(s.keeps)))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(s.kind.gvk().GroupVersion().String()): reset}
}

// part is an object's spec or status; not valid where it has none.
func part(object runtime.Object, name string) reflect.Value {
	return reflect.ValueOf(object).Elem().FieldByName(name)
}
