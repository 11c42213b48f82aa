package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"culm.example/bamboo-go/peer"
	"culm.example/bamboo-go/wire"
)

// checks counts what was tried against published vectors, and tells what went another way.
type checks struct {
	folder string
	tried  int
	failed []string
}

func (c *checks) that(holds bool, what string, details ...any) bool {
	c.tried++
	if !holds {
		c.failed = append(c.failed, fmt.Sprintf(what, details...))
	}
	return holds
}

func (c *checks) load(name string, into any) {
	text, err := os.ReadFile(filepath.Join(c.folder, name))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	c.that(err == nil, "%s: %v", name, err)
}

// held is an entry as the vectors write it.
type held struct {
	SeqNum  uint64   `json:"seq_num"`
	Entry   wire.Hex `json:"entry"`
	Hash    wire.Hex `json:"hash"`
	Payload wire.Hex `json:"payload"`
	Parts   []struct {
		Offset uint64
		Bytes  wire.Hex
	} `json:"parts"`
}

// runVectors checks this implementation against tests/vectors/bamboo_p2p.
func runVectors(folder string) int {
	c := &checks{folder: folder}
	for _, one := range []struct {
		name  string
		check func()
	}{
		{"pools.json", c.pools}, {"entries.json", c.entries}, {"messages.json", c.messages},
		{"bymux.json", c.bymux}, {"refusals.json", c.refusals}, {"sessions.json", c.sessions},
	} {
		tried, failed := c.tried, len(c.failed)
		one.check()
		tell(map[string]any{"vectors": one.name, "checks": c.tried - tried, "failed": c.failed[failed:]})
	}
	return min(len(c.failed), 1)
}

func numbers(texts []string) (all []uint64) {
	for _, text := range texts {
		number, _ := strconv.ParseUint(text, 10, 64)
		all = append(all, number)
	}
	return all
}

func (c *checks) pools() {
	var file struct {
		Pools []struct {
			N            string
			Lower, Upper []string
		}
		Paths []struct {
			Start, End string
			Path       []string
		}
	}
	c.load("pools.json", &file)
	for _, one := range file.Pools {
		n := numbers([]string{one.N})[0]
		c.that(slices.Equal(wire.LowerPool(n), numbers(one.Lower)), "lower pool of %d", n)
		c.that(slices.Equal(wire.UpperPool(n), numbers(one.Upper)), "upper pool of %d", n)
	}
	for _, one := range file.Paths {
		ends := numbers([]string{one.Start, one.End})
		c.that(slices.Equal(wire.Path(ends[0], ends[1]), numbers(one.Path)), "path %v", ends)
	}
}

type entriesFile struct {
	Yamf, Yasmf, Ended []held
	OtherBranch        held `json:"other_branch"`
}

// log is the published log of a flavour.
func (f *entriesFile) log(flavour *wire.Flavour) []held {
	if flavour == wire.Yasmf {
		return f.Yasmf
	}
	return f.Yamf
}

func (c *checks) entries() {
	var file entriesFile
	c.load("entries.json", &file)
	c.entriesOf(wire.Yamf, append(append(file.Yamf, file.Ended...), file.OtherBranch))
	c.entriesOf(wire.Yasmf, file.Yasmf)
	first, _, _ := wire.ReadEntry(file.Yamf[0].Entry, wire.Yamf)
	other, _, _ := wire.ReadEntry(file.OtherBranch.Entry, wire.Yamf)
	c.that(wire.ProveFork(first, other), "two entries 1 prove a fork")
	_, _, err := wire.ReadEntry(file.Yamf[0].Entry, wire.Yasmf)
	c.that(errors.Is(err, wire.ErrMalformed), "an entry of the other flavour: %v", err)
}

