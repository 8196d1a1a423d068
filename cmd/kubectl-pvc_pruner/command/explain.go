package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// Explanation is everything that decides on one claim.
type Explanation struct {
	Namespace   string `json:"namespace"`
	StatefulSet string `json:"statefulSet"`
	// ScaledBy is the field manager that last set spec.replicas; "" where the object does not
	// tell, as after a change through the scale subresource.
	ScaledBy     string         `json:"scaledBy,omitempty"`
	Hypothetical bool           `json:"hypothetical,omitempty"`
	Gates        []policy.Check `json:"gates"`
	Claim        ClaimPlan      `json:"claim"`
}

type explainOptions struct {
	*environment
	output
	set, claim string
}

func (e *environment) newExplain() *cobra.Command {
	o := &explainOptions{environment: e}
	cmd := &cobra.Command{
		Use:     "explain SET PVC",
		Short:   "Show every gate that a claim has to pass, and which object decides it",
		Example: "  kubectl pvc-pruner explain db data-db-3",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return e.completeSets(cmd, args, begun)
			case 1:
				return e.completeClaims(cmd, nil, begun)
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("explain takes a StatefulSet and one of its claims, such as: explain db data-db-3")
			}
			o.set, o.claim = args[0], args[1]
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.addFlag(cmd, outputTable, outputJSON, outputYAML)
	return cmd
}

func (o *explainOptions) run(ctx context.Context) error {
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	r, err := o.newReader(ctx)
	if err != nil {
		return err
	}
	set, err := r.client.AppsV1().StatefulSets(namespace).Get(ctx, o.set, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return notFoundf("no StatefulSet %q in namespace %s", o.set, namespace)
	}
	if err != nil {
		return fmt.Errorf("get StatefulSet: %w", err)
	}
	s, err := r.namespaceOf(ctx, namespace)
	if err != nil {
		return err
	}
	x, err := r.explain(s, set, o.claim)
	if err != nil {
		return err
	}
	return o.print(x)
}

// explain finds the claim and asks every gate about it.
func (r *reader) explain(s policy.Snapshot, set *appsv1.StatefulSet, name string) (*Explanation, error) {
	if _, _, ok := policy.Candidate(set, name); !ok {
		return nil, notFoundf("%q is no name that StatefulSet %s gives to a claim", name, set.Name)
	}
	shown := Foresee(s, set, r.reclaim, r.now())
	plan, hypothetical := policyPlan(set, r.now())
	s.Set = plan.Set
	if plan.Controls.IgnoreWorkloads {
		s.Workloads = nil
	}
	x := &Explanation{
		Namespace: set.Namespace, StatefulSet: set.Name, ScaledBy: policy.ReplicasManager(set), Hypothetical: hypothetical,
		Gates: append(plan.CheckSet(set.UID, r.now()), plan.CheckClaim(s, findClaim(s, name))...),
	}
	for _, c := range shown.Claims {
		if c.Name == name {
			x.Claim = c
			return x, nil
		}
	}
	return nil, notFoundf("no PersistentVolumeClaim %q in namespace %s", name, set.Namespace)
}

func findClaim(s policy.Snapshot, name string) *corev1.PersistentVolumeClaim {
	for i := range s.Claims {
		if s.Claims[i].Name == name {
			return &s.Claims[i]
		}
	}
	return nil
}

func (o *explainOptions) print(x *Explanation) error {
	if o.structured() {
		return o.encode(o.Out, x)
	}
	fmt.Fprintf(o.Out, "Claim %s of StatefulSet %s/%s: %s (%s)", x.Claim.Name, x.Namespace, x.StatefulSet, x.Claim.Verdict, x.Claim.Reason)
	if x.Claim.When != nil {
		fmt.Fprintf(o.Out, ", %s", whenText(x.Claim.Verdict, x.Claim.When, o.now()))
	}
	fmt.Fprintln(o.Out)
	if x.Hypothetical {
		fmt.Fprintln(o.Out, "The set is not opted in: this is what would hold if it were, with scope=all.")
	}
	if x.ScaledBy != "" {
		fmt.Fprintf(o.Out, "Replicas last written on the object by: %s\n", x.ScaledBy)
	} else {
		fmt.Fprintln(o.Out, "Who scaled it: the object does not tell, as after kubectl scale or an autoscaler; the audit log of the API server does.")
	}
	fmt.Fprintln(o.Out)
	t := table{header: []string{"GATE", "PASSED", "DECIDED BY", "BECAUSE"}}
	for _, g := range x.Gates {
		passed, c := "yes", plain
		if !g.Passed {
			passed, c = "NO", yellow
		}
		t.add(c, g.Gate, passed, dash(g.Subject), dash(g.Message))
	}
	t.print(o.Out, o.colours(o.Out))
	return nil
}
