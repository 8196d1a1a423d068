package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
	"github.com/pvc-pruner/pvc-pruner/test/install"
)

// Who sends the requests that are counted.
const (
	ourUser       = "system:serviceaccount:pvc-pruner:pvc-pruner"
	setController = "system:serviceaccount:kube-system:statefulset-controller"
	collector     = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// syncs is how many StatefulSets, and how many objects to collect, kube-controller-manager handles at once: as many as
// pvc-pruner by default (the garbage collector's own default is more: 20).
const syncs = "16"

// world is a control plane with pvc-pruner.
type world struct {
	plane  *cluster.Cluster
	pruner *install.Instance
	client kubernetes.Interface
	audit  auditLog
	log    io.Writer
}

// start starts both. Neither side waits for its own client: both may send 1000 requests per second.
func start(ctx context.Context, log io.Writer, flags ...string) (*world, error) {
	plane, err := cluster.Start(ctx, cluster.Options{
		Log: log, AuditUsers: []string{ourUser, setController, collector},
		ControllerManager: []string{"--concurrent-statefulset-syncs=" + syncs},
	})
	if err != nil {
		return nil, fmt.Errorf("start the control plane: %w", err)
	}
	w := &world{plane: plane, log: log, audit: auditLog{plane.AuditLog()}}
	config := plane.Config()
	config.QPS = -1 // the API server sets the pace
	config.WarningHandler = rest.NoWarnings{}
	if w.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, errors.Join(fmt.Errorf("create client: %w", err), plane.Stop())
	}
	flags = append([]string{"--kube-api-qps=1000", "--kube-api-burst=2000"}, flags...)
	if w.pruner, err = install.Start(ctx, install.Options{Cluster: plane, Log: log, Flags: flags}); err != nil {
		return nil, errors.Join(fmt.Errorf("start pvc-pruner: %w", err), plane.Stop())
	}
	return w, nil
}

func (w *world) stop() error { return errors.Join(w.pruner.Stop(), w.plane.Stop()) }

func (w *world) say(format string, args ...any) {
	_, _ = fmt.Fprintf(w.log, format+"\n", args...) // progress that nobody can read hinders nobody
}
