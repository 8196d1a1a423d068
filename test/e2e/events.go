package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventQuery is what KIND/NAME REASON [REGEXP] asks for.
type eventQuery struct {
	object object
	reason string
	note   *regexp.Regexp
}

func (s *script) eventQuery(args []string) (eventQuery, error) {
	o, err := s.object(args[0])
	if err != nil {
		return eventQuery{}, err
	}
	pattern := ""
	if len(args) == 3 {
		pattern = args[2]
	}
	note, err := regexp.Compile(pattern)
	if err != nil {
		return eventQuery{}, usagef("%v", err)
	}
	return eventQuery{object: o, reason: args[1], note: note}, nil
}

func (q eventQuery) matches(e *eventsv1.Event) bool {
	return q.about(e) && e.Reason == q.reason && q.note.MatchString(e.Note)
}

func (q eventQuery) about(e *eventsv1.Event) bool {
	return e.Regarding.Kind == q.object.kind && e.Regarding.Name == q.object.name
}

// events lists the Events of the object's namespace. The core API's Events are the same objects: they show here too.
func (s *script) events(ctx context.Context, q eventQuery) ([]eventsv1.Event, error) {
	namespace := s.namespace
	if !q.object.namespaced {
		namespace = metav1.NamespaceDefault // where Events about cluster-scoped objects go
	}
	list, err := s.client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Events: %w", err)
	}
	return list.Items, nil
}

func waitEvent(ctx context.Context, s *script, args []string) error {
	q, err := s.eventQuery(args)
	if err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) (string, error) {
		list, err := s.events(ctx, q)
		if err != nil {
			return "", err
		}
		return q.missing(list), nil
	})
}

// missing says what there is in place of a matching Event, or "" if there is one.
func (q eventQuery) missing(list []eventsv1.Event) string {
	var others []string
	for i := range list {
		if q.matches(&list[i]) {
			return ""
		}
		if q.about(&list[i]) {
			others = append(others, fmt.Sprintf("%s (%s)", list[i].Reason, list[i].Note))
		}
	}
	return fmt.Sprintf("no Event %s with a note like %q on %s, only: %s", q.reason, q.note, q.object, strings.Join(others, "; "))
}

func noEvent(ctx context.Context, s *script, args []string) error {
	q, err := s.eventQuery(args)
	if err != nil {
		return err
	}
	list, err := s.events(ctx, q)
	if err != nil {
		return err
	}
	for i := range list {
		if q.matches(&list[i]) {
			return fmt.Errorf("there is an Event %s on %s: %s", q.reason, q.object, list[i].Note)
		}
	}
	return nil
}