func (c *checks) entriesOf(flavour *wire.Flavour, entries []held) {
	for _, one := range entries {
		entry, used, err := wire.ReadEntry(one.Entry, flavour)
		if !c.that(err == nil && used == len(one.Entry), "entry %d: %v", one.SeqNum, err) {
			continue
		}
		bytes := entry.Bytes
		entry.Seal()
		c.that(reflect.DeepEqual(bytes, entry.Bytes), "bytes of entry %d", one.SeqNum)
		c.that(reflect.DeepEqual(one.Hash, entry.Hash), "hash of entry %d", one.SeqNum)
		c.that(entry.Verified(), "signature of entry %d", one.SeqNum)
		c.that(reflect.DeepEqual(flavour.HashOf(one.Payload), entry.PayloadHash), "payload of entry %d", one.SeqNum)
	}
}

// message is a data message with its payload bytes, as the vectors write it.
type message struct {
	wire.Data
	Bytes wire.Hex `json:"bytes"`
}

func (m *message) append(to []byte) []byte {
	switch m.Type {
	case "raw":
		m.Length = uint64(len(m.Bytes))
	case "compressed":
		m.Packed = uint64(len(m.Bytes))
	}
	return append(m.Data.Append(to), m.Bytes...)
}

func (c *checks) control(want wire.Control, bytes wire.Hex, flavour *wire.Flavour, what string) int {
	got, used, err := wire.ReadControl(bytes, flavour)
	c.that(err == nil && reflect.DeepEqual(*got, want), "%s: read %+v %v", what, got, err)
	c.that(reflect.DeepEqual(want.Append(nil), []byte(bytes[:used])), "%s: written", what)
	for count := range used {
		_, _, err := wire.ReadControl(bytes[:count], flavour)
		c.that(errors.Is(err, wire.ErrShort), "%s: %d bytes of it", what, count)
	}
	return used
}

func (c *checks) data(want message, bytes wire.Hex, flavour *wire.Flavour, backlink bool, what string) int {
	got, used, err := wire.ReadData(bytes, flavour, func() bool { return backlink })
	whole := want.append(nil)
	c.that(err == nil && reflect.DeepEqual(*got, want.Data), "%s: read %+v %v", what, got, err)
	c.that(len(bytes) >= len(whole) && reflect.DeepEqual(whole, []byte(bytes[:len(whole)])), "%s: written", what)
	for count := range used {
		_, _, err := wire.ReadData(bytes[:count], flavour, func() bool { return backlink })
		c.that(errors.Is(err, wire.ErrShort), "%s: %d bytes of it", what, count)
	}
	return len(whole)
}

// messagesFile is messages.json, or the part of it that shows the other flavour.
type messagesFile struct {
	Control []struct {
		Message wire.Control
		Bytes   wire.Hex
	}
	Data []struct {
		Message  message
		Bytes    wire.Hex
		Backlink []bool `json:"backlink_expected"`
	}
	Malformed struct{ Control, Data []wire.Hex }
}

func (c *checks) messages() {
	var file struct {
		messagesFile
		Yasmf messagesFile
		Setup []struct {
			Send, Receive string
			SendWindow    uint64 `json:"send_window"`
			ReceiveWindow uint64 `json:"receive_window"`
			Bytes         wire.Hex
		}
	}
	c.load("messages.json", &file)
	for _, one := range file.Setup {
		want := wire.Setup{SendGreedy: one.Send == "greedy", ReceiveGreedy: one.Receive == "greedy",
			SendWindow: one.SendWindow, ReceiveWindow: one.ReceiveWindow}
		got, used, err := wire.ReadSetup(one.Bytes)
		c.that(err == nil && used == len(one.Bytes) && got == want, "setup %x", []byte(one.Bytes))
		c.that(reflect.DeepEqual(want.Append(nil), []byte(one.Bytes)), "setup %x written", []byte(one.Bytes))
	}
	c.messagesOf(wire.Yamf, file.messagesFile)
	c.messagesOf(wire.Yasmf, file.Yasmf)
}

