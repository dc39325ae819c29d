// Package kubelet reads what decides whether pods may use the images of a store: the kubelet's
// configuration, and its records of pulls.
//
// It writes neither, and does not talk to the kubelet. Start with ReadConfig and Blocking.
package kubelet
