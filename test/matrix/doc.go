// Command matrix runs the end-to-end scripts on each minor of Kubernetes for which test/tools has a module, or on those
// that its arguments name, one after the other, and prints one table. It fails when a script fails on any of them, and
// when on any of them no script ran.
package main
