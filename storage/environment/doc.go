// Package environment prepares the environment that the containers libraries use: the home
// directory, environment variables, /proc and the directory for temporary files. In containers and
// chroots, where these are missing, the libraries fail or look in the wrong directory.
//
// It does not read pinbox's own configuration.
//
// Start with Prepare, which a program calls before it uses the libraries.
package environment
