// Command bamboo-go is a second implementation of Bamboo Point-2-Point: see README.md.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"culm.example/bamboo-go/peer"
	"culm.example/bamboo-go/wire"
)

const usage = `usage:
  bamboo-go vectors DIR
  bamboo-go serve ADDRESS [options] [KEY/ID ...]    listens; the logs are what it wants itself
  bamboo-go pull ADDRESS [options] KEY/ID ...       calls, and ends when it has what it wants
`

var printing sync.Mutex

// tell prints a line of JSON.
func tell(what any) {
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	command, where := os.Args[1], os.Args[2]
	switch command {
	case "vectors":
		os.Exit(runVectors(where))
	case "serve", "pull":
		os.Exit(run(command == "pull", where, os.Args[3:]))
	}
	fmt.Fprint(os.Stderr, usage)
	os.Exit(2)
}

func run(calls bool, address string, rest []string) int {
	flags := flag.NewFlagSet("bamboo-go", flag.ExitOnError)
	folder := flags.String("dir", "", "a `folder` that keeps the logs; without it they are in memory alone")
	hashes := flags.String("flavour", "yamf", "of all hashes: yamf (BLAKE2b) or yasmf (BLAKE3)")
	seeded := flags.String("log", "", "make a log, `SEED/ID:COUNT[:BYTES]`, the same one for the same words; lines of standard input are appended to it")
	want := peer.Want{Direction: peer.Pull}
	flags.Uint64Var(&want.From, "from", 1, "the first entry that is wanted")
	flags.Uint64Var(&want.To, "to", 0, "the last one; without it, all there is")
	flags.BoolVar(&want.Sparse, "sparse", false, "of the range, only the shortest path, with what proves it")
	flags.BoolVar(&want.Proof, "proof", false, "with the pool above -to, as far as it exists")
	flags.BoolVar(&want.Live, "live", false, "stay for what is new")
	flags.StringVar((*string)(&want.Direction), "direction", "pull", "pull, push or both")
	flags.DurationVar(&want.Idle, "idle", 2*time.Second, "what may never come is given up after so long without news")
	largest := flags.Uint64("max", 64<<20, "the largest payload that is taken, in `bytes`")
	fail(flags.Parse(rest))

	flavour, err := wire.FlavourNamed(*hashes)
	fail(err)
	store, err := peer.NewStore(*folder, flavour)
	fail(err)
	hub := peer.NewHub(store, tell)
	hub.Settings.Max = *largest
	want.Max = *largest
	for _, text := range flags.Args() {
		name, err := peer.ParseLogName(text)
		fail(err)
		want.Log = name
		hub.Wants = append(hub.Wants, want)
	}
	if *seeded != "" {
		author, log, err := makeLog(store, *seeded)
		fail(err)
		tell(map[string]any{"event": "log", "log": log.Name.String(), "entries": log.Tip})
		go publish(hub, author, log)
	}
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-stopped
		os.Exit(0)
	}()
	if calls {
		return hub.Call(address)
	}
	fail(hub.Listen(address))
	return 0
}

// publish appends each line of standard input to a log; it goes out at once to whoever asked for what is new.
func publish(hub *peer.Hub, author *author, log *peer.Log) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		payload := []byte(strings.TrimSuffix(lines.Text(), "\n"))
		hub.Do(func() {
			entry, err := author.append(log, payload)
			fail(err)
			tell(peer.Event{Kind: "published", Log: log.Name.String(), SeqNum: entry.SeqNum, Hash: entry.Hash})
		})
	}
}
