package webhook

import (
	"strconv"
	"strings"
)

// maxWarning is how much of a warning the API server passes on, in bytes: it may cut
// what is longer (k8s.io/api/admission/v1, AdmissionResponse.Warnings).
const maxWarning = 256

// fit writes before, as many of the names as there is room for but at least one, and
// after. total is how many names there are in all.
func fit(before string, names []string, total int64, after string) string {
	room := maxWarning - len(before) - len(after)
	list := join([]string{shorten(names[0], room-len(join([]string{""}, total)))}, total)
	for i := range names {
		next := join(names[:i+1], total)
		if len(next) > room {
			break
		}
		list = next
	}
	return before + list + after
}

// shorten keeps the end of a name, in which claims differ.
func shorten(name string, room int) string {
	const mark, least = "...", 16
	room = max(room, least)
	if len(name) <= room {
		return name
	}
	return mark + name[len(name)-room+len(mark):]
}

// join writes "a, b and 12 more".
func join(names []string, total int64) string {
	text := strings.Join(names, ", ")
	if rest := total - int64(len(names)); rest > 0 {
		text += " and " + strconv.FormatInt(rest, 10) + " more"
	}
	return text
}
