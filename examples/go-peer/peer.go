package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// Messages, by their first item.
const (
	announce    = 0
	syncRequest = 1
	entryOf     = 2
	syncDone    = 3
	have        = 10
)

// session is what goes on under one session id.
type session struct {
	asked, planned, done, live bool    // we asked; we know what they lack; they have said all; both said true
	unsent                     []entry // published since the plan was made
}

// peer is one side of a connection: what it holds of its one schema, and the sessions about it.
type peer struct {
	key      ed25519.PrivateKey
	schema   string
	out      *cbor.Encoder
	heights  map[logName]uint64
	own      []entry
	sessions map[uint64]*session
}

func newPeer(key ed25519.PrivateKey, schema string, out *cbor.Encoder) *peer {
	return &peer{key, schema, out, map[logName]uint64{}, nil, map[uint64]*session{}}
}

// send says something; a connection that is broken is noticed where its messages are received.
func (p *peer) send(items ...any) { p.out.Encode(items) }

// begin announces the schema. Who dialled asks for a session at once: the request waits for their announcement.
func (p *peer) begin(dialled bool) {
	p.send(announce, 1, time.Now().UnixMilli(), []string{p.schema})
	if dialled {
		p.sessions[0] = &session{asked: true}
		p.send(syncRequest, 0, 0, []string{p.schema})
	}
}

func (p *peer) leave() {
	for id := range p.sessions {
		p.send(syncDone, id, false)
	}
}

// take acts on one message.
func (p *peer) take(message []byte) error {
	var items []cbor.RawMessage
	var kind, id uint64
	if err := cbor.Unmarshal(message, &items); err != nil || len(message) > maxMessage || len(items) < 2 {
		return errors.New("a message is an array")
	}
	if err := read(items, &kind, &id); err != nil {
		return err
	}
	s := p.sessions[id]
	switch {
	case kind == announce:
		return nil // nothing here depends on their interest
	case kind == syncRequest:
		return p.takeRequest(id, items)
	case s == nil:
		return nil // of a session that is over
	case kind == entryOf:
		return p.takeEntry(items)
	case kind == have:
		return p.takeHave(id, s, items)
	case kind == syncDone:
		return p.takeDone(id, s, items)
	}
	return fmt.Errorf("messages of type %d are not known", kind)
}

// read takes as many items as there are places for them.
func read(items []cbor.RawMessage, places ...any) error {
	if len(items) < len(places) {
		return errors.New("a message is too short")
	}
	for i, place := range places {
		if err := cbor.Unmarshal(items[i], place); err != nil {
			return err
		}
	}
	return nil
}

func (p *peer) takeRequest(id uint64, items []cbor.RawMessage) error {
	var mode uint64
	var schemas []string
	if err := read(items[2:], &mode, &schemas); err != nil {
		return err
	}
	switch {
	case p.sessions[id] != nil || !slices.Equal(schemas, []string{p.schema}): // passed over
	case mode != 0:
		p.send(syncDone, id, false)
	default:
		p.sessions[id] = &session{}
		p.sendHave(id)
	}
	return nil
}

func (p *peer) sendHave(id uint64) {
	flat := []any{}
	for name, height := range p.heights {
		flat = append(flat, name.author, name.id, height)
	}
	p.send(have, id, flat)
}

// takeHave makes the plan: what they lack goes out, and SyncDone behind it.
func (p *peer) takeHave(id uint64, s *session, items []cbor.RawMessage) error {
	var flat []cbor.RawMessage
	if err := read(items[2:], &flat); err != nil || len(flat)%3 != 0 || s.planned {
		return errors.New("one Have a session, with three items a log")
	}
	theirs := map[logName]uint64{}
	for ; len(flat) > 0; flat = flat[3:] {
		var name logName
		var height uint64
		if err := read(flat, &name.author, &name.id, &height); err != nil {
			return err
		}
		theirs[name] = height
	}
	if s.asked {
		p.sendHave(id)
	}
	for _, e := range p.own {
		if e.seqNum > theirs[e.log] {
			p.send(entryOf, id, e.bytes, e.operation)
		}
	}
	p.send(syncDone, id, true)
	s.planned = true
	p.goLive(id, s)
	return nil
}

func (p *peer) takeDone(id uint64, s *session, items []cbor.RawMessage) error {
	var goesOn bool
	if err := read(items[2:], &goesOn); err != nil {
		return err
	}
	if !goesOn {
		fmt.Println("over", id)
		delete(p.sessions, id)
		return nil
	}
	s.done = true
	p.goLive(id, s)
	return nil
}

func (p *peer) goLive(id uint64, s *session) {
	if s.live || !s.planned || !s.done {
		return
	}
	s.live = true
	fmt.Println("live", id)
	for _, e := range s.unsent {
		p.send(entryOf, id, e.bytes, e.operation)
	}
}

func (p *peer) takeEntry(items []cbor.RawMessage) error {
	var e entry
	if err := read(items[2:], &e.bytes, &e.operation); err != nil {
		return err
	}
	if err := e.check(); err != nil {
		return err
	}
	if e.seqNum <= p.heights[e.log] {
		return nil // it came before
	}
	p.heights[e.log] = e.seqNum
	shown, err := cbor.Diagnose(e.operation)
	fmt.Printf("entry %s %d %d %x %s\n", e.log.author, e.log.id, e.seqNum, hashOf(e.bytes), shown)
	return err
}

// publish makes a document of "name=value", and sends it to where we are live.
func (p *peer) publish(line string) error {
	e, err := newDocument(p.key, uint64(time.Now().UnixNano()), p.schema, line)
	if err != nil {
		return err
	}
	p.own = append(p.own, e)
	p.heights[e.log] = e.seqNum
	fmt.Printf("published %d %x\n", e.log.id, hashOf(e.bytes))
	for id, s := range p.sessions {
		if s.live {
			p.send(entryOf, id, e.bytes, e.operation)
		} else if s.planned {
			s.unsent = append(s.unsent, e)
		}
	}
	return nil
}
