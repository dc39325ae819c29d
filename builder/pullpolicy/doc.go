// Package pullpolicy renders the admission policies by which a cluster starts pods from the stores of its nodes
// although their pull policy is Always, which asks the registry at each start.
//
// It does not find such pods in manifests, which package builder/lint does.
//
// Start at Manifests.
package pullpolicy
