// Package kubelet reads from the kubelet's configuration at which disk usage it starts to remove
// images.
//
// It does not write that configuration, and does not talk to the kubelet. Start with GCThreshold.
package kubelet
