package pruner

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for name, spoil := range map[string]func(*Options){
		"no client":                            func(o *Options) { o.Client = nil },
		"no registry":                          func(o *Options) { o.Registry = nil },
		"no worker":                            func(o *Options) { o.Workers = 0 },
		"a margin shorter than one DELETE":     func(o *Options) { o.FenceMargin = deleteDeadline - 1 },
		"a margin as long as the fence stands": func(o *Options) { o.FenceMargin = policy.FenceLifetime },
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{
				Client: newFakeCluster(), Registry: prometheus.NewRegistry(), Workers: 1, FenceMargin: policy.FenceMargin, Defaults: defaults,
			}
			spoil(&o)
			if _, err := New(nil, o); err == nil || !strings.HasPrefix(err.Error(), "pruner: ") {
				t.Errorf("error %v", err)
			}
		})
	}
}
