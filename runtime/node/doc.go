// Package node puts a node together from its Options: it composes CRI-O's API (cri), its
// configuration (crio), the kubelet's (kubelet), registries (registry), the read-only stores
// (stores), systemd (systemd) and the sets (watch) into a runtime.Reconciler, and has a
// function for each verb of pinbox-node: Pass, Run, Plan, Status, Attach, Rollback, ApplySets,
// Stores, Detach, DetachUnused, Compact and Mount.
//
// It decides who waits for whom: one process makes passes at a time, by a lock beside the
// status; a store waits for its base; a command that only looks waits for nobody.
//
// It does not decide what a pass does, which package runtime does, nor which store may come or
// go, which runtime/stores does. It prints nothing: the words are in cmd/pinbox-node.
//
// Start with Options and NewReconciler.
package node
