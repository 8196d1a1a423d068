package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// diagnosisTime bounds the reads that explain a failure.
const diagnosisTime = 20 * time.Second

// logLines is how much of the pruner's log a failure shows.
const logLines = 40

// diagnosis shows the script's namespace as it is now: sets, claims, pods and Events, and the end of the pruner's log.
func (s *script) diagnosis() string {
	ctx, cancel := context.WithTimeout(context.Background(), diagnosisTime)
	defer cancel()
	var text strings.Builder
	for _, args := range [][]string{
		{"get", "statefulsets", "-o", "wide"},
		{"get", "statefulsets", "-o", `jsonpath={range .items[*]}{.metadata.name} generation {.metadata.generation} observed {.status.observedGeneration} {.metadata.annotations}{"\n"}{end}`},
		{"get", "persistentvolumeclaims", "-o", "custom-columns=CLAIM:.metadata.name,UID:.metadata.uid,PHASE:.status.phase,CREATED:.metadata.creationTimestamp,DELETED:.metadata.deletionTimestamp,FINALIZERS:.metadata.finalizers,ANNOTATIONS:.metadata.annotations"},
		{"get", "pods", "-o", "custom-columns=POD:.metadata.name,PHASE:.status.phase,NODE:.spec.nodeName,DELETED:.metadata.deletionTimestamp,FINALIZERS:.metadata.finalizers,OWNER:.metadata.ownerReferences[*].name"},
		{"get", "events", "--sort-by=.metadata.creationTimestamp", "-o", "custom-columns=TIME:.metadata.creationTimestamp,KIND:.involvedObject.kind,NAME:.involvedObject.name,REASON:.reason,MESSAGE:.message"},
	} {
		fmt.Fprintf(&text, "--- kubectl -n %s %s %s\n%s", s.namespace, args[0], args[1], s.show(ctx, args))
	}
	fmt.Fprintf(&text, "--- the end of %s\n%s\n", s.world.pruner.LogPath("pruner"), s.world.pruner.LogTail("pruner", logLines))
	return text.String()
}

func (s *script) show(ctx context.Context, args []string) string {
	cmd := exec.CommandContext(ctx, s.cluster.Program("kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s(%v)\n", output, err)
	}
	return string(output)
}
