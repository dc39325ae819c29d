package node

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/atomicfile"
)

// fetches say where the attached stores came from, by their digests. They are for people only, so they are no part of
// the state.
type fetches map[digest.Digest]runtime.StoreFetch

// fetchesFile is the file in the folder of the state.
func fetchesFile(o Options) string { return filepath.Join(o.stateDir(), "fetched.json") }

// readFetches reads what is known; nothing is fine.
func readFetches(o Options) (all fetches) {
	text, err := os.ReadFile(fetchesFile(o))
	if err == nil {
		_ = json.Unmarshal(text, &all) // a damaged file says nothing
	}
	if all == nil {
		all = fetches{}
	}
	return all
}

// writeFetch adds a store, and removes those that are not attached any more.
func writeFetch(o Options, id digest.Digest, from runtime.StoreFetch) error {
	state, err := stores.ReadState(storesDir(o))
	if err != nil {
		return err
	}
	before, all := readFetches(o), fetches{}
	for _, s := range state.Stores {
		if f, ok := before[s.ID]; ok {
			all[s.ID] = f
		}
	}
	all[id] = from
	text, err := json.Marshal(all)
	if err == nil {
		_, err = atomicfile.Write(fetchesFile(o), append(text, '\n'), 0o600)
	}
	return err
}

// addFetches adds to the status of stores where they came from.
func addFetches(o Options, list []runtime.StoreStatus) {
	all := readFetches(o)
	for i, s := range list {
		if f, ok := all[digest.Digest(s.Digest)]; ok {
			list[i].Fetched = &f
		}
	}
}
