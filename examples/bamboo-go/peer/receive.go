package peer

import (
	"bytes"
	"math"

	"culm.example/bamboo-go/wire"
)

// stated is the metadata of an entry as this request has it, nil if it is not held.
func (s *Session) stated(r *request, seqNum uint64) *wire.Entry {
	if entry := r.seen[seqNum]; entry != nil {
		return entry
	}
	return s.store.Known(r.log).Entry(seqNum)
}

// pass moves the other end's cursor over whole pieces.
func (r *request) pass(pieces uint64, asData bool) {
	r.received = cursor{pieces: r.received.pieces + pieces}
	r.lastSent = asData
	r.buffer, r.mixed, r.hole = nil, false, false
}

func (s *Session) notified(r *request, pieces uint64) error {
	from := r.received.pieces
	if pieces > math.MaxUint64-from || from+pieces > r.sequence.count() {
		return drop(wrongPiece, "a notify past the end")
	}
	if !r.mineWants.notified && !r.discards {
		// Behind what this end has passed itself, only payloads above a threshold may be notified of.
		for index := max(from, min(from+pieces, r.highest.pieces)); index < from+pieces; index++ {
			one := r.sequence.at(index)
			entry := s.stated(r, one.seqNum)
			wants := &r.mineWants
			if !one.payload || !wants.thresholds || (entry != nil && entry.PayloadSize <= wants.lowest) {
				return drop(unwanted, "a notify where data was asked for")
			}
			if entry == nil {
				break
			}
		}
	}
	r.pass(pieces, false)
	s.event(r, Event{Kind: "notified", Pieces: pieces})
	return nil
}

func (s *Session) metadata(r *request, message *wire.Data) error {
	if !r.mineWants.metadataWanted() {
		return drop(unwanted, "metadata where notifies were asked for")
	}
	log := s.store.Log(r.log)
	seqNum := r.sequence.at(r.received.pieces).seqNum
	entry := &wire.Entry{
		Flavour: s.store.Flavour, EndOfLog: message.EndOfLog, Author: r.log.Author, LogID: r.log.ID, SeqNum: seqNum,
		PayloadSize: message.PayloadSize, PayloadHash: message.PayloadHash, Signature: message.Signature,
	}
	linked := true
	if wire.HasLipmaalink(seqNum) {
		target := s.stated(r, wire.Lipmaa(seqNum))
		if linked = target != nil; linked {
			entry.Lipmaalink = target.Hash
		}
	}
	if entry.Backlink = message.Backlink; seqNum > 1 && entry.Backlink == nil {
		target := s.stated(r, seqNum-1)
		if target == nil {
			linked = false
		} else {
			entry.Backlink = target.Hash
		}
	}
	entry.Seal()
	held := log.Entry(seqNum)
	same := linked && held != nil && bytes.Equal(held.Hash, entry.Hash)
	ended := r.endedAt(log)
	switch {
	case !same && (!linked || !entry.Verified()):
		return s.wrong(r, "entry %d is not what its author has signed", seqNum)
	case ended > 0 && seqNum > ended:
		return s.wrong(r, "entry %d behind the end of the log", seqNum)
	}
	if !same {
		if other := log.Contradicts(entry); other != nil {
			r.seen[seqNum] = entry
			s.forked(r, other, entry)
			s.cancel(r, wire.Forked, &wire.Control{Entries: []wire.Hex{other.Bytes, entry.Bytes}})
		} else if err := log.Add(entry); err != nil {
			return err
		} else {
			s.event(r, Event{Kind: "entry", SeqNum: seqNum, Hash: entry.Hash})
		}
	}
	r.pass(1, true)
	return nil
}

// endedAt is the entry of this request that ended the log, 0 if there is none.
func (r *request) endedAt(log *Log) uint64 {
	if ended := log.Ended(); ended > 0 && ended >= r.proposal.Start {
		return ended
	}
	return 0
}

// wrong is what came and is not valid: the end of a safe connection; in a greedy one an apology may follow.
func (s *Session) wrong(r *request, why string, details ...any) error {
	if !s.greedy {
		return drop(invalid, why, details...)
	}
	r.pass(1, true)
	r.bad = true
	return nil
}

func (s *Session) skip(r *request, reason string) error {
	one := r.sequence.at(r.received.pieces)
	entry := s.stated(r, one.seqNum)
	wants := &r.mineWants
	switch {
	case reason == "unavailable" && wants.mandatory,
		reason == "too_small" && entry != nil && entry.PayloadSize >= wants.min,
		reason == "too_large" && entry != nil && entry.PayloadSize <= wants.max:
		return drop(unwanted, "%s, and it is wanted", reason)
	}
	r.skipped[r.received.pieces] = true
	r.pass(1, false)
	s.event(r, Event{Kind: "skipped", SeqNum: one.seqNum, Reason: reason})
	return nil
}

// ahead is how many bytes of the payload that is coming may come: all, where the metadata is not held.
func (s *Session) ahead(r *request) (entry *wire.Entry, count uint64) {
	entry = s.stated(r, r.sequence.at(r.received.pieces).seqNum)
	if entry == nil {
		return nil, math.MaxUint64
	}
	return entry, entry.PayloadSize - min(entry.PayloadSize, r.received.bytes)
}

