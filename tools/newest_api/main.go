// A current Kubernetes' API server for custom resources and for the built-in kinds that Walras uses, on
// loopback: see README.md for what of it is Kubernetes's own.
package main

import (
	"context"
	"log"
	"os"

	"github.com/spf13/pflag"
	extensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	extensionsopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apiserver/pkg/admission"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"

	"newest/openapi"
)

func main() {
	chosen := options.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	// Who may ask is decided here (accounts.go, rbac.go), and how much by nobody.
	chosen.RecommendedOptions.Authentication = nil
	chosen.RecommendedOptions.Authorization = nil
	chosen.RecommendedOptions.Features.EnablePriorityAndFairness = false
	chosen.RecommendedOptions.Admission.DisablePlugins = []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}

	flags := pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
	chosen.AddFlags(flags)
	orDie(flags.Parse(os.Args[1:]))
	orDie(chosen.ServerRunOptions.ComponentGlobalsRegistry.Set())
	orDie(chosen.Complete())
	orDie(run(apiserver.SetupSignalContext(), chosen))
}

func run(ctx context.Context, chosen *options.CustomResourceDefinitionsServerOptions) error {
	// Admission asks who may do what, so that this is said first.
	chosen.RecommendedOptions.ExtraAdmissionInitializers = func(config *apiserver.RecommendedConfig) ([]admission.PluginInitializer, error) {
		config.Authentication.Authenticator = accounts{}
		config.Authorization.Authorizer = newRBAC(config.SharedInformerFactory)
		return nil, nil
	}
	config, err := chosen.Config()
	if err != nil {
		return err
	}
	generic := config.GenericConfig
	definitions := func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		all := extensionsopenapi.GetOpenAPIDefinitions(ref)
		for name, each := range openapi.GetOpenAPIDefinitions(ref) {
			all[name] = each
		}
		return all
	}
	namer := openapinamer.NewDefinitionNamer(extensions.Scheme, scheme)
	generic.OpenAPIConfig = apiserver.DefaultOpenAPIConfig(definitions, namer)
	generic.OpenAPIV3Config = apiserver.DefaultOpenAPIV3Config(definitions, namer)

	completed := config.Complete()
	completed.GenericConfig.EnableDiscovery = true // elsewhere somebody else tells what is served
	server, err := completed.New(apiserver.NewEmptyDelegate())
	if err != nil {
		return err
	}
	if err := installKinds(server.GenericAPIServer, chosen.RecommendedOptions.Etcd); err != nil {
		return err
	}
	if err := listGroups(server); err != nil {
		return err
	}
	return server.GenericAPIServer.PrepareRun().RunWithContext(ctx)
}

func orDie(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
