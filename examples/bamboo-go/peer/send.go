package peer

import (
	"culm.example/bamboo-go/wire"
)

const (
	turnBytes = 64 << 10
	partBytes = 32 << 10
)

// What an end does about a piece at its cursor.
type step int

const (
	stop    step = iota // it lacks it, and cannot go on
	data                // it sends it
	note                // it holds it, and the other end wants to hear of it alone
	catchUp             // the other end has passed it
	tooSmall
	tooLarge
	lacking
)

// Pump writes what there is to send into Data, about a turn of one request; it says whether there was any.
func (s *Session) Pump() bool {
	if s.peer == nil {
		return false
	}
	for range len(s.active) {
		s.turn++
		r := s.active[s.turn%len(s.active)]
		before := len(s.Data)
		if r.confirmed && !r.cancelSent {
			s.send(r)
			s.finish(r)
		}
		if len(s.Data) > before {
			return true
		}
	}
	return false
}

// last is how many pieces of a request this end may send, as far as it knows.
func (r *request) last(log *Log) uint64 {
	count := min(r.sequence.count(), r.sequence.upTo(r.cut))
	return min(count, r.ends(log))
}

// ends is how many pieces there are, up to the entry that ended the log.
func (r *request) ends(log *Log) uint64 {
	if ended := r.endedAt(log); ended > 0 {
		return r.sequence.upTo(ended)
	}
	return r.sequence.count()
}

func (s *Session) send(r *request) {
	log := s.store.Log(r.log)
	last := r.last(log)
	out := &sender{session: s, request: r, log: log}
	for from := len(s.Data); len(s.Data)-from < turnBytes; {
		at := r.sent.pieces
		if at >= last {
			break
		}
		next, free := s.reach(r, log, at, last)
		if next == last && !(free && s.mayRunOut(r, log)) {
			break
		}
		out.pass(at, next)
		if next == last {
			break
		}
		if r.sent.pieces == next {
			out.one(next)
		}
	}
	out.flush()
}

// reach is the next piece that can be sent, or last and whether nothing stops the way there.
func (s *Session) reach(r *request, log *Log, at, last uint64) (next uint64, free bool) {
	for at < last {
		switch s.step(r, log, at) {
		case stop:
			return last, false
		case data, note:
			return at, true
		case catchUp:
			at = min(last, r.passed(at))
		default:
			at++
		}
	}
	return last, true
}

// passed is the piece behind those from this one on that the other end has passed by sending or notifying.
func (r *request) passed(at uint64) uint64 {
	end := r.received.pieces
	for index := range r.skipped {
		if index >= at && index < end && r.direction != Pull {
			end = index
		}
	}
	return end
}

func (s *Session) step(r *request, log *Log, at uint64) step {
	received := r.received.pieces
	if r.bad {
		received--
	}
	if at < received && (!r.skipped[at] || r.direction == Pull) {
		return catchUp
	}
	one := r.sequence.at(at)
	entry := log.Entry(one.seqNum)
	if entry == nil || r.direction == Pull || r.seen[one.seqNum] != nil {
		return stop
	}
	wants := &r.peerWants
	if !one.payload {
		if wants.eagerness == wire.Notify {
			return note
		}
		return data
	}
	payload, held := log.Payload(one.seqNum)
	size := entry.PayloadSize
	switch {
	case size < wants.min:
		return tooSmall
	case size > wants.max:
		return tooLarge
	case !held && (wants.mandatory || len(log.Part(one.seqNum)) > 0 || (at == received && r.received.bytes > r.base(at))):
		return stop
	case !held:
		return lacking
	case !wants.asksFor(size) || uint64(len(payload)) != size:
		return note
	}
	return data
}

// mayRunOut says whether this end may pass all that is left, having nothing of it to send.
func (s *Session) mayRunOut(r *request, log *Log) bool {
	nothingCame := r.received == cursor{bytes: r.base(0)}
	return r.received.pieces >= r.ends(log) || (r.saysData && !r.sent.before(r.received)) ||
		(!r.mine && nothingCame && r.direction != Pull)
}

// sender writes data messages of one request; notifies in a row become one.
type sender struct {
	session  *Session
	request  *request
	log      *Log
	notifies uint64
}

func (o *sender) write(message *wire.Data, bytes []byte) {
	s, r := o.session, o.request
	if s.sending != r {
		s.sending = r
		s.Data = (&wire.Data{Type: "switch", ID: r.id}).Append(s.Data)
	}
	if message.Type != "notify" {
		o.flush()
	}
	s.Data = append(message.Append(s.Data), bytes...)
}

func (o *sender) flush() {
	if pieces := o.notifies; pieces > 0 {
		o.notifies = 0
		o.write(&wire.Data{Type: "notify", Pieces: pieces}, nil)
	}
}

func (o *sender) moved(to cursor) {
	r := o.request
	r.sent = to
	if r.highest.before(to) {
		r.highest = to
	}
}

// pass moves over pieces that are not sent.
func (o *sender) pass(at, next uint64) {
	for r := o.request; at < next; {
		step := o.session.step(r, o.log, at)
		if step == catchUp {
			to := min(next, r.passed(at))
			o.notifies += to - at
			at = to
		} else {
			o.write(&wire.Data{Type: "skip", Reason: wire.SkipReasons[step-tooSmall]}, nil)
			at++
		}
		o.moved(cursor{pieces: at})
	}
}

// one sends a piece, or a part of a payload.
func (o *sender) one(at uint64) {
	s, r := o.session, o.request
	r.saysData = true
	next := cursor{pieces: at + 1}
	piece := r.sequence.at(at)
	if s.step(r, o.log, at) == note {
		o.notifies++
		o.moved(next)
		return
	}
	entry := o.log.Entry(piece.seqNum)
	if !piece.payload {
		message := &wire.Data{Type: "metadata", EndOfLog: entry.EndOfLog, PayloadSize: entry.PayloadSize,
			PayloadHash: entry.PayloadHash, Signature: wire.Hex(entry.Signature)}
		if r.sequence.statesBacklink(piece.seqNum) {
			message.Backlink = entry.Backlink
		}
		o.write(message, nil)
		o.moved(next)
		return
	}
	payload, _ := o.log.Payload(piece.seqNum)
	part := payload[r.sent.bytes:]
	if len(part) > partBytes {
		part = part[:partBytes]
		next = cursor{pieces: at, bytes: r.sent.bytes + partBytes}
	}
	o.write(&wire.Data{Type: "raw", Length: uint64(len(part))}, part)
	o.moved(next)
}

// finish cancels a request that is done.
func (s *Session) finish(r *request) {
	log := s.store.Log(r.log)
	begun := r.received.bytes > r.base(r.received.pieces)
	if r.sent.pieces < r.last(log) || r.bad || begun {
		return
	}
	if r.received.pieces >= r.ends(log) || s.lacksNothing(r, log) {
		s.cancel(r, wire.Complete, nil)
	}
}

// lacksNothing says whether this end holds all that it asked for.
func (s *Session) lacksNothing(r *request, log *Log) bool {
	wants := &r.mineWants
	if wants.eagerness == wire.Notify {
		return false
	}
	for index := range r.ends(log) {
		one := r.sequence.at(index)
		entry := log.Entry(one.seqNum)
		if entry == nil {
			return false
		}
		if _, held := log.Payload(one.seqNum); one.payload && !held && wants.asksFor(entry.PayloadSize) {
			return false
		}
	}
	return true
}
