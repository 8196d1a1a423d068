package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/test/install"
	"github.com/pvc-pruner/pvc-pruner/test/observer"
)

// restFor bounds the time until everything has come to rest.
const restFor = 2 * time.Minute

// settle lifts what holds the sets and waits until nothing is left to do. It returns
// what was done wrong until then, and what is left all the same.
func settle(ctx context.Context, client kubernetes.Interface, r *observer.Recorder) ([]string, error) {
	sets, err := client.AppsV1().StatefulSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list sets: %w", err)
	}
	for i := range sets.Items {
		body := []byte(`{"metadata":{"annotations":{"pvc-pruner.io/paused":null,"pvc-pruner.io/delay":"0s"}}}`)
		if _, err := client.AppsV1().StatefulSets(namespace).Patch(ctx, sets.Items[i].Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			return nil, fmt.Errorf("lift holds: %w", err)
		}
	}
	deadline := time.Now().Add(restFor)
	for {
		left := r.Left()
		if len(left) == 0 || time.Now().After(deadline) {
			violations, err := r.Judge(ctx)
			return append(violations, left...), err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// report prints the figures and says whether the run is a success.
func report(began time.Time, counts *tally, violations []string, r *observer.Recorder, pruner *install.Instance, expect bool) error {
	log, err := os.ReadFile(pruner.LogPath("pvc-pruner"))
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	fmt.Printf("soak: %d changes in %s; %d claims deleted; %d requests held, %d refused by a fence, slowest change %s; %d prunes broken off; %d violations\n",
		counts.changes, time.Since(began).Round(time.Second), r.Deleted(), strings.Count(string(log), `"Holding request`), counts.refusals,
		counts.slowest.Round(time.Millisecond), strings.Count(string(log), `"Broke off"`), len(violations))
	if len(violations) > 0 && !expect {
		kept, err := keep(log)
		if err != nil {
			return err
		}
		fmt.Printf("  the log of pvc-pruner is in %s\n", kept)
	}
	for i, v := range violations {
		if i == 20 {
			fmt.Printf("  … and %d more\n", len(violations)-i)
			break
		}
		fmt.Println("  " + v)
	}
	switch {
	case expect && len(violations) == 0:
		return fmt.Errorf("no violation was seen, although there must be some")
	case !expect && len(violations) > 0:
		return fmt.Errorf("%d violations", len(violations))
	}
	return nil
}

// keep writes the log to where it outlives the control plane's folder.
func keep(log []byte) (string, error) {
	file, err := os.CreateTemp("", "pvc-pruner-soak-*.log")
	if err != nil {
		return "", fmt.Errorf("keep the log: %w", err)
	}
	_, err = file.Write(log)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("keep the log: %w", err)
	}
	return file.Name(), nil
}
