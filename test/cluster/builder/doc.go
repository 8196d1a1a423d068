// Package builder builds the control plane's programs from the tools module into a cache folder outside the clone.
//
// The folder's name carries the Kubernetes version, the platform and a hash of everything that decides what is built,
// so a change of versions builds anew and nothing is ever built twice. A program appears in the folder complete or not
// at all, and one build at a time works on it: a build that was interrupted is continued by the next.
package builder
