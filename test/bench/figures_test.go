package main

import (
	"testing"
	"time"
)

func TestQuantileIsOneOfTheValues(t *testing.T) {
	for name, c := range map[string]struct {
		values []int
		q      float64
		want   int
	}{
		"of none":             {nil, 0.5, 0},
		"of one":              {[]int{7}, 0.99, 7},
		"median of three":     {[]int{9, 1, 5}, 0.5, 5},
		"lower median of two": {[]int{2, 1}, 0.5, 1},
		"p99 of hundred":      {hundred(), 0.99, 99},
	} {
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func hundred() (values []int) {
	for i := range 100 {
		values = append(values, 100-i)
	}
	return values
}

func TestLine(t *testing.T) {
	f := figure{name: "reclaim/b/total", value: milliseconds(1500 * time.Millisecond), unit: "ms", base: 3000}
	if got, want := f.line(), "bench reclaim/b/total 1500 ms ratio=0.50"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
