package peer

import (
	"errors"
	"math"
	"time"

	"culm.example/bamboo-go/wire"
)

// Want is a log, or a part of one, that this end asks every peer for (or offers).
type Want struct {
	Log       LogName
	From, To  uint64 // To 0: without an end
	Sparse    bool
	Proof     bool // with the upper pool of To
	Live      bool
	Direction Direction
	Max       uint64
	Idle      time.Duration
}

// wish is a want on one connection.
type wish struct {
	Want
	id      uint64
	asked   bool
	over    bool
	code    int
	endsAt  uint64 // told by a 134
	tries   int
	start   uint64    // of what was asked for last
	bounded bool      // it had an end
	news    time.Time // when something last came
	waits   time.Time // not to be asked before
	touched bool
}

const maxTries = 5

// plan is the proposal for what is missing: from the first entry that is, or from inside of its payload.
// What came before the connection broke is never asked for again.
func (w *wish) plan(log *Log) (p *wire.Control, whole bool) {
	p = &wire.Control{PublicKey: wire.Hex(w.Log.Author[:]), LogID: w.Log.ID, Start: w.From, Sparse: w.Sparse,
		Eagerness: wire.All, Max: &w.Max}
	last := w.To
	if w.Direction == Push {
		// The other end says by its answer what it lacks; all of the pool is offered.
		lower := uint64(1)
		p.Lower, last = &lower, max(w.To, log.Tip)
	}
	if last > 0 {
		p.End = &last
	}
	if w.Proof {
		upper := uint64(math.MaxUint64)
		p.Upper = &upper
	}
	if w.Direction == Push {
		return p, false
	}
	end := last
	if last == 0 {
		end = max(log.Tip+1, w.From)
	}
	missing := func(seqNum uint64) bool {
		entry := log.Entry(seqNum)
		_, held := log.Payload(seqNum)
		return entry == nil || (!held && entry.PayloadSize <= w.Max)
	}
	for _, seqNum := range w.numbers(end) {
		if !missing(seqNum) {
			continue
		}
		if !w.Sparse {
			// What is held behind it does not come again: the next range begins there.
			for gap := seqNum; gap < end; gap++ {
				if !missing(gap + 1) {
					p.End, p.Upper = &gap, nil
					break
				}
			}
		}
		entry := log.Entry(seqNum)
		if entry == nil {
			p.Start = seqNum
			if ended := log.Ended(); ended > 0 && seqNum > ended {
				return nil, true
			}
			return p, false
		}
		offset := uint64(len(log.Part(seqNum)))
		p.Start, p.Offset = seqNum, &offset
		return p, false
	}
	if w.Proof {
		for _, seqNum := range wire.UpperPool(last) {
			if log.Entry(seqNum) == nil {
				// Nothing of the range is missing: begin behind its last byte.
				p.Start, p.Offset = last, &log.Entry(last).PayloadSize
				return p, false
			}
		}
	}
	return nil, true
}

func (w *wish) numbers(end uint64) (all []uint64) {
	if w.Sparse && w.To > 0 {
		return wire.Path(w.From, w.To)
	}
	for seqNum := w.From; seqNum <= end; seqNum++ {
		all = append(all, seqNum)
	}
	return all
}

// seek proposes what is missing, as soon as that may be.
func (w *wish) seek(s *Session, now time.Time) {
	if w.over || w.asked || !s.HasCredit() || now.Before(w.waits) {
		return
	}
	p, whole := w.plan(s.store.Log(w.Log))
	if whole {
		w.finish(wire.Complete)
		return
	}
	id, err := s.Propose(*p, w.Direction)
	switch {
	case errors.Is(err, ErrUnanswered):
		return
	case err != nil:
		w.finish(wire.Refused)
		return
	}
	w.id, w.asked, w.news, w.start = id, true, now, p.Start
	w.bounded = p.End != nil && w.Direction != Push
	w.tries++
}

func (w *wish) finish(code int) { w.over, w.code = true, code }

// hear draws conclusions from an event of the session.
func (w *wish) hear(s *Session, event Event, now time.Time) {
	if w.over || !w.asked || !event.Mine || *event.ID != w.id {
		return
	}
	w.news = now
	switch event.Kind {
	case "cancelled":
		if event.Code == wire.EndedBefore {
			w.endsAt = event.SeqNum
		}
	case "cancel":
		// This end's own: a payload behind a beginning that was wrong is fetched whole.
		w.touched = event.Code == wire.Refused
	case "overlapped":
		w.asked, w.waits = false, now.Add(100*time.Millisecond)
	case "freed":
		w.asked = false
		w.settle(s, event.Code, now)
	}
}

func (w *wish) settle(s *Session, code int, now time.Time) {
	again := w.tries < maxTries
	if p, whole := w.plan(s.store.Log(w.Log)); code == wire.Complete && w.bounded && (whole || p.Start > w.start) {
		w.tries = 0 // there may be another gap
		return
	}
	switch {
	case again && (code == wire.Resources || (code == wire.Refused && w.touched)):
		w.waits = now.Add(100 * time.Millisecond)
	case again && code == wire.EndedBefore:
		w.From, w.To, w.Sparse, w.Proof, w.Live = w.endsAt, w.endsAt, false, false, false
	default:
		w.finish(code)
	}
}

// tick gives up what may never come.
func (w *wish) tick(s *Session, now time.Time) {
	if w.asked && !w.over && !w.Live && now.Sub(w.news) > w.Idle {
		s.Cancel(w.id, wire.Complete)
	}
}
