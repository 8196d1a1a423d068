package command

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

type planOptions struct {
	*environment
	selection
	output
	unused bool
}

func (e *environment) newPlan() *cobra.Command {
	o := &planOptions{environment: e}
	cmd := &cobra.Command{
		Use:   "plan [SET...]",
		Short: "Show what becomes of each claim, when, and why",
		Long: `Shows each claim of StatefulSets with its verdict: Delete (it goes now), Wait (it goes
later, or something stands in the way), or Keep. For a set that is not opted in it shows what
would happen if it were, with scope "all".

--unused finds the claims that no replica uses, also those whose StatefulSet is gone, the
biggest first.`,
		Example: `  kubectl pvc-pruner plan db
  kubectl pvc-pruner plan -A --unused`,
		ValidArgsFunction: e.completeSets,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(e, args); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.selection.addFlags(cmd)
	o.addFlag(cmd, outputTable, outputWide, outputJSON, outputYAML, outputName)
	cmd.Flags().BoolVar(&o.unused, "unused", false, "only claims that no replica uses, the biggest first")
	return cmd
}

func (o *planOptions) validate() error {
	if o.unused && (len(o.names) > 0 || o.selector != "") {
		return usagef("--unused looks at whole namespaces: it takes neither names nor --selector")
	}
	if err := o.selection.validate(); err != nil {
		return err
	}
	return o.output.validate()
}

func (o *planOptions) run(ctx context.Context) error {
	r, err := o.newReader(ctx)
	if err != nil {
		return err
	}
	if o.unused {
		unused, err := r.findUnused(ctx, o.selection.namespace)
		if err != nil {
			return err
		}
		return o.printUnused(unused)
	}
	plans, err := r.plans(ctx, &o.selection)
	if err != nil {
		return err
	}
	return o.print(plans)
}

// plans of the selected sets.
func (r *reader) plans(ctx context.Context, which *selection) ([]SetPlan, error) {
	sets, err := which.list(ctx, r.client)
	if err != nil {
		return nil, err
	}
	plans := []SetPlan{}
	for i := range sets {
		s, err := r.namespaceOf(ctx, sets[i].Namespace)
		if err != nil {
			return nil, err
		}
		plans = append(plans, Foresee(s, &sets[i], r.reclaim, r.now()))
	}
	return plans, nil
}

// list is what JSON and YAML show.
type list struct {
	Kind  string `json:"kind"`
	Items any    `json:"items"`
}

func (o *planOptions) print(plans []SetPlan) error {
	if o.structured() {
		return o.encode(o.Out, list{Kind: "PlanList", Items: plans})
	}
	for i, p := range plans {
		if o.form == outputName {
			o.printNames(p.Claims)
			continue
		}
		if i > 0 {
			fmt.Fprintln(o.Out)
		}
		fmt.Fprintln(o.Out, p.title())
		t := table{header: o.header()}
		for _, c := range p.Claims {
			t.add(colourOf(c.Verdict), o.cells(c)...)
		}
		t.print(o.Out, o.colours(o.Out))
		fmt.Fprintf(o.Out, "now %s, soon %s, kept %s\n", bytesText(p.Totals.Now), bytesText(p.Totals.Soon), bytesText(p.Totals.Kept))
	}
	if len(plans) == 0 && o.form != outputName {
		fmt.Fprintln(o.ErrOut, "No StatefulSets found.")
	}
	return nil
}

// printNames prints the claims that go now or later, for scripts.
func (o *planOptions) printNames(claims []ClaimPlan) {
	for _, c := range claims {
		if c.Verdict != policy.Keep {
			fmt.Fprintln(o.Out, "persistentvolumeclaim/"+c.Name)
		}
	}
}

func (p SetPlan) title() string {
	text := fmt.Sprintf("StatefulSet %s/%s, replicas %d: ", p.Namespace, p.StatefulSet, p.Replicas)
	if p.Hypothetical {
		text += "not opted in, nothing is deleted. If you opted in now with scope=all: "
	}
	if p.Held == nil {
		return text + "claims with the verdict Delete go now"
	}
	return text + p.Held.Message
}

func (o *planOptions) header() []string {
	header := []string{"CLAIM", "ORDINAL", "SIZE", "CLASS", "RECLAIM", "VERDICT", "REASON", "WHEN"}
	if o.form == outputWide {
		header = append(header, "BECAUSE", "DECIDED BY")
	}
	return header
}

func (o *planOptions) cells(c ClaimPlan) []string {
	ordinal := strconv.FormatInt(c.Ordinal, 10)
	if c.Ordinal < 0 {
		ordinal = "-"
	}
	cells := []string{
		c.Name, ordinal, bytesText(c.Bytes), dash(c.StorageClass), dash(c.ReclaimPolicy),
		string(c.Verdict), string(c.Reason), whenText(c.Verdict, c.When, o.now()),
	}
	if o.form == outputWide {
		cells = append(cells, dash(c.Message), dash(c.Subject))
	}
	return cells
}

func (o *planOptions) printUnused(unused []UnusedClaim) error {
	if o.structured() {
		return o.encode(o.Out, list{Kind: "UnusedClaimList", Items: unused})
	}
	t := table{header: append([]string{"NAMESPACE", "STATEFULSET"}, o.header()...)}
	var bytes int64
	for _, u := range unused {
		if o.form == outputName {
			fmt.Fprintln(o.Out, "persistentvolumeclaim/"+u.Name)
			continue
		}
		bytes += u.Bytes
		t.add(colourOf(u.Verdict), append([]string{u.Namespace, dash(u.StatefulSet)}, o.cells(u.ClaimPlan)...)...)
	}
	if o.form == outputName {
		return nil
	}
	t.print(o.Out, o.colours(o.Out))
	fmt.Fprintf(o.Out, "%d unused claims hold %s\n", len(unused), bytesText(bytes))
	return nil
}

func colourOf(d policy.Decision) colour {
	switch d {
	case policy.Delete:
		return red
	case policy.Wait:
		return yellow
	case policy.Keep:
	}
	return plain
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func bytesText(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

// whenText is when a claim goes, as a countdown.
func whenText(d policy.Decision, at *metav1.Time, now time.Time) string {
	switch {
	case d == policy.Delete:
		return "now"
	case d == policy.Keep || at == nil:
		return "-"
	}
	return "in " + duration.HumanDuration(max(at.Sub(now), 0))
}
