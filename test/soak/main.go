package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
	"github.com/pvc-pruner/pvc-pruner/test/install"
	"github.com/pvc-pruner/pvc-pruner/test/observer"
)

type settings struct {
	rounds   int
	sets     int
	duration time.Duration
	seed     uint64
	tags     string
	expect   bool
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 20, "how often each StatefulSet is scaled down and meddled with")
	flag.IntVar(&s.sets, "sets", 10, "number of StatefulSets")
	flag.DurationVar(&s.duration, "duration", time.Hour, "start no further round after this time")
	flag.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "seed of all random choices")
	flag.StringVar(&s.tags, "tags", "", "build tags for pvc-pruner, such as nofence")
	flag.BoolVar(&s.expect, "expect-violations", false, "go on until there is a violation, and fail if there is none for long: shows that the observer sees them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1) //nolint:gocritic // stop only restores the signal handlers of a process that ends here
	}
}

func run(ctx context.Context, s settings) (err error) {
	fmt.Printf("soak: %d rounds, %d sets, seed %d\n", s.rounds, s.sets, s.seed)
	plane, err := cluster.Start(ctx, cluster.Options{Log: os.Stdout})
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	pruner, err := install.Start(ctx, install.Options{Cluster: plane, Log: os.Stdout, Tags: s.tags})
	if err != nil {
		return fmt.Errorf("start pvc-pruner: %w", err)
	}
	defer func() { err = errors.Join(err, pruner.Stop()) }()
	config := plane.Config()
	config.QPS = -1 // the API server sets the pace
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	return soak(ctx, s, client, pruner)
}

// expectFor bounds the search for a violation. A round of one set meets one with a
// probability of some percent, and this is hundreds of rounds.
const expectFor = 10 * time.Minute

// soak runs the actors under the observer's eyes and prints what came of it.
func soak(ctx context.Context, s settings, client kubernetes.Interface, pruner *install.Instance) error {
	if err := makeSets(ctx, client, s.sets); err != nil {
		return err
	}
	recorded, err := observer.Observe(ctx, client, namespace)
	if err != nil {
		return err
	}
	began := time.Now()
	counts := &tally{}
	actors := make([]*actor, s.sets)
	for i := range actors {
		actors[i] = &actor{
			client: client, set: setName(i), counts: counts, until: began.Add(s.duration),
			random: rand.New(rand.NewPCG(s.seed, uint64(i))),
		}
	}
	defer recorded.Stop()
	for {
		if err := actAll(ctx, actors, s.rounds); err != nil {
			return err
		}
		violations, err := settle(ctx, client, recorded)
		if err != nil {
			return err
		}
		// Whether a scale-up meets a deletion is chance, and a few rounds can lack one.
		if !s.expect || len(violations) > 0 || time.Since(began) > expectFor {
			return report(began, counts, violations, recorded, pruner, s.expect)
		}
	}
}

// actAll lets all actors act at once and waits for them.
func actAll(ctx context.Context, actors []*actor, rounds int) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, a := range actors {
		group.Go(func() error { return a.act(ctx, rounds) })
	}
	return group.Wait()
}
