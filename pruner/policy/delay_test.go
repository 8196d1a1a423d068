package policy_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestParseDelayAccepts(t *testing.T) {
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		in   string
		want time.Duration
	}{
		"no delay at all":                    {"0s", 0},
		"zero in another unit":               {"0d", 0},
		"minutes":                            {"10m", 10 * time.Minute},
		"milliseconds":                       {"1500ms", 1500 * time.Millisecond},
		"more hours than a day has":          {"36h", 36 * time.Hour},
		"several of Go's units":              {"1h30m", 90 * time.Minute},
		"a fraction of one of Go's units":    {"1.5h", 90 * time.Minute},
		"a day is 24 hours":                  {"7d", 7 * day},
		"a week is 7 days":                   {"2w", 14 * day},
		"weeks, days and the rest, in order": {"1w2d3h4m5s6ms", 9*day + 3*time.Hour + 4*time.Minute + 5*time.Second + 6*time.Millisecond},
		"the longest in days":                {"3650d", policy.MaxDelay},
		"the longest in hours":               {"87600h", policy.MaxDelay},
		"the longest in parts":               {"3649d24h", policy.MaxDelay},
		"less than a millisecond":            {"0.5ms", 500 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := policy.ParseDelay(tt.in)
			if err != nil || got != tt.want {
				t.Errorf("ParseDelay(%q) = %v, %v; want %v", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestParseDelayRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"nothing":                                   "",
		"a space alone":                             " ",
		"a bare number":                             "10",
		"a bare zero":                               "0",
		"a sign":                                    "-10m",
		"a plus sign":                               "+10m",
		"a space before":                            " 10m",
		"a space between":                           "1h 30m",
		"a line end":                                "10m\n",
		"another unit":                              "1y",
		"units below milliseconds":                  "10us",
		"capital letters":                           "10M",
		"a fraction of a day":                       "1.5d",
		"days after hours":                          "1h1d",
		"weeks after days":                          "1d1w",
		"a word":                                    "never",
		"other digits than ASCII's":                 "१०m",
		"a fraction without an end":                 "1.m",
		"a millisecond above the longest":           "3650d1ms",
		"a day above the longest":                   "3651d",
		"an hour above the longest":                 "87601h",
		"hours that overflow":                       "9999999999999999h",
		"days that overflow to a negative":          "200000d",
		"days that overflow to something small":     "213504d",
		"weeks that overflow":                       "999999w999999d",
		"more digits than an overflow needs":        "99999999999999999999d",
		"an overflow in days that hours bring back": "213503d23h",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := policy.ParseDelay(in); err == nil {
				t.Errorf("ParseDelay(%q) = %v, want an error", in, got)
			}
		})
	}
}

func TestFormatDelay(t *testing.T) {
	for want, in := range map[string]time.Duration{
		"0s":            0,
		"10m":           10 * time.Minute,
		"1h30m":         90 * time.Minute,
		"1d12h":         36 * time.Hour,
		"7d":            7 * 24 * time.Hour,
		"3650d":         policy.MaxDelay,
		"1.5s":          1500 * time.Millisecond,
		"250ms":         250 * time.Millisecond,
		"0.5ms":         500 * time.Microsecond,
		"1d1h1m1s":      25*time.Hour + time.Minute + time.Second,
		"1h0.000001ms":  time.Hour + time.Nanosecond,
		"1m59.5s":       time.Minute + 59500*time.Millisecond,
		"3649d23h59m1s": policy.MaxDelay - 59*time.Second,
	} {
		t.Run(want, func(t *testing.T) {
			if got := policy.FormatDelay(in); got != want {
				t.Errorf("FormatDelay(%d) = %q", in, got)
			}
		})
	}
}

func TestEveryDelayCanBeWrittenAndReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(policy.MaxDelay)).Draw(t, "delay"))
		if got, err := policy.ParseDelay(policy.FormatDelay(d)); err != nil || got != d {
			t.Errorf("%d is written %q, which reads as %d, %v", d, policy.FormatDelay(d), got, err)
		}
	})
}

func FuzzParseDelay(f *testing.F) {
	for _, seed := range []string{
		"", "0s", "10m", "36h", "7d", "2w", "1w2d3h4m5s6ms", "1.5h", "0.5ms", "0.0000001s", "3650d", "3650d1ms",
		"200000d", "213504d", "999999w999999d", "9223372036854775807ms", "-1s", " 1s", "1h1h", "१०m", ".5s", "1e3s",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		d, err := policy.ParseDelay(in)
		if err != nil {
			return
		}
		if d < 0 || d > policy.MaxDelay {
			t.Errorf("ParseDelay(%q) = %v is out of range", in, d)
		}
		if back, err := policy.ParseDelay(policy.FormatDelay(d)); err != nil || back != d {
			t.Errorf("ParseDelay(%q) = %d is written %q, which reads as %d, %v", in, d, policy.FormatDelay(d), back, err)
		}
	})
}
