package realm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.podman.io/image/v5/docker/reference"
	dockerconfig "go.podman.io/image/v5/pkg/docker/config"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrCredentials means that the credentials for a registry cannot be read.
var ErrCredentials = fault.New(fault.Registry, "cannot be read",
	"correct the file or the helper, log in with `podman login`, or give --authfile")

// errHelperTime is why a helper was given up.
var errHelperTime = errors.New("did not answer in time")

// credentials finds the credentials for an image, as the library does, within a time: it runs helpers without any
// limit.
func credentials(
	ctx context.Context, sys *imgtypes.SystemContext, named reference.Named, limit time.Duration,
) (imgtypes.DockerAuthConfig, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errHelperTime)
		defer cancel()
	}
	secret, err := Await(ctx, func() (imgtypes.DockerAuthConfig, error) {
		return dockerconfig.GetCredentialsForRef(sys, named)
	}, func(imgtypes.DockerAuthConfig) {})
	if ctx.Err() != nil {
		endHelpers()
	}
	if err == nil || errors.Is(err, context.Canceled) {
		return secret, err
	}
	host := reference.Domain(named)
	file, _, helper := origin(sys, named)
	return secret, fmt.Errorf("the credentials for %s in %s %w: %s", host, file, ErrCredentials, reason(err, helper))
}

// reason says why credentials cannot be read. The text of the library's error is left out: it has what a helper
// printed.
func reason(err error, helper string) string {
	_, missing := exec.LookPath(helper)
	switch {
	case errors.Is(err, errHelperTime):
		return fmt.Sprintf("the helper %s %v", helper, err)
	case helper == "":
		return "they are not well-formed"
	case missing != nil:
		return fmt.Sprintf("the helper %s is not installed", helper)
	}
	return fmt.Sprintf("the helper %s fails, or prints something else than credentials", helper)
}

// Used says which credentials the library takes for an image, for messages about those that a registry refuses.
func Used(sys *imgtypes.SystemContext, named reference.Named) string {
	file, entry, helper := origin(sys, named)
	switch {
	case entry == "":
		return "there are no credentials for " + reference.Domain(named)
	case helper != "":
		return fmt.Sprintf("with the credentials of the helper %s for %s, in %s", helper, entry, file)
	}
	return fmt.Sprintf("with the credentials for %s in %s", entry, file)
}

// origin returns the file, the entry in it, and the helper, if it names one, from which the library takes the
// credentials for an image; entry is "" if there are none. A more specific entry comes first:
// containers-auth.json(5).
func origin(sys *imgtypes.SystemContext, named reference.Named) (file, entry, helper string) {
	files := []string{sys.AuthFilePath}
	if sys.AuthFilePath == "" {
		home, _ := os.UserHomeDir() // it is for a message
		config := os.Getenv("XDG_CONFIG_HOME")
		if config == "" {
			config = filepath.Join(home, ".config")
		}
		files = []string{
			os.Getenv("REGISTRY_AUTH_FILE"), filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "containers/auth.json"),
			fmt.Sprintf("/run/containers/%d/auth.json", os.Getuid()), filepath.Join(config, "containers/auth.json"),
			filepath.Join(home, ".docker/config.json"),
		}
	}
	host := reference.Domain(named)
	entries := []string{named.Name()}
	for name := named.Name(); name != host; entries = append(entries, name) {
		name = name[:strings.LastIndexByte(name, '/')]
	}
	if host == "docker.io" {
		entries = append(entries, "https://index.docker.io/v1/")
	}
	for _, file := range files {
		var content struct {
			Auths       map[string]json.RawMessage `json:"auths"`
			CredHelpers map[string]string          `json:"credHelpers"`
		}
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &content) != nil {
			continue
		}
		if strings.HasPrefix(file, "/proc/") { // a copy without broken entries
			file = "the credentials file"
		}
		if helper := content.CredHelpers[host]; helper != "" {
			return file, host, "docker-credential-" + helper
		}
		for _, entry := range entries {
			if content.Auths[entry] != nil {
				return file, entry, ""
			}
		}
	}
	return "the files of credentials", "", ""
}

// Await calls something that does not end when the context does, and gives it up then. late gets its result.
func Await[T any](ctx context.Context, do func() (T, error), late func(T)) (result T, err error) {
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome)
	go func() {
		var o outcome
		o.result, o.err = do()
		select {
		case done <- o:
		case <-ctx.Done():
			if o.err == nil {
				late(o.result)
			}
		}
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
}
