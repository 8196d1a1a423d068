package e2e

import "context"

const controllerManager = "kube-controller-manager"

// webhook makes admission calls fail, or work again.
func webhook(ctx context.Context, s *script, args []string) error {
	if err := s.mayBreak("webhook"); err != nil {
		return err
	}
	switch args[0] {
	case "down":
		return s.world.pruner.WebhookDown()
	case "up":
		return s.world.pruner.WebhookUp(ctx)
	}
	return usagef("%q is neither down nor up", args[0])
}

// pruner stops the pruner, in order or not, or starts it again. Admission goes on.
func pruner(ctx context.Context, s *script, args []string) error {
	if err := s.mayBreak("pruner"); err != nil {
		return err
	}
	if args[0] != "start" && len(args) > 1 {
		return usagef("flags are for start alone")
	}
	switch args[0] {
	case "stop":
		return s.world.pruner.StopPruner(ctx)
	case "start":
		s.flagged = len(args) > 1
		return s.world.pruner.StartPruner(ctx, args[1:]...)
	case "kill":
		return s.world.pruner.KillPruner()
	}
	return usagef("%q is none of stop, start and kill", args[0])
}

// controllers stops or starts kube-controller-manager.
func controllers(ctx context.Context, s *script, args []string) error {
	if err := s.mayBreak("controllers"); err != nil {
		return err
	}
	switch args[0] {
	case "stop":
		return s.cluster.StopProgram(controllerManager)
	case "start":
		return s.cluster.StartProgram(ctx, controllerManager)
	}
	return usagef("%q is neither stop nor start", args[0])
}

// mayBreak refuses to stop what other scripts use at the same time.
func (s *script) mayBreak(what string) error {
	if s.serial {
		return nil
	}
	return usagef("only scripts in the folder serial may stop the %s: others run beside this one", what)
}
