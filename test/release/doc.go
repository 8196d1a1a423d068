// Package release tests that a release refuses what it must not be built from.
package release
