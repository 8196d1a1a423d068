// Package webhook answers admission requests for StatefulSets and their scale
// subresource. It turns requests into questions to pruner/policy and answers back
// into admission responses.
//
// Invariants:
//
//   - Nothing is written to the API server while a request is answered. The only write
//     is the patch in the response, and it touches our bookkeeping annotations alone:
//     fields that this program's types do not know survive.
//   - Bookkeeping in a request is never believed, unless pvc-pruner itself sends it.
//   - A scale-up or scale-down is never refused because something here fails: on the
//     scale subresource every error allows.
//   - A StatefulSet whose annotations cannot be understood is refused, with what would
//     be accepted.
package webhook
