// Package node is one opened node. Open returns a Node for Settings, and each verb of pinbox-node is a method of Node:
// Pass, Run, Plan, Status, Attach, Rollback, ApplySets, Stores, Contents, Detach, DetachUnused, DetachAll, Compact,
// CopyVolumes, Verify and Mount.
//
// For a pass, machine is the node as runtime's reconciler sees it: it composes CRI-O's API (cri), its configuration
// (crio), the kubelet's (kubelet), registries (registry), the read-only stores (stores) and the sets (watch).
//
// A Node decides who waits for whom: one process makes passes at a time, by a lock in the folder of the
// status; a store waits for its base; a command that changes nothing does not wait.
//
// It does not decide what a pass does: that is package runtime; nor which store may be attached or
// detached: that is runtime/stores. It prints nothing: texts are in cmd/pinbox-node.
package node
