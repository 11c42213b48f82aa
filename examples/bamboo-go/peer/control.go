package peer

import (
	"bytes"
	"math"
	"slices"

	"culm.example/bamboo-go/wire"
)

func (s *Session) control(message *wire.Control) error {
	switch message.Type {
	case "grant":
		if message.Credit > math.MaxUint64-s.credit {
			return drop(credit, "more than 2^64 - 1 proposals granted")
		}
		if s.credit += message.Credit; message.Credit > 0 {
			s.controlBut = 0
		}
		return nil
	case "propose":
		s.controlBut = 0
		return s.proposed(message)
	case "adjust":
		return s.adjusted(message)
	}
	s.controlBut = 0
	return s.cancelled(message)
}

func logOf(p *wire.Control) (name LogName) {
	copy(name.Author[:], p.PublicKey)
	name.ID = p.LogID
	return name
}

func (s *Session) proposed(p *wire.Control) error {
	if s.granted == 0 {
		return drop(credit, "a proposal without credit")
	}
	s.granted--
	if s.mine(p.ID) {
		return drop(wrongID, "id %d is of this end's kind", p.ID)
	}
	if uses := s.requests[p.ID]; len(uses) > 0 {
		last := uses[len(uses)-1]
		free := last.lost || (last.cancelSent && last.cancelRead && last.endSent)
		if !free {
			return drop(wrongID, "id %d is in use", p.ID)
		}
		if last.lost && !last.cancelRead {
			s.drop(last) // its id is used again: nothing about it can come any more
		}
	}
	if err := checkRange(p); err != nil {
		return err
	}
	r := newRequest(p, Both)
	r.mineWants = newInterest(0, math.MaxUint64, true)
	r.peerWants = newInterest(*p.Min, *p.Max, p.Mandatory)
	r.peerWants.set(p.Eagerness, p.Threshold)
	r.parked = len(s.requests[p.ID]) > 0
	s.event(r, Event{Kind: "asked"})
	if lost, err := s.overlap(r); lost || err != nil {
		return err
	}
	s.add(r)
	if !r.parked {
		s.answer(r)
	}
	return nil
}

func checkRange(p *wire.Control) error {
	switch {
	case p.Start == 0:
		return drop(wrongRange, "start 0")
	case p.End != nil && *p.End < p.Start:
		return drop(wrongRange, "end %d before start %d", *p.End, p.Start)
	case p.End != nil && *p.Upper < *p.End:
		return drop(wrongRange, "upper %d below end %d", *p.Upper, *p.End)
	case p.Offset == nil && !slices.Contains(wire.LowerPool(p.Start), *p.Lower):
		return drop(wrongRange, "lower %d is not of the pool of %d", *p.Lower, p.Start)
	}
	return nil
}

// overlap settles which of two proposals for entries in common was never sent; lost says that it is this one.
func (s *Session) overlap(r *request) (lost bool, err error) {
	for _, own := range slices.Clone(s.active) {
		if !own.unanswered() || !own.overlaps(r) {
			continue
		}
		ownLoses := own.proposal.Start > r.proposal.Start || (own.proposal.Start == r.proposal.Start && !s.proactive)
		if ownLoses {
			s.drop(own)
			s.credit++
			s.event(own, Event{Kind: "overlapped"})
			continue
		}
		if own.losses == 0 {
			return true, drop(credit, "more proposals that lose than there was credit")
		}
		own.losses--
		s.granted++
		r.lost, r.winner = true, own
		s.add(r)
		return true, nil
	}
	return false, nil
}

// forget ends the memory of proposals that lost, once the other end must have seen why.
func (s *Session) forget(about *request) {
	if !about.mine {
		return
	}
	for _, r := range slices.Clone(s.active) {
		if r.lost && !r.cancelRead && (r.winner == about || about.order > r.winner.order) {
			s.drop(r)
		}
	}
}

// named is the request that control messages with an id are about, nil if there is none.
func (s *Session) named(id uint64) *request {
	uses := s.requests[id]
	if len(uses) == 0 {
		return nil
	}
	return uses[len(uses)-1]
}

func (s *Session) adjusted(a *wire.Control) error {
	r := s.named(a.ID)
	if r == nil || (r.cancelRead && !r.lost) {
		return drop(inactive, "adjust of %d, which is not active", a.ID)
	}
	if r.lost {
		return nil
	}
	s.forget(r)
	confirms := r.mine && !r.confirmed
	if confirms && a.Eagerness == "" {
		return drop(inactive, "a confirmation without eagerness")
	}
	end, upper, err := lowered(r, a)
	if err != nil {
		return err
	}
	if err := s.sizes(r, a); err != nil {
		return err
	}
	wants := &r.peerWants
	if confirms || end != r.end || upper != r.upper || (a.MaySkip && wants.mandatory) ||
		(a.Eagerness != "" && (a.Eagerness != wants.eagerness || a.Threshold != wants.threshold)) {
		s.controlBut = 0
	}
	wants.set(a.Eagerness, a.Threshold)
	wants.mandatory = wants.mandatory && !a.MaySkip
	if confirms {
		r.confirmed = true
		r.end, r.upper = end, upper
		r.fix()
		s.event(r, Event{Kind: "confirmed"})
		return nil
	}
	// Only a confirmation changes the sequence: who lowers the end later gets nothing of what is behind it.
	if end != r.end {
		r.cut = min(r.cut, *end)
	} else if upper != r.upper {
		r.cut = min(r.cut, *upper)
	}
	r.end, r.upper = end, upper
	return nil
}

