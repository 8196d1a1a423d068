//go:build !nofence

package pruner

// fenced is false only in a test build, which shows that what the fence prevents
// happens without it.
const fenced = true
