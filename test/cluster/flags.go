package cluster

import (
	"path/filepath"
	"slices"
	"strconv"
)

// flagInputs is what the programs' flags are made of.
type flagInputs struct {
	kubeconfig     string // of an admin
	signingKey     string // of service account tokens
	apiServerCA    string
	volumePlugins  string // an empty folder
	stages         string // kwok's
	schedulerCerts string
	managerCerts   string
	managerFlags   []string // further ones
}

// The default of 20 requests per second dominates whatever is measured or awaited: 100 StatefulSets of 3 claims take
// 37 s instead of 8 s.
func unthrottled() []string { return []string{"--kube-api-qps=1000", "--kube-api-burst=2000"} }

func controllerManagerFlags(in flagInputs, port int) []string {
	return slices.Concat(unthrottled(), []string{
		"--kubeconfig=" + in.kubeconfig,
		"--authentication-kubeconfig=" + in.kubeconfig,
		"--authorization-kubeconfig=" + in.kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + in.managerCerts,
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + in.signingKey,
		"--root-ca-file=" + in.apiServerCA,
		// Real volumes: folders of this host that are made and removed with their PersistentVolume.
		"--enable-hostpath-provisioner",
		// The default is a folder of the system that we have no business in.
		"--flex-volume-plugin-dir=" + in.volumePlugins,
		"--horizontal-pod-autoscaler-sync-period=2s",
		// A starved kwok on a busy machine must not play a dead node.
		"--node-monitor-grace-period=5m",
	}, in.managerFlags)
}

func schedulerFlags(in flagInputs, port int) []string {
	return append(
		unthrottled(),
		"--kubeconfig="+in.kubeconfig,
		"--authentication-kubeconfig="+in.kubeconfig,
		"--authorization-kubeconfig="+in.kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(port),
		"--cert-dir="+in.schedulerCerts,
		"--leader-elect=false",
	)
}

func kwokFlags(in flagInputs, _ int) []string {
	return []string{
		"--kubeconfig=" + in.kubeconfig,
		"--manage-all-nodes",
		"--config=" + in.stages,
		// The default range has room for 254 pods.
		"--cidr=10.64.0.0/12",
		// With leases, a restarted kwok plays no pod until the lease of its predecessor has run out. The heartbeat stage
		// keeps nodes Ready.
		"--node-lease-duration-seconds=0",
	}
}

func stagesFile(programs string) string { return filepath.Join(programs, "stages.yaml") }
