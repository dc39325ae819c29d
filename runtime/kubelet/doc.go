// Package kubelet reads what decides whether pods may use the images of a store: the kubelet's
// configuration, and its records of pulls. It removes records of pulls that did not end.
//
// It does not write the configuration, and does not talk to the kubelet. Start with ReadConfig,
// Blocking and Mender.
package kubelet
