// Command soak scales many StatefulSets up and down at random moments through every
// path, while pvc-pruner prunes them, and lets an independent observer judge. It exits
// non-zero if a claim was deleted that had to stay, or one is left that had to go.
//
// The observer (test/observer) shares no code with the product.
package main
