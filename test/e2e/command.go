package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// defaultTimeout is what a command waits without -t.
const defaultTimeout = 60 * time.Second

// command is one command of the scripts.
type command struct {
	// args is the synopsis of the arguments, for usage errors.
	args string
	// min and max bound the number of arguments; a max of -1 is none.
	min, max int
	// waits says that the command accepts -t.
	waits bool
	// more is what the arguments add to the default of -t; nil for nothing.
	more func(args []string) time.Duration
	run  func(ctx context.Context, s *script, args []string) error
}

// usageError says that a command was called wrongly: the state of the cluster explains nothing then.
type usageError struct{ problem string }

func (e usageError) Error() string { return e.problem }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// commands of the scripts, by name. kubectl is not among them: it alone may be negated.
func commands() map[string]command {
	return map[string]command{
		"new-set":         {args: "NAME REPLICAS [KEY=VALUE...]", min: 2, max: -1, waits: true, run: newSet},
		"wait-ready":      {args: "NAME N", min: 2, max: 2, waits: true, run: waitReady},
		"remember":        {args: "KIND/NAME... | KIND", min: 1, max: -1, run: remember},
		"kept":            {args: "KIND/NAME... | KIND", min: 1, max: -1, run: kept},
		"wait-gone":       {args: "KIND/NAME...", min: 1, max: -1, waits: true, run: waitGone},
		"settle":          {args: "[DURATION]", min: 0, max: 1, waits: true, more: settleDuration, run: settle},
		"wait-event":      {args: "KIND/NAME REASON [REGEXP]", min: 2, max: 3, waits: true, run: waitEvent},
		"no-event":        {args: "KIND/NAME REASON [REGEXP]", min: 2, max: 3, run: noEvent},
		"wait-annotation": {args: "KIND/NAME KEY [VALUE]", min: 2, max: 3, waits: true, run: waitAnnotation},
		"finalizer":       {args: "add|remove KIND/NAME FINALIZER", min: 3, max: 3, run: finalizer},
		"hold-pod":        {args: "NAME", min: 1, max: 1, run: holdPod},
		"release-pod":     {args: "NAME", min: 1, max: 1, run: releasePod},
		"webhook":         {args: "down|up", min: 1, max: 1, waits: true, run: webhook},
		"pruner":          {args: "stop|start|kill [FLAG...]", min: 1, max: -1, waits: true, run: pruner},
		"controllers":     {args: "stop|start", min: 1, max: 1, waits: true, run: controllers},
		"hold":            {args: "before|after VERB RESOURCE/NAME", min: 3, max: 3, run: hold},
		"wait-held":       {min: 0, max: 0, waits: true, run: waitHeld},
		"release":         {min: 0, max: 0, run: release},
		"watches":         {args: "cut|expire|stall|heal", min: 1, max: 1, run: watches},
		"cache":           {args: "freeze|thaw", min: 1, max: 1, run: cache},
		"slow-deletes":    {args: "DURATION", min: 1, max: 1, run: slowDeletes},
		"snapshotter":     {min: 0, max: 0, waits: true, run: snapshotter},
		"sleep":           {args: "DURATION", min: 1, max: 1, run: sleep},
	}
}

// scriptCommands are the commands in the form that testscript calls.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	calls := map[string]func(*testscript.TestScript, bool, []string){"kubectl": kubectl}
	for name, c := range commands() {
		calls[name] = func(ts *testscript.TestScript, negated bool, args []string) {
			err := c.call(scriptOf(ts), negated, args)
			if errors.As(err, new(usageError)) {
				ts.Fatalf("%s: %v\nusage: %s", name, err, c.usage(name))
			}
			if err != nil {
				ts.Logf("%s", scriptOf(ts).diagnosis())
				ts.Fatalf("%s: %v", name, err)
			}
		}
	}
	return calls
}

func (c command) usage(name string) string {
	if c.waits {
		name += " [-t DURATION]"
	}
	return name + " " + c.args
}

func (c command) call(s *script, negated bool, args []string) error {
	if negated {
		// "! kept" could mean gone, replaced or being deleted: scripts say which, with a command of its own.
		return usagef("cannot be negated")
	}
	var timeout time.Duration
	if c.waits {
		var err error
		if timeout, args, err = cutTimeout(args); err != nil {
			return err
		}
	}
	if timeout == 0 {
		timeout = defaultTimeout
		if c.more != nil {
			timeout += c.more(args)
		}
	}
	if len(args) < c.min || c.max >= 0 && len(args) > c.max {
		return usagef("wrong number of arguments")
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, fmt.Errorf("not within %s", timeout))
	defer cancel()
	return c.run(ctx, s, args)
}

// cutTimeout takes "-t DURATION" out of the arguments, wherever it stands, and returns the others. Without it, the
// timeout is 0.
func cutTimeout(args []string) (timeout time.Duration, rest []string, err error) {
	for i := 0; i < len(args); i++ {
		if args[i] != "-t" {
			rest = append(rest, args[i])
			continue
		}
		if i+1 == len(args) {
			return 0, nil, usagef("-t needs a duration")
		}
		i++
		if timeout, err = positiveDuration(args[i]); err != nil {
			return 0, nil, err
		}
	}
	return timeout, rest, nil
}

func positiveDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, usagef("%q is not a duration such as 500ms, 3s or 2m", text)
	}
	return d, nil
}

// pollInterval is short enough for scripts to follow at once, and long enough for many of them to share two cores.
const pollInterval = 200 * time.Millisecond

// poll calls check until it finds nothing missing. When the time is over, the error says what was missing last.
func poll(ctx context.Context, check func(context.Context) (missing string, err error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last := "nothing was seen"
	for {
		missing, err := check(ctx)
		switch {
		case errors.As(err, new(usageError)):
			return err
		case err == nil && missing == "":
			return nil
		case err == nil:
			last = missing
		case ctx.Err() == nil: // a read that the deadline cut off says nothing new
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

func sleep(_ context.Context, _ *script, args []string) error {
	d, err := positiveDuration(args[0])
	if err != nil {
		return err
	}
	time.Sleep(d) // it is all that the command is for
	return nil
}
