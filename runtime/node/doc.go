// Package node connects runtime with the node that Options describe: it composes CRI-O's API (cri),
// its configuration (crio), the kubelet's (kubelet), registries (registry), the read-only stores
// (stores), systemd (systemd) and the sets (watch) into a runtime.Reconciler, and has a function
// for each verb of pinbox-node: Pass, Run, Plan, Status, Attach, Rollback, ApplySets, Stores,
// Detach, DetachUnused, Compact and Mount.
//
// It decides who waits for whom: one process makes passes at a time, by a lock in the folder of the
// status; a store waits for its base; a command that changes nothing does not wait.
//
// It does not decide what a pass does: that is package runtime; nor which store may be attached or
// detached: that is runtime/stores. It prints nothing: texts are in cmd/pinbox-node.
//
// Start with Options and NewReconciler.
package node
