package peer

import (
	"bytes"
	"errors"
	"math"

	"culm.example/bamboo-go/wire"
)

// answer confirms or refuses a proposal of the other end.
func (s *Session) answer(r *request) {
	log := s.store.Log(r.log)
	p := r.proposal
	switch {
	case log.Proof[0] != nil:
		s.cancel(r, wire.Forked, &wire.Control{Entries: []wire.Hex{log.Proof[0].Bytes, log.Proof[1].Bytes}})
	case log.EndsAt > 0 && log.EndsAt < p.Start:
		s.cancel(r, wire.EndedBefore, &wire.Control{SeqNum: log.EndsAt})
	case p.Sparse && p.End == nil, p.PayloadOnly && p.End == nil, !s.provides(log, r):
		// An open range of payloads alone is against this end's policy.
		s.cancel(r, wire.Refused, nil)
	default:
		if p.ExpectedHash != nil && !s.expected(log, r) {
			return
		}
		// Without what stands below lower, the log can only be sent, and there is nothing to send.
		confirmation := &wire.Control{Type: "adjust", ID: r.id, Eagerness: s.settings.Eagerness,
			Threshold: s.settings.Threshold, MaySkip: s.settings.MaySkip}
		if s.settings.Max != math.MaxUint64 {
			confirmation.Max = &s.settings.Max
		}
		s.say(confirmation)
		r.mineWants = newInterest(0, s.settings.Max, !s.settings.MaySkip)
		r.mineWants.set(s.settings.Eagerness, s.settings.Threshold)
		r.confirmed = true
		// What the proposer has lowered meanwhile cuts the sequence, and does not change it.
		end, upper := r.end, r.upper
		r.end, r.upper = p.End, p.Upper
		r.fix()
		r.end, r.upper = end, upper
		s.event(r, Event{Kind: "accepted"})
	}
}

// provides says whether this end holds what must be held to follow a request.
func (s *Session) provides(log *Log, r *request) bool {
	p := r.proposal
	if p.Offset != nil {
		start := log.Entry(p.Start)
		if start == nil || *p.Offset > start.PayloadSize {
			return false
		}
	} else if below := wire.Lipmaa(*p.Lower); below > 0 && log.Lacks(below) > 0 {
		return false
	}
	if !p.PayloadOnly {
		return true
	}
	pieces := sequenceOf(p, p.End, p.Upper)
	for index := range pieces.count() {
		if log.Entry(pieces.at(index).seqNum) == nil {
			return false
		}
	}
	return true
}

// expected compares the hash of a proposal with what is held, and cancels if it is another.
func (s *Session) expected(log *Log, r *request) bool {
	held := log.Entry(pinned(r.proposal))
	if held == nil {
		// The pool below lower is held, or the start: only a proposal of an end that offers data gets here.
		s.cancel(r, wire.Refused, nil)
		return false
	}
	if !bytes.Equal(held.Hash, r.proposal.ExpectedHash) {
		s.cancel(r, wire.OtherHash, &wire.Control{Entries: []wire.Hex{held.Bytes}})
		return false
	}
	return true
}

// Why this end may not propose something.
var (
	ErrNoCredit   = errors.New("the other end has granted no proposal")
	ErrUnanswered = errors.New("a proposal of the other end about this is not answered yet")
	ErrMissing    = errors.New("an entry that the proposal builds on is not held")
	ErrSparseOpen = errors.New("a sparse range needs an end")
)

// Propose asks for a range and returns its id; lower, expected hash and what else is left out is filled in.
func (s *Session) Propose(p wire.Control, direction Direction) (uint64, error) {
	all := uint64(math.MaxUint64)
	low := uint64(0)
	log := s.store.Log(logOf(&p))
	p.Type, p.ID = "propose", s.nextID
	if p.Min == nil {
		p.Min = &low
	}
	if p.Max == nil {
		p.Max = &all
	}
	if p.Upper == nil {
		p.Upper = p.End
	}
	if p.Offset == nil && p.Lower == nil {
		lower := log.Lacks(p.Start)
		if lower == 0 {
			lower = p.Start
		}
		p.Lower = &lower
	}
	if p.Sparse && p.End == nil {
		return 0, ErrSparseOpen
	}
	if seqNum := pinned(&p); seqNum > 0 {
		entry := log.Entry(seqNum)
		if entry == nil {
			return 0, ErrMissing
		}
		p.ExpectedHash = entry.Hash
	}
	r := newRequest(&p, direction)
	r.mine = true
	for _, other := range s.active {
		if !other.mine && other.parked && !other.lost && other.overlaps(r) {
			return 0, ErrUnanswered
		}
	}
	if s.credit == 0 {
		return 0, ErrNoCredit
	}
	s.credit--
	s.nextID += 2
	s.orders++
	r.order, r.losses = s.orders, s.granted
	r.mineWants = newInterest(*p.Min, *p.Max, p.Mandatory)
	r.mineWants.set(p.Eagerness, p.Threshold)
	r.peerWants = newInterest(0, math.MaxUint64, true)
	s.add(r)
	s.say(&p)
	s.event(r, Event{Kind: "proposed", SeqNum: p.Start})
	return p.ID, nil
}
