// Package bytesize is how sizes are written for people, and read from them: in the
// units of IEC 80000-13, as 5.7 MiB.
//
// All of pinbox uses these units and no others. They are those of Kubernetes'
// quantities, of the messages of the Machine Config Operator, and of df -h and lsblk.
// Format is for amounts of space and of work. An error about a file that is shorter than
// it has to be gives exact numbers of bytes instead, and so do JSON and YAML.
package bytesize