// lowered is the end of a request and its upper bound after an adjust; what is not less is ignored.
func lowered(r *request, a *wire.Control) (end, upper *uint64, err error) {
	end, upper = r.end, r.upper
	if a.End != nil {
		if *a.End < r.proposal.Start {
			return nil, nil, drop(wrongRange, "end lowered to %d, before start %d", *a.End, r.proposal.Start)
		}
		if end == nil || *a.End < *end {
			end = a.End
		}
		if upper == nil {
			whole := uint64(math.MaxUint64)
			upper = &whole
		}
	}
	if a.Upper != nil {
		if end == nil || *a.Upper < *end {
			return nil, nil, drop(wrongRange, "upper %d below the end", *a.Upper)
		}
		if *a.Upper < *upper {
			upper = a.Upper
		}
	}
	return end, upper, nil
}

func (s *Session) sizes(r *request, a *wire.Control) error {
	wants := &r.peerWants
	if a.Min != nil && *a.Min < wants.min || a.Max != nil && *a.Max > wants.max {
		return drop(lessWanted, "sizes wanted grew")
	}
	if a.Min != nil && *a.Min != wants.min {
		wants.min, s.controlBut = *a.Min, 0
	}
	if a.Max != nil && *a.Max != wants.max {
		wants.max, s.controlBut = *a.Max, 0
	}
	return nil
}

func (s *Session) cancelled(c *wire.Control) error {
	r := s.named(c.ID)
	if r == nil || r.cancelRead {
		return drop(inactive, "cancel of %d, which is not active", c.ID)
	}
	if r.lost {
		r.cancelRead = true // its 20 is on its way, and says nothing either
		return nil
	}
	if err := s.checkEvidence(r, c); err != nil {
		return err
	}
	s.forget(r)
	r.cancelRead = true
	code := c.Code
	if code == wire.CancelRead && !r.cancelSent {
		code = wire.Refused
	}
	if r.code == 0 || r.code == wire.CancelRead {
		r.code = code
	}
	s.event(r, Event{Kind: "cancelled", Code: c.Code, SeqNum: c.SeqNum})
	if !r.parked {
		s.cancel(r, wire.CancelRead, nil)
	}
	s.settle(r)
	return nil
}

// checkEvidence judges what a cancel brings, and keeps the proof of a fork.
func (s *Session) checkEvidence(r *request, c *wire.Control) error {
	var entries []*wire.Entry
	for _, bytes := range c.Entries {
		entry, _, err := wire.ReadEntry(bytes, s.store.Flavour)
		if err != nil {
			return drop(malformed, "evidence that is no entry")
		}
		if entry.Author != r.log.Author || entry.LogID != r.log.ID || !entry.Verified() {
			return drop(evidence, "evidence of another log, or that its author has not signed")
		}
		entries = append(entries, entry)
	}
	switch c.Code {
	case wire.EndedBefore:
		if c.SeqNum == 0 || c.SeqNum >= r.proposal.Start {
			return drop(evidence, "an end that is not before the start")
		}
	case wire.OtherHash:
		expected := r.proposal.ExpectedHash
		if !r.mine || expected == nil || entries[0].SeqNum != pinned(r.proposal) || bytes.Equal(entries[0].Hash, expected) {
			return drop(evidence, "the hash is the expected one")
		}
		if held := s.store.Log(r.log).Entry(entries[0].SeqNum); held != nil {
			s.forked(r, held, entries[0])
		}
	case wire.Forked:
		if !wire.ProveFork(entries[0], entries[1]) {
			return drop(evidence, "entries that prove no fork")
		}
		s.forked(r, entries[0], entries[1])
	}
	return nil
}

// forked keeps a proof that a log is forked.
func (s *Session) forked(r *request, a, b *wire.Entry) {
	if log := s.store.Log(r.log); log.Proof[0] == nil && wire.ProveFork(a, b) {
		log.Proof = [2]*wire.Entry{a, b}
	}
	s.event(r, Event{Kind: "fork", SeqNum: b.SeqNum, Hash: b.Hash})
}

// pinned is the number of the entry whose hash a proposal states, 0 if it states none.
func pinned(p *wire.Control) uint64 {
	if p.Offset != nil {
		return p.Start
	}
	return wire.Lipmaa(*p.Lower)
}
