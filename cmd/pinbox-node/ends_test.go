package main

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Whatever a pass of the service waits for, SIGTERM ends it, and the exit code is 0: start's stop would wait for ever.
func TestRunEndsAtEachWait(t *testing.T) {
	t.Parallel()
	n, registry, access := boot(t)
	pin := push(t, registry, "app/a", 1000)
	reached := make(chan string, 16)
	listen := func(network, address, what string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				reached <- what
				t.Cleanup(func() { conn.Close() })
			}
		}()
		return l
	}
	listen("unix", n.Path("run/deaf.sock"), "CRI-O")
	_, stop := start(t, n, "run", "--set=socket="+n.Path("run/deaf.sock"), "--wait", "1h")
	<-reached
	stop()

	server := listen("tcp", "127.0.0.1:0", "server")
	n.WriteSet("s.yaml", []byte(strings.Replace(string(sample.SetNamed("s", pin)), "spec:\n", "  annotations:\n    "+
		pinset.StoreAnnotation+": https://"+server.Addr().String()+"/delta.thin\nspec:\n", 1)))
	_, stop = start(t, n, "run")
	for <-reached != "server" {
	}
	stop()

	blocked := sync.OnceFunc(func() { reached <- "registry" })
	access.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
		blocked()
		<-r.Context().Done()
		return true
	})
	n.WriteSet("s.yaml", sample.SetNamed("s", pin))
	_, stop = start(t, n, "run", "--set=stall=1h")
	for <-reached != "registry" {
	}
	stop()
}
