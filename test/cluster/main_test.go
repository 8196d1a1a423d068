package cluster_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
)

// TestMain serves as the victim of TestNothingOutlivesAKilledOwner: the test binary runs itself again with this
// variable set, and is then killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CLUSTER_TEST_VICTIM"); dir != "" {
		victim(dir)
	}
	os.Exit(m.Run())
}

// victim starts a cluster, says where, and waits to be killed.
func victim(programs string) {
	c, err := cluster.Start(context.Background(), cluster.Options{Programs: programs, Nodes: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if _, err := makeClaim(context.Background(), c, "victim"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(c.Dir())
	<-time.After(time.Minute)
	os.Exit(1)
}
