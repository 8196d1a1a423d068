package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// MaxDelay is the longest undo window that is accepted: ten years. Beyond it a
// value is more likely a slip than a wish, and sums of times stay in range.
const MaxDelay = 3650 * day

const day = 24 * time.Hour

var errDelay = errors.New(`accepted are durations such as "0s", "30m", "36h", "1h30m", "7d" or "2w" (units w d h m s ms), from 0s up to 3650d`)

var delayParts = regexp.MustCompile(`^(?:([0-9]{1,6})w)?(?:([0-9]{1,6})d)?((?:[0-9]+(?:\.[0-9]+)?(?:h|m|s|ms))*)$`)

// ParseDelay reads a duration: Go's units from ms to h, and before them whole
// days (d, 24 hours) and weeks (w, 7 days). A bare number, a sign or any space is an error.
func ParseDelay(s string) (time.Duration, error) {
	parts := delayParts.FindStringSubmatch(s)
	if s == "" || parts == nil {
		return 0, errDelay
	}
	// Checked before it is multiplied: an overflow would turn a delay of centuries
	// into none at all.
	days := 7*atoi(parts[1]) + atoi(parts[2])
	if days > int64(MaxDelay/day) {
		return 0, errDelay
	}
	total := day * time.Duration(days)
	if parts[3] != "" {
		rest, err := time.ParseDuration(parts[3])
		if err != nil || rest < 0 || rest > MaxDelay-total {
			return 0, errDelay
		}
		total += rest
	}
	return total, nil
}

// atoi reads at most six digits, which the pattern guarantees; none is 0.
func atoi(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// FormatDelay writes a duration as people do: "10m", "1h30m", "7d". ParseDelay reads it back.
func FormatDelay(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	out := ""
	if d >= day {
		out, d = fmt.Sprintf("%dd", d/day), d%day
	}
	if h := d / time.Hour; h > 0 {
		out, d = out+fmt.Sprintf("%dh", h), d%time.Hour
	}
	if m := d / time.Minute; m > 0 {
		out, d = out+fmt.Sprintf("%dm", m), d%time.Minute
	}
	switch {
	case d >= time.Millisecond:
		out += d.String()
	case d > 0: // a fraction of the smallest unit that is accepted
		out += strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + "ms"
	}
	return out
}
