package webhook

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// requestLimit is how long the API server may take over the webhooks of one request:
// what the bookkeeping says of a moment further away was not written in this request.
const requestLimit = time.Minute

// foreign are the bookkeeping keys to which the author of a request gave a value:
// neither the stored one, which an UPDATE may carry along, nor the one that is due.
func (b *bookkeeper) foreign(stored, updated *appsv1.StatefulSet, want map[string]string) []string {
	var before map[string]string
	if stored != nil {
		before = stored.Annotations
		if updated.ResourceVersion != "" && updated.ResourceVersion != stored.ResourceVersion {
			return nil // built on an older version: the API server will refuse it in a moment
		}
	}
	var keys []string
	sent := map[string]string{}
	for _, key := range policy.BookkeepingKeys() {
		value, ok := updated.Annotations[key]
		if !ok {
			continue
		}
		sent[key] = value
		if value != before[key] && value != want[key] {
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 && b.answered(stored, updated, sent) {
		return nil
	}
	return keys
}

// answered says whether the bookkeeping that was sent is our own answer of a moment ago.
// The API server asks again within one request when a webhook after ours has changed the
// object, its count for example; nobody forged anything then.
func (b *bookkeeper) answered(stored, updated *appsv1.StatefulSet, sent map[string]string) bool {
	was, earlier, at := policy.ReadBookkeeping(sent), *updated, b.now()
	switch {
	case was.Window != nil && at.Sub(was.Window.Since).Abs() < requestLimit:
		at, earlier.Spec.Replicas = was.Window.Since, &was.Window.Target
	case was.Prior != nil:
		earlier.Spec.Replicas = was.Prior
	}
	answer, err := b.bookkeeping(stored, &earlier, at)
	return err == nil && maps.Equal(answer, sent)
}
