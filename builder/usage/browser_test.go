package usage_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// browser is a Chromium that is driven by its DevTools protocol, over two pipes: messages end with a zero byte.
type browser struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	id      int
	session string
}

// openBrowser opens a page of a file in a browser. Content Security Policies do not hold for what Run runs.
func openBrowser(t *testing.T, file string) *browser {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{theirIn, theirOut}, &log // descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	b := &browser{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		_, _ = in.Close(), out.Close() // which ends it
		_ = cmd.Process.Kill()
		if _ = cmd.Wait(); t.Failed() {
			t.Logf("chromium: %s", log.String())
		}
	})
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "file://" + file}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	b.call("Page.setBypassCSP", map[string]any{"enabled": true}, nil)
	b.call("Page.reload", nil, nil)
	b.run("new Promise(done => { const wait = () => document.querySelector('.cell') ? done() : setTimeout(wait, 20); wait() })", nil)
	return b
}

// call calls a method, and waits for its result. Events are ignored.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.id++
	text, err := json.Marshal(map[string]any{"id": b.id, "method": method, "params": params, "sessionId": b.session})
	if err != nil {
		b.t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte(`,"sessionId":""`), nil)
	text = bytes.ReplaceAll(text, []byte(`"params":null,`), nil)
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		message, err := b.out.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
		var answer struct {
			ID            int
			Result, Error json.RawMessage
		}
		if err := json.Unmarshal(message[:len(message)-1], &answer); err != nil {
			b.t.Fatal(err)
		}
		if answer.ID != b.id {
			continue
		}
		if answer.Error != nil {
			b.t.Fatalf("%s: %s", method, answer.Error)
		}
		if result != nil {
			if err := json.Unmarshal(answer.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
}

// run runs a script in the page, and decodes its value, or that of its promise.
func (b *browser) run(script string, value any) {
	b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &got)
	if got.ExceptionDetails != nil {
		b.t.Fatalf("got %s", got.ExceptionDetails)
	}
	if value != nil {
		if err := json.Unmarshal(got.Result.Value, value); err != nil {
			b.t.Fatal(err)
		}
	}
}

// press presses and releases a key, as a keyboard does, and returns what has the focus then.
func (b *browser) press(key string, code int) (focused string) {
	b.t.Helper()
	params := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code}
	if key == "Enter" {
		params["text"] = "\r"
	}
	b.call("Input.dispatchKeyEvent", params, nil)
	params["type"] = "keyUp"
	b.call("Input.dispatchKeyEvent", params, nil)
	b.run("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent || ''", &focused)
	return focused
}

// The page can be used with a keyboard alone, and axe finds nothing that keeps out who uses a screen reader, or needs
// contrast: in light and dark colours, wide and narrow.
func TestPageForEveryone(t *testing.T) {
	r, _ := appliance.Registry(t)
	report := read(t, push(t, r, "a/one", []sample.Entry{
		sample.File("usr/bin/program", noise(1, 300_000)), sample.File("usr/share/data", noise(2, 200_000)),
	}), push(t, r, "a/two", []sample.Entry{sample.File("opt/other", noise(3, 250_000))}, []sample.Entry{sample.File("opt/other", "new")}))
	var page bytes.Buffer
	if err := report.HTML(&page, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, page.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	b := openBrowser(t, file)
	t.Run("keyboard", func(t *testing.T) { checkKeyboard(t, b) })
	t.Run("axe", func(t *testing.T) { checkAxe(t, b) })
}

func checkKeyboard(t *testing.T, b *browser) {
	t.Helper()
	const tab, enter, escape = 9, 13, 27
	if got := b.press("Tab", tab); !strings.Contains(got, "KiB)") {
		t.Errorf("got the focus on %q after a tab, want the folder that is shown", got)
	}
	first := b.press("Tab", tab)
	if !strings.HasPrefix(first, "open ") {
		t.Fatalf("got the focus on %q, want a folder of the treemap", first)
	}
	if got := b.press("Enter", enter); got == first {
		t.Errorf("got the focus on %q still, want it in that folder", got)
	}
	const folders = "document.querySelectorAll('#crumbs button').length"
	var shown int
	if b.run(folders, &shown); shown != 2 {
		t.Errorf("got %d folders above, want 2", shown)
	}
	b.press("Escape", escape)
	if b.run(folders, &shown); shown != 1 {
		t.Errorf("got %d folders above after Escape, want 1", shown)
	}
}

// checkAxe also checks that nothing is wider than the page.
func checkAxe(t *testing.T, b *browser) {
	t.Helper()
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	b.run(string(axe)+"; 0", nil)
	for _, width := range []int{400, 1280, 2560} {
		for _, colours := range []string{"light", "dark"} {
			b.call("Emulation.setDeviceMetricsOverride",
				map[string]any{"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false}, nil)
			b.call("Emulation.setEmulatedMedia",
				map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": colours}}}, nil)
			var violations []string
			b.run("new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f))).then(() => axe.run()).then(r => r.violations"+
				".map(v => v.id + ': ' + v.help + ': ' + v.nodes.map(n => n.html).slice(0, 3).join(' ')))", &violations)
			var overflow int
			b.run("document.documentElement.scrollWidth - document.documentElement.clientWidth", &overflow)
			if len(violations) > 0 || overflow > 0 {
				t.Errorf("%d columns, %s: got %d too wide, and of axe\n%s\nwant nothing", width, colours, overflow,
					strings.Join(violations, "\n"))
			}
		}
	}
}