func (c *checks) messagesOf(flavour *wire.Flavour, file messagesFile) {
	for _, one := range file.Control {
		c.control(one.Message, one.Bytes, flavour, fmt.Sprintf("control %x", []byte(one.Bytes)))
	}
	for _, one := range file.Data {
		c.data(one.Message, one.Bytes, flavour, len(one.Backlink) > 0 && one.Backlink[0], fmt.Sprintf("data %x", []byte(one.Bytes)))
	}
	for _, bytes := range file.Malformed.Control {
		_, _, err := wire.ReadControl(bytes, flavour)
		c.that(errors.Is(err, wire.ErrMalformed), "control %x can become no message", []byte(bytes))
	}
	for _, bytes := range file.Malformed.Data {
		_, _, err := wire.ReadData(bytes, flavour, func() bool { return false })
		c.that(errors.Is(err, wire.ErrMalformed), "data %x can become no message", []byte(bytes))
	}
}

func (c *checks) bymux() {
	var file struct {
		Frames []struct {
			Type           string
			Stream, Amount *uint64
			Bytes, Encoded wire.Hex
		}
		EndRefuses []struct {
			Window uint64
			Bytes  wire.Hex
			Code   string
		} `json:"end_refuses"`
	}
	c.load("bymux.json", &file)
	for _, one := range file.Frames {
		head, used, err := wire.ReadFrameHead(one.Encoded)
		c.that(err == nil && head.Name() == one.Type && head.Global == (one.Stream == nil), "frame %x", []byte(one.Encoded))
		c.that(one.Stream == nil || *one.Stream == head.Stream, "stream of frame %x", []byte(one.Encoded))
		c.that(one.Amount == nil || *one.Amount == head.Amount, "amount of frame %x", []byte(one.Encoded))
		c.that(reflect.DeepEqual(head.Append(nil), []byte(one.Encoded[:used])), "frame %x written", []byte(one.Encoded))
		c.that(reflect.DeepEqual(append(wire.Hex{}, one.Encoded[used:]...), append(wire.Hex{}, one.Bytes...)), "bytes of frame %x", []byte(one.Encoded))
	}
	for _, one := range file.EndRefuses {
		err := wire.NewMux(one.Window).Receive(one.Bytes, func(uint64, []byte) error { return nil })
		c.that(err != nil && err.Error() == one.Code, "bymux %x is %s: %v", []byte(one.Bytes), one.Code, err)
	}
}

func logWith(store *peer.Store, entries []held) (log *peer.Log, err error) {
	for _, one := range entries {
		entry, _, err := wire.ReadEntry(one.Entry, store.Flavour)
		if err != nil {
			return nil, err
		}
		log = store.Log(peer.LogName{Author: entry.Author, ID: entry.LogID})
		if err := log.Add(entry); err != nil {
			return nil, err
		}
		if one.Payload != nil {
			if err := log.AddPayload(entry.SeqNum, one.Payload); err != nil {
				return nil, err
			}
		}
		for _, part := range one.Parts {
			if err := log.AddPart(entry.SeqNum, part.Offset, part.Bytes); err != nil {
				return nil, err
			}
		}
	}
	return log, nil
}

// settings as the vectors write them.
type settings struct {
	Send, Receive string
	SendWindow    uint64  `json:"send_window"`
	ReceiveWindow uint64  `json:"receive_window"`
	Credit        *uint64 `json:"credit"`
	Policy        *struct {
		Eagerness wire.Eagerness
		Threshold uint64
		MaySkip   bool `json:"may_skip"`
		Max       uint64
	}
}

func (s settings) real() peer.Settings {
	real := peer.DefaultSettings()
	real.Setup = wire.Setup{SendGreedy: s.Send == "greedy", ReceiveGreedy: s.Receive == "greedy",
		SendWindow: s.SendWindow, ReceiveWindow: s.ReceiveWindow}
	if s.Credit != nil {
		real.Credit = *s.Credit
	}
	if s.Policy != nil {
		real.Eagerness, real.Threshold = s.Policy.Eagerness, s.Policy.Threshold
		real.MaySkip, real.Max = s.Policy.MaySkip, s.Policy.Max
	}
	return real
}
