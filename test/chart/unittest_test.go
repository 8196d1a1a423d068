package chart

import (
	"os/exec"
	"testing"
)

// The suites in the chart's tests folder show what its values change, template by template.
func TestTheSuitesOfTheChartPass(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "tool", "-modfile=../tools/chart/go.mod", "helm-unittest", "--strict", chartFolder).CombinedOutput()
	if err != nil {
		t.Errorf("helm-unittest: %v\n%s", err, out)
	}
}
