// An API server for custom resources alone, of a current Kubernetes and open to all on loopback: what it
// makes of a CustomResourceDefinition, of the rules in it and of what they cost, with no cluster around it.
package main

import (
	"log"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	apiserver "k8s.io/apiserver/pkg/server"
)

func main() {
	chosen := options.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	// Who may ask, and how much, a cluster's main server decides, and here is none.
	chosen.RecommendedOptions.Authentication = nil
	chosen.RecommendedOptions.Authorization = nil
	chosen.RecommendedOptions.Admission = nil
	chosen.RecommendedOptions.Features.EnablePriorityAndFairness = false

	flags := pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
	chosen.AddFlags(flags)
	if err := flags.Parse(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
	if err := chosen.ServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		log.Fatal(err)
	}
	if err := chosen.Complete(); err != nil {
		log.Fatal(err)
	}
	if err := server.Run(apiserver.SetupSignalContext(), chosen); err != nil {
		log.Fatal(err)
	}
}
