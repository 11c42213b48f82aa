package main

import (
	"encoding/json"
	"errors"
	"slices"

	"culm.example/bamboo-go/peer"
	"culm.example/bamboo-go/wire"
)

func (c *checks) refusals() {
	var entries entriesFile
	c.load("entries.json", &entries)
	var all []struct {
		Name     string
		Number   int
		Holds    []uint64
		Settings settings
		Said     []struct {
			Channel string
			Bytes   wire.Hex
		}
	}
	c.load("refusals.json", &all)
	for _, one := range all {
		for _, parts := range partSizes {
			store, _ := peer.NewStore("", wire.Yamf)
			_, err := logWith(store, entries.Yamf[:len(one.Holds)])
			c.that(err == nil, "%s: %v", one.Name, err)
			session := peer.NewSession(store, false, one.Settings.real(), func(peer.Event) {})
			for _, said := range one.Said {
				if err = feed(session, said.Channel, said.Bytes, parts); err != nil {
					break
				}
			}
			var violation *peer.Violation
			c.that(errors.As(err, &violation) && violation.Number == one.Number, "%s is %02x: %v", one.Name, one.Number, err)
		}
	}
}

// feed hands a session what the other end said, in parts of any size.
func feed(session *peer.Session, channel string, bytes []byte, parts int) error {
	for part := range slices.Chunk(bytes, parts) {
		var err error
		if channel == "control" {
			err = session.ReceiveControl(part)
		} else {
			err = session.ReceiveData(part)
		}
		if err != nil {
			return err
		}
		for session.Pump() {
		}
	}
	return nil
}

// partSizes are how many bytes come at a time: every message is split everywhere.
var partSizes = []int{1 << 20, 100, 1}

// recorded is one session of sessions.json.
type recorded struct {
	Name string
	Hash string
	Ends []recordedEnd
	Said []recordedSaid
}

type recordedEnd struct {
	Role      string
	Settings  settings
	Holds     []held
	HoldsThen []struct {
		SeqNum  uint64 `json:"seq_num"`
		Payload bool
	} `json:"holds_then"`
}

type recordedSaid struct {
	From, Channel string
	Bytes         wire.Hex
	SetupBytes    int `json:"setup_bytes"`
	Messages      []json.RawMessage
	Backlink      []bool `json:"backlink_expected"`
}

// sessions plays either end of each session: it hears what the other end says, and makes the proposals
// of its own. How it says the rest is its own affair; what it holds afterwards is not.
func (c *checks) sessions() {
	var entries entriesFile
	c.load("entries.json", &entries)
	var all []recorded
	c.load("sessions.json", &all)
	for _, one := range all {
		flavour, err := wire.FlavourNamed(one.Hash)
		c.that(err == nil, "%s: %v", one.Name, err)
		for _, said := range one.Said {
			c.words(one.Name, flavour, said)
		}
		for index := range one.Ends {
			for _, parts := range partSizes {
				c.play(one, flavour, one.Ends[index], one.Ends[1-index], entries.log(flavour), parts)
			}
		}
	}
}

// words reads and writes all messages of one turn.
func (c *checks) words(name string, flavour *wire.Flavour, said recordedSaid) {
	rest, metadata := said.Bytes[said.SetupBytes:], 0
	for _, text := range said.Messages {
		if said.Channel == "control" {
			var want wire.Control
			c.that(json.Unmarshal(text, &want) == nil, "%s: %s", name, text)
			rest = rest[c.control(want, rest, flavour, name):]
			continue
		}
		var want message
		c.that(json.Unmarshal(text, &want) == nil, "%s: %s", name, text)
		backlink := false
		if want.Type == "metadata" {
			backlink = metadata < len(said.Backlink) && said.Backlink[metadata]
			metadata++
		}
		rest = rest[c.data(want, rest, flavour, backlink, name):]
	}
	c.that(len(rest) == 0, "%s: %d bytes are left", name, len(rest))
}

func (c *checks) play(one recorded, flavour *wire.Flavour, end, other recordedEnd, published []held, parts int) {
	store, _ := peer.NewStore("", flavour)
	if _, err := logWith(store, end.Holds); err != nil {
		c.that(false, "%s: %v", one.Name, err)
		return
	}
	session := peer.NewSession(store, end.Role == "proactive", end.Settings.real(), func(peer.Event) {})
	author, _, _ := wire.ReadEntry(published[0].Entry, flavour)
	log := store.Log(peer.LogName{Author: author.Author, ID: author.LogID})
	for _, said := range one.Said {
		if said.From != end.Role {
			if err := feed(session, said.Channel, said.Bytes, parts); err != nil {
				c.that(false, "%s, %s: %v", one.Name, end.Role, err)
				return
			}
			continue
		}
		for _, text := range said.Messages {
			var own wire.Control
			if said.Channel == "control" && json.Unmarshal(text, &own) == nil && own.Type == "propose" {
				_, err := session.Propose(own, peer.Both)
				c.that(err == nil, "%s, %s: %v", one.Name, end.Role, err)
			}
		}
	}
	// What nobody held at first was published by an end, or came from elsewhere, while the session went on.
	for _, then := range end.HoldsThen {
		_, payload := log.Payload(then.SeqNum)
		if then.SeqNum > uint64(max(len(end.Holds), len(other.Holds))) || (then.Payload && !payload && len(other.Holds) == 0) {
			_, err := logWith(store, published[then.SeqNum-1:then.SeqNum])
			c.that(err == nil, "%s: %v", one.Name, err)
		}
	}
	for session.Pump() {
	}
	count := uint64(0)
	for _, then := range end.HoldsThen {
		_, payload := log.Payload(then.SeqNum)
		// A payload of 0 bytes is here as soon as its entry is.
		payload = payload && (then.Payload || log.Entry(then.SeqNum).PayloadSize > 0)
		c.that(log.Entry(then.SeqNum) != nil && payload == then.Payload, "%s, %s: entry %d", one.Name, end.Role, then.SeqNum)
	}
	for seqNum := uint64(1); seqNum <= log.Tip; seqNum++ {
		if log.Entry(seqNum) != nil {
			count++
		}
	}
	c.that(count == uint64(len(end.HoldsThen)), "%s, %s: %d entries", one.Name, end.Role, count)
}
