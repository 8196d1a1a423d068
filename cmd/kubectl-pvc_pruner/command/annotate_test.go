package command

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestEnablingSetsWhatWasGiven(t *testing.T) {
	given := map[string]*string{"delay": new("1h"), "scope": new(""), "templates": new("ignored")}
	changed := func(flag string) bool { return flag == "delay" || flag == "scope" }
	got, err := enabling(given, changed)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*string{policy.KeyEnabled: new("true"), policy.KeyDelay: new("1h"), policy.KeyScope: nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnOddValueIsRefusedBeforeItIsStored(t *testing.T) {
	if _, err := enabling(map[string]*string{"delay": new("90")}, func(f string) bool { return f == "delay" }); err == nil {
		t.Error("a delay without a unit was accepted")
	}
}

func TestThePatchCarriesOnlyTheAnnotationsAndTheUID(t *testing.T) {
	got, err := annotationPatch("u1", map[string]*string{"a": new("b"), "c": nil})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"metadata":{"annotations":{"a":"b","c":null},"uid":"u1"}}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
