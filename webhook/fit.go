package webhook

import (
	"strconv"
	"strings"
)

// maxWarning is how much of a warning the API server passes on, in bytes: it may cut
// what is longer (k8s.io/api/admission/v1, AdmissionResponse.Warnings).
const maxWarning = 256

// fit writes before, as many of the names as there is room for, and after. total is
// how many names there are in all.
func fit(before string, names []string, total int64, after string) string {
	list := "no claim"
	for i := range names {
		next := join(names[:i+1], total)
		if i > 0 && len(before)+len(next)+len(after) > maxWarning {
			break
		}
		list = next
	}
	return before + list + after
}

// join writes "a, b and 12 more".
func join(names []string, total int64) string {
	text := strings.Join(names, ", ")
	if rest := total - int64(len(names)); rest > 0 {
		text += " and " + strconv.FormatInt(rest, 10) + " more"
	}
	return text
}
