package main

import (
	"testing"
	"time"
)

func TestChangelog(t *testing.T) {
	const subjects = "squashfs: write less\nShorten lines\ncmd, builder: name a thing\nsquashfs: read less\nwhat: a: b\n"
	const want = `# v1.2.3 (2026-03-01)

## cmd, builder
- name a thing

## squashfs
- write less
- read less

## what
- a: b

## other
- Shorten lines
`
	if got := changes("v1.2.3", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), subjects); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
