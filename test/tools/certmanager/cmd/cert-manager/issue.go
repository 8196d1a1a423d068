package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	crca "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	crselfsigned "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"         // registers the kind of issuer
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned" // registers the kind of issuer
	"golang.org/x/sync/errgroup"
)

// workers of each controller.
const workers = 2

// controllers are those of cert-manager's own that issue certificates without anything outside the cluster.
func controllers() []string {
	return []string{
		issuers.ControllerName,
		clusterissuers.ControllerName,
		trigger.ControllerName,
		keymanager.ControllerName,
		requestmanager.ControllerName,
		issuing.ControllerName,
		readiness.ControllerName,
		revisionmanager.ControllerName,
		approver.ControllerName,
		crca.CRControllerName,
		crselfsigned.CRControllerName,
	}
}

// issue runs the controllers until the context ends.
func issue(ctx context.Context, kubeconfig string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   1000,
		KubernetesAPIBurst: 2000,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		CertificateOptions: controller.CertificateOptions{
			// An hour by default: a test would never see the second attempt.
			CertificateRequestMinimumBackoffDuration: time.Second,
			CertificateRequestMaximumBackoffDuration: time.Minute,
		},
	})
	if err != nil {
		return fmt.Errorf("prepare the controllers: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	var runs []func()
	for _, name := range controllers() {
		constructor, known := controller.Known()[name]
		if !known {
			return fmt.Errorf("cert-manager has no controller %q", name)
		}
		c, err := constructor(factory)
		if err != nil {
			return fmt.Errorf("construct %s: %w", name, err)
		}
		runs = append(runs, func() { group.Go(func() error { return c.Run(workers, ctx) }) })
	}
	// Only now: each constructor adds the informers that it needs.
	shared, err := factory.Build()
	if err != nil {
		return fmt.Errorf("build the informers: %w", err)
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	for _, start := range runs {
		start()
	}
	return group.Wait()
}
