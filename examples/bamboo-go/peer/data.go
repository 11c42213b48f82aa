package peer

import (
	"errors"
	"math"
	"time"

	"culm.example/bamboo-go/wire"
)

// errPause says that the data channel has overtaken control: what comes is left unread for now.
var errPause = errors.New("waiting for control")

// readData reads what has come of the data channel, as far as it goes.
func (s *Session) readData() error {
	for len(s.dataIn) > 0 {
		var err error
		if s.raw > 0 {
			err = s.rawBytes()
		} else {
			err = s.message()
		}
		switch {
		case errors.Is(err, wire.ErrShort):
			return nil
		case errors.Is(err, errPause):
			if s.PausedAt.IsZero() {
				s.PausedAt = time.Now()
			}
			return nil
		case err != nil:
			return err
		}
		s.PausedAt = time.Time{}
		if s.dataBut >= maxIdle {
			return drop(limit, "%d messages of data that change nothing", maxIdle)
		}
	}
	return nil
}

// Late says whether control has been waited for too long.
func (s *Session) Late(now time.Time) error {
	if !s.PausedAt.IsZero() && now.Sub(s.PausedAt) > maxPause {
		return drop(limit, "data about something that control does not tell of")
	}
	return nil
}

func (s *Session) rawBytes() error {
	part := s.dataIn[:min(s.raw, uint64(len(s.dataIn)))]
	s.raw -= uint64(len(part))
	err := s.payloadBytes(s.reading, part)
	s.used(len(part))
	return err
}

// message reads one message; one whose bytes follow is only begun by it.
func (s *Session) message() error {
	first := s.dataIn[0]
	if first >= 0x80 && first <= 0x81 {
		if err := s.mayCome(false); err != nil {
			return err
		}
	}
	message, used, err := wire.ReadData(s.dataIn, s.store.Flavour, func() bool {
		return s.reading.sequence.statesBacklink(s.reading.sequence.at(s.reading.received.pieces).seqNum)
	})
	if errors.Is(err, wire.ErrMalformed) {
		return drop(malformed, "data %.8x", s.dataIn)
	}
	if err != nil {
		return err
	}
	s.dataBut++
	if message.Type == "compressed" {
		return s.compressed(message, used)
	}
	err = s.apply(message)
	if errors.Is(err, errPause) {
		s.dataBut--
		return err
	}
	s.used(used)
	return err
}

func (s *Session) apply(message *wire.Data) error {
	r := s.reading
	switch message.Type {
	case "switch":
		return s.switched(message.ID)
	case "cancelled":
		s.dataBut = 0
		return s.ended(message.ID)
	}
	if r == nil {
		return drop(notCurrent, "%s without a current request", message.Type)
	}
	if message.Type == "apology" {
		s.dataBut = 0
		return s.apologised(r)
	}
	if message.Type == "notify" && message.Pieces == 0 {
		return nil
	}
	if r.bad {
		return drop(invalid, "more behind wrong data")
	}
	switch message.Type {
	case "notify":
		s.dataBut = 0
		return s.notified(r, message.Pieces)
	case "metadata":
		s.dataBut = 0
		return s.metadata(r, message)
	}
	if err := s.mayCome(true); err != nil {
		return err
	}
	switch message.Type {
	case "skip":
		s.dataBut = 0
		return s.skip(r, message.Reason)
	case "skip_bytes":
		return s.skipBytes(r, message.Length)
	}
	if err := s.payloadMayCome(r, message.Length); err != nil {
		return err
	}
	s.raw = message.Length
	if s.raw == 0 {
		return s.payloadBytes(r, nil)
	}
	return nil
}

// mayCome says whether the next piece is of this kind; nothing may come behind the last one.
func (s *Session) mayCome(payload bool) error {
	r := s.reading
	switch {
	case r == nil:
		return drop(notCurrent, "a piece without a current request")
	case r.bad:
		return drop(invalid, "more behind wrong data")
	case r.received.pieces >= r.sequence.count():
		return drop(wrongPiece, "a piece past the end")
	case r.sequence.at(r.received.pieces).payload != payload:
		return drop(wrongPiece, "metadata for a payload, or the reverse")
	}
	return nil
}

func (s *Session) compressed(message *wire.Data, used int) error {
	r := s.reading
	if err := s.mayCome(true); err != nil {
		return err
	}
	if s.expander.Window == 0 {
		return drop(compression, "compressed data without a window")
	}
	if message.Length < (math.MaxUint64-16)/2 && message.Packed > 2*message.Length+16 {
		return drop(compression, "%d bytes for %d", message.Packed, message.Length)
	}
	if err := s.payloadMayCome(r, message.Length); err != nil {
		return err
	}
	if message.Length > maxExpanded {
		return drop(limit, "%d bytes in one compressed message", message.Length)
	}
	if uint64(len(s.dataIn)-used) < message.Packed {
		s.dataBut--
		return wire.ErrShort
	}
	packed := s.dataIn[used : used+int(message.Packed)]
	expanded, err := s.expander.Expand(packed, int(message.Length))
	if err != nil {
		return drop(compression, "%v", err)
	}
	err = s.payloadBytes(r, expanded)
	s.used(used + len(packed))
	return err
}

// ofData is the request that data messages with an id are about: its oldest use whose 20 has not come.
func (s *Session) ofData(id uint64) *request {
	for _, r := range s.requests[id] {
		if !r.endRead {
			return r
		}
	}
	return nil
}

func (s *Session) switched(id uint64) error {
	r := s.ofData(id)
	switch {
	case r != nil && r.mine && !r.confirmed && !r.cancelRead:
		return errPause
	case r == nil || !r.confirmed:
		return drop(notCurrent, "a switch to %d, which is not confirmed", id)
	}
	if s.reading != r {
		s.reading, s.dataBut = r, 0
	}
	return nil
}

// ended takes the other end's word that no more data of a request comes.
func (s *Session) ended(id uint64) error {
	r := s.ofData(id)
	if r == nil {
		// Perhaps of a proposal that is still on its way.
		uses := s.requests[id]
		if s.mine(id) || (len(uses) > 0 && !uses[len(uses)-1].cancelSent) {
			return drop(notCurrent, "the end of %d, which is not there", id)
		}
		return errPause
	}
	if r.lost {
		if !r.cancelRead {
			return errPause
		}
		s.drop(r)
		s.unpark(id)
		return nil
	}
	if r.parked {
		// Of this use, whose older ones are through: it is answered once they are freed.
		return errPause
	}
	r.endRead = true
	if s.reading == r {
		s.reading = nil
	}
	s.settle(r)
	return nil
}
