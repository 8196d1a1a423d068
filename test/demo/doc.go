// Command demo tells the main job of pvc-pruner as a story, with the real kubectl on a
// real control plane, and checks every claim that it makes. It exits non-zero if one
// does not hold. With KEEP=1 in the environment everything keeps running until Ctrl-C.
package main
