package main

import "log/slog"

// logTo logs what a pass does and what it waits for.
func (f *passFlags) logTo(log *slog.Logger) {
	f.settings.Log = log
	f.settings.Waiting = func(why error) { log.Info(why.Error() + "; waiting") }
}
