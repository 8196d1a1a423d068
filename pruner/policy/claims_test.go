package policy_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestClaimAndPodNamesAreThoseOfTheStatefulSetController(t *testing.T) {
	if got := policy.ClaimName("data", "db", 10); got != "data-db-10" {
		t.Errorf("ClaimName = %q", got)
	}
	if got := policy.PodName("db", 4294967294); got != "db-4294967294" {
		t.Errorf("PodName = %q", got)
	}
}

func TestClaimOrdinal(t *testing.T) {
	for name, tt := range map[string]struct {
		claim string
		want  int64
		ok    bool
	}{
		"the first ordinal": {"data-db-0", 0, true},
		"several digits":    {"data-db-101", 101, true},
		"the highest that start and replicas can add": {"data-db-4294967294", 4294967294, true},
		"one more than that":                          {"data-db-4294967295", 0, false},
		"more digits than an ordinal has":             {"data-db-10000000000", 0, false},
		"a number that overflows 64 bits":             {"data-db-99999999999999999999", 0, false},
		"no number":                                   {"data-db-", 0, false},
		"no dash":                                     {"data-db", 0, false},
		"a leading zero":                              {"data-db-03", 0, false},
		"two zeros":                                   {"data-db-00", 0, false},
		"a minus sign":                                {"data-db--1", 0, false},
		"a plus sign":                                 {"data-db-+1", 0, false},
		"a letter":                                    {"data-db-1a", 0, false},
		"an underscore between digits":                {"data-db-1_0", 0, false},
		"other digits than ASCII's":                   {"data-db-१", 0, false},
		"a space at the end":                          {"data-db-1 ", 0, false},
		"something after the number":                  {"data-db-1-0", 0, false},
		"a longer set name":                           {"data-db-x-1", 0, false},
		"another set":                                 {"data-eb-1", 0, false},
		"another template":                            {"wal-db-1", 0, false},
		"something before the template":               {"my-data-db-1", 0, false},
		"capital letters":                             {"data-DB-1", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := policy.ClaimOrdinal(tt.claim, "data", "db")
			if got != tt.want || ok != tt.ok {
				t.Errorf("ClaimOrdinal(%q) = %d, %v; want %d, %v", tt.claim, got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestCandidate(t *testing.T) {
	type result struct {
		Template string
		Ordinal  int64
		OK       bool
	}
	for name, tt := range map[string]struct {
		set       string
		templates []string
		claim     string
		want      result
	}{
		"a claim of the only template":                   {"db", []string{"data"}, "data-db-3", result{"data", 3, true}},
		"a claim of the second template":                 {"db", []string{"data", "wal"}, "wal-db-3", result{"wal", 3, true}},
		"a template whose name begins as another does":   {"db", []string{"data", "data-db"}, "data-db-db-3", result{"data-db", 3, true}},
		"a set whose name ends in a number":              {"db-1", []string{"data"}, "data-db-1-0", result{"data", 0, true}},
		"a claim of a set whose name begins as ours":     {"db", []string{"data"}, "data-db-1-0", result{}},
		"a claim of a set whose name ends as ours":       {"db", []string{"data"}, "data-my-db-0", result{}},
		"the same claim, seen from the one set":          {"db", []string{"data-0"}, "data-0-db-3", result{"data-0", 3, true}},
		"and from the other":                             {"0-db", []string{"data"}, "data-0-db-3", result{"data", 3, true}},
		"a template that the set does not have any more": {"db", []string{"data2"}, "data-db-3", result{}},
		"a set without templates":                        {"db", nil, "data-db-3", result{}},
		"a name that is our pod's":                       {"db", []string{"data"}, "db-3", result{}},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.StatefulSet{}
			set.Name = tt.set
			set.Spec.VolumeClaimTemplates = templates(tt.templates...)
			var got result
			got.Template, got.Ordinal, got.OK = policy.Candidate(set, tt.claim)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Candidate(%q) (-want +got):\n%s", tt.claim, diff)
			}
		})
	}
}

func TestClaimNames(t *testing.T) {
	type result struct {
		Names []string
		Total int64
	}
	for name, tt := range map[string]struct {
		templates       []string
		from, to, limit int64
		want            result
	}{
		"each template of each ordinal, ascending": {[]string{"data", "wal"}, 9, 11, 20, result{[]string{"data-db-9", "wal-db-9", "data-db-10", "wal-db-10"}, 4}},
		"no more than the limit, but all counted":  {[]string{"data", "wal"}, 0, 10, 3, result{[]string{"data-db-0", "wal-db-0", "data-db-1"}, 20}},
		"exactly the limit":                        {[]string{"data"}, 3, 5, 2, result{[]string{"data-db-3", "data-db-4"}, 2}},
		"a limit of none":                          {[]string{"data"}, 3, 5, 0, result{nil, 2}},
		"an empty range":                           {[]string{"data"}, 3, 3, 20, result{nil, 0}},
		"a range that ends before it begins":       {[]string{"data"}, 5, 3, 20, result{nil, 0}},
		"a range without an end":                   {[]string{"data"}, 3, -1, 20, result{nil, 0}},
		"a range too large to be gone through":     {[]string{"data", "wal"}, 0, math.MaxInt32, 1, result{[]string{"data-db-0"}, 2 * math.MaxInt32}},
		"a set without templates":                  {nil, 3, 5, 20, result{nil, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet(1)
			set.Spec.VolumeClaimTemplates = templates(tt.templates...)
			var got result
			got.Names, got.Total = policy.ClaimNames(set, tt.from, tt.to, int(tt.limit))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ClaimNames (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplicasAndStart(t *testing.T) {
	type result struct {
		Replicas int32
		OK       bool
		Start    int32
	}
	for name, tt := range map[string]struct {
		set  *appsv1.StatefulSet
		want result
	}{
		"a count and no ordinals":               {newSet(3), result{3, true, 0}},
		"a count of zero is a count":            {newSet(0), result{0, true, 0}},
		"a start":                               {newSet(3, startingAt(100)), result{3, true, 100}},
		"no count at all is not taken for any":  {newSet(3, noReplicas), result{0, false, 0}},
		"a negative count is not taken for any": {newSet(-1), result{0, false, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var got result
			got.Replicas, got.OK = policy.Replicas(tt.set)
			got.Start = policy.Start(tt.set)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzClaimOrdinal(f *testing.F) {
	for _, seed := range [][3]string{
		{"data-db-0", "data", "db"},
		{"data-db-4294967294", "data", "db"},
		{"data-db-4294967295", "data", "db"},
		{"data-db-03", "data", "db"},
		{"data-db-00", "data", "db"},
		{"data-db--1", "data", "db"},
		{"data-db-+1", "data", "db"},
		{"data-db-1-0", "data", "db-1"},
		{"data-0-db-3", "data-0", "db"},
		{"--1", "", ""},
		{"data-db-१", "data", "db"},
		{"data-db-99999999999999999999", "data", "db"},
		{"data-db-1_0", "data", "db"},
		{"a.b-c.d-7", "a.b", "c.d"},
	} {
		f.Add(seed[0], seed[1], seed[2], uint32(7))
	}
	f.Fuzz(func(t *testing.T, claim, template, set string, ordinal uint32) {
		if n, ok := policy.ClaimOrdinal(claim, template, set); ok {
			if built := policy.ClaimName(template, set, n); built != claim {
				t.Errorf("%q is taken for ordinal %d, whose claim is %q", claim, n, built)
			}
			if digits := claim[strings.LastIndex(claim, "-")+1:]; len(digits) > 1 && digits[0] == '0' {
				t.Errorf("%q has a leading zero and is taken for ordinal %d", claim, n)
			}
			if n < 0 || n > 2*math.MaxInt32 {
				t.Errorf("%q is taken for ordinal %d, which no set can have", claim, n)
			}
		}
		built := policy.ClaimName(template, set, int64(ordinal))
		if n, ok := policy.ClaimOrdinal(built, template, set); ok != (int64(ordinal) <= 2*math.MaxInt32) || ok && n != int64(ordinal) {
			t.Errorf("%q, built for ordinal %d, is taken for %d, %v", built, ordinal, n, ok)
		}
	})
}
