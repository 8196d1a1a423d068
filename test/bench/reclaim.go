package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// scaleDown is what is measured: a number of sets that go from one count to another at once.
type scaleDown struct {
	name     string
	sets     int
	from, to int32
}

func scaleDowns() []scaleDown {
	return []scaleDown{{"a", 1, 50, 5}, {"b", 100, 5, 2}, {"c", 500, 4, 3}}
}

func (s scaleDown) claims() int { return s.sets * int(s.from-s.to) }

// roundDeadline bounds one round of one side.
const roundDeadline = 10 * time.Minute

// sample is what one side took for one round.
type sample struct {
	total     time.Duration
	reactions []time.Duration
	requests  int
}

// reclaim measures one scale-down on both sides, in turns.
func (w *world) reclaim(ctx context.Context, s scaleDown, rounds int) ([]figure, error) {
	fleets := []fleet{
		{w, "builtin-" + s.name, s.sets, true},
		{w, "pruned-" + s.name, s.sets, false},
	}
	w.say("reclaim/%s: making 2 x %d sets of %d", s.name, s.sets, s.from)
	group, groupCtx := errgroup.WithContext(ctx)
	for _, f := range fleets {
		group.Go(func() error { return f.build(groupCtx, s.from) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	samples := make([][]sample, len(fleets))
	for round := range rounds {
		for i := range fleets {
			side := (i + round) % len(fleets) // who goes first changes
			one, err := fleets[side].measure(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", fleets[side].namespace, err)
			}
			samples[side] = append(samples[side], one)
		}
	}
	return compare(s, samples[0], samples[1]), nil
}

// measure takes one round, and puts everything back.
func (f fleet) measure(ctx context.Context, s scaleDown) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, roundDeadline)
	defer cancel()
	position, err := f.audit.end()
	if err != nil {
		return sample{}, err
	}
	r, err := record(ctx, f.client, f.namespace, s.claims())
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	if err := f.scale(ctx, s.to); err != nil {
		return sample{}, err
	}
	if err := r.await(ctx); err != nil {
		return sample{}, err
	}
	if err := f.awaitRest(ctx, s.to); err != nil {
		return sample{}, err
	}
	if err := r.stop(); err != nil {
		return sample{}, err
	}
	calls, err := f.audit.since(position)
	if err != nil {
		return sample{}, err
	}
	ours := slices.DeleteFunc(calls, func(c call) bool { return !f.deletes(c) })
	one := sample{total: r.last().Sub(began), reactions: r.reactions(), requests: len(ours)}
	f.say("%s: %s, pod gone to claim marked %s, %d requests: %v", f.namespace, one.total.Round(time.Millisecond),
		median(one.reactions).Round(time.Millisecond), one.requests, sorted(breakdown(ours)))
	if err := f.scale(ctx, s.from); err != nil {
		return sample{}, err
	}
	return one, f.awaitRest(ctx, s.from)
}

// deletes says whether a request is part of what deletes claims: all of ours; of Kubernetes' own path those about
// claims, and the garbage collector's.
func (f fleet) deletes(c call) bool {
	if !f.builtIn {
		return c.User.Username == ourUser
	}
	return c.User.Username == collector && c.Verb != "watch" ||
		c.User.Username == setController && c.resource() == "persistentvolumeclaims" && c.Verb != "create"
}

func sorted(counts map[string]int) (all []string) {
	for _, key := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] }) {
		all = append(all, fmt.Sprintf("%s %d", key, counts[key]))
	}
	return all
}

// compare makes figures of the samples of both sides.
func compare(s scaleDown, builtIn, pruned []sample) (figures []figure) {
	add := func(what, unit string, of func([]sample) float64) {
		base, value := of(builtIn), of(pruned)
		name := "reclaim/" + s.name + "/" + what
		figures = append(figures, figure{name: name + "/builtin", value: base, unit: unit},
			figure{name: name + "/pvc-pruner", value: value, unit: unit, base: base})
	}
	add("total", "ms", func(of []sample) float64 {
		return over(of, func(s sample) float64 { return milliseconds(s.total) })
	})
	for _, q := range []float64{0.5, 0.99} {
		add(fmt.Sprintf("marked-p%.0f", 100*q), "ms", func(of []sample) float64 {
			return over(of, func(s sample) float64 { return milliseconds(quantile(s.reactions, q)) })
		})
	}
	add("requests-per-claim", "requests", func(of []sample) float64 {
		return over(of, func(one sample) float64 { return float64(one.requests) / float64(s.claims()) })
	})
	return figures
}

// over is the median over the rounds.
func over(of []sample, value func(sample) float64) float64 {
	var all []float64
	for _, s := range of {
		all = append(all, value(s))
	}
	return median(all)
}