func (s *Session) skipBytes(r *request, length uint64) error {
	if length == 0 {
		return nil
	}
	s.dataBut = 0
	entry, ahead := s.ahead(r)
	mine := uint64(0)
	if r.highest.pieces > r.received.pieces {
		mine = math.MaxUint64
	} else if r.highest.pieces == r.received.pieces {
		mine = r.highest.bytes
	}
	from := r.received.bytes
	if entry == nil || length > ahead || plus(from, length) > mine {
		return drop(unwanted, "bytes passed over that this end has not sent")
	}
	s.open(r, entry)
	r.mixed = true
	if from == r.base(r.received.pieces) {
		r.lastSent = false
	}
	held, _ := s.store.Log(r.log).Payload(entry.SeqNum)
	if plus(from, length) > uint64(len(held)) {
		// Passed, but not by sending it: there is nothing to put together.
		r.hole = true
		r.received.bytes += length - 1
		held = make([]byte, 1)
		from, length = 0, 1
	}
	return s.collect(r, entry, held[from:from+length])
}

// payloadMayCome judges a message of payload bytes by what it claims.
func (s *Session) payloadMayCome(r *request, length uint64) error {
	entry, ahead := s.ahead(r)
	if entry == nil {
		// It cannot be checked: nothing more of this request can be made use of.
		r.discards = true
		s.cancel(r, wire.Refused, nil)
		return nil
	}
	if length > ahead {
		return drop(wrongPiece, "more than the payload has")
	}
	if !r.mineWants.payloadWanted(entry.PayloadSize) {
		return drop(unwanted, "%d bytes of payload are not wanted", entry.PayloadSize)
	}
	return nil
}

// open begins to collect a payload; behind an offset it begins with what was held of it.
func (s *Session) open(r *request, entry *wire.Entry) {
	if r.buffer == nil && r.received.bytes > 0 {
		log := s.store.Log(r.log)
		before, held := log.Payload(entry.SeqNum)
		if !held {
			before = log.Part(entry.SeqNum)
		}
		r.mixed = true
		r.buffer = append([]byte(nil), before[:min(uint64(len(before)), r.received.bytes)]...)
	}
}

// payloadBytes takes bytes of the payload that is coming.
func (s *Session) payloadBytes(r *request, bytes []byte) error {
	if r.discards {
		return nil
	}
	entry, ahead := s.ahead(r)
	if len(bytes) > 0 {
		s.dataBut = 0
	} else if ahead > 0 {
		return nil
	}
	s.open(r, entry)
	if err := s.store.Log(r.log).AddPart(entry.SeqNum, r.received.bytes, bytes); err != nil {
		return err
	}
	r.lastSent = true
	return s.collect(r, entry, bytes)
}

func (s *Session) collect(r *request, entry *wire.Entry, part []byte) error {
	if !r.hole {
		r.buffer = append(r.buffer, part...)
	}
	r.received.bytes += uint64(len(part))
	if r.received.bytes < entry.PayloadSize {
		return nil
	}
	s.dataBut = 0
	if r.hole {
		r.pass(1, true)
		return nil
	}
	log := s.store.Log(r.log)
	if !bytes.Equal(s.store.Flavour.HashOf(r.buffer), entry.PayloadHash) {
		return s.wrongPayload(r, log, entry)
	}
	if held := log.Entry(entry.SeqNum); held != nil && bytes.Equal(held.Hash, entry.Hash) {
		if err := log.AddPayload(entry.SeqNum, r.buffer); err != nil {
			return err
		}
		size := entry.PayloadSize
		s.event(r, Event{Kind: "payload", SeqNum: entry.SeqNum, Size: &size})
	}
	r.pass(1, true)
	return nil
}

func (s *Session) wrongPayload(r *request, log *Log, entry *wire.Entry) error {
	if err := log.DropPart(entry.SeqNum); err != nil {
		return err
	}
	switch {
	case r.base(r.received.pieces) > 0:
		// What was held before may have been wrong: it is fetched whole.
		r.pass(1, true)
		s.cancel(r, wire.Refused, nil)
	case r.mixed:
		r.pass(1, true)
		s.cancel(r, wire.Resources, nil)
	case r.proposal.PayloadOnly:
		r.pass(1, true)
		s.cancel(r, wire.Refused, nil)
	default:
		return s.wrong(r, "payload %d has another hash", entry.SeqNum)
	}
	return nil
}

// apologised takes the latest piece back.
func (s *Session) apologised(r *request) error {
	index := r.received.pieces
	begun := r.received.bytes > r.base(index)
	if !begun {
		if !r.bad {
			return drop(apology, "for valid data, or for nothing")
		}
		index--
	}
	if !r.lastSent || r.apologies[index] {
		return drop(apology, "a second one, or for what was not sent")
	}
	r.apologies[index] = true
	r.bad = false
	r.received = cursor{pieces: index, bytes: r.base(index)}
	r.buffer, r.mixed, r.hole, r.lastSent = nil, false, false, false
	if one := r.sequence.at(index); one.payload && begun {
		return s.store.Log(r.log).DropPart(one.seqNum)
	}
	return nil
}
