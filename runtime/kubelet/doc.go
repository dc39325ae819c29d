// Package kubelet reads from the kubelet's configuration at which disk usage it starts to remove
// images.
//
// It writes nothing of the kubelet's. Start with GCThreshold.
package kubelet
