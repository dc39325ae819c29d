package storage

import (
	"errors"
	"net/http"
	"testing"
)

// An error is classified where a place is asked, and again where all places are reported: it says once what it is.
func TestErrorsAreClassifiedOnce(t *testing.T) {
	for status, want := range map[int]error{
		http.StatusNotFound: ErrNotFound, http.StatusGone: ErrNotFound, http.StatusForbidden: ErrUnauthorized,
	} {
		once := classify(t.Context(), answerError{errors.New("manifest unknown"), status})
		if again := classify(t.Context(), once); !errors.Is(once, want) || again.Error() != once.Error() {
			t.Errorf("got %v, want %v", again, once)
		}
	}
}
