//go:build nofence

package pruner

const fenced = false
