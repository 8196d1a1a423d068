package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

type settings struct {
	rounds  int
	only    string
	results string
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 3, "how often each side of a comparison is measured")
	flag.StringVar(&s.only, "only", "", "measure only what has a name that begins so, such as reclaim/b")
	flag.StringVar(&s.results, "results", "", "`file` for the machine-readable lines")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // stop only restores the signal handlers of a process that ends here
	}
}

// measurement is one part of the benchmark, with the names of its figures before the last slash.
type measurement struct {
	name string
	take func(context.Context) ([]figure, error)
}

func (w *world) measurements(rounds int) (all []measurement) {
	for _, s := range scaleDowns() {
		all = append(all, measurement{"reclaim/" + s.name, func(ctx context.Context) ([]figure, error) { return w.reclaim(ctx, s, rounds) }})
	}
	return all
}

func run(ctx context.Context, s settings) (err error) {
	w, err := start(ctx, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	var figures []figure
	for _, m := range w.measurements(s.rounds) {
		if !strings.HasPrefix(m.name, s.only) {
			continue
		}
		some, err := m.take(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		figures = append(figures, some...)
	}
	if err := printTable(os.Stdout, figures); err != nil {
		return err
	}
	if s.results == "" {
		return nil
	}
	header := []string{fmt.Sprintf("make bench, %d rounds, %s/%s, %d cores", s.rounds, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())}
	return os.WriteFile(s.results, []byte(lines(header, figures)), 0o600)
}
