package peer

import (
	"errors"
	"fmt"
	"math"
	"time"

	"culm.example/bamboo-go/wire"
)

// Violation is what ends a connection, by its number.
type Violation struct {
	Number int
	Why    string
}

func (v *Violation) Error() string { return fmt.Sprintf("%02x: %s", v.Number, v.Why) }

// Numbers of violations.
const (
	malformed   = 0x01
	credit      = 0x02
	wrongID     = 0x03
	inactive    = 0x04
	wrongRange  = 0x05
	lessWanted  = 0x06
	notCurrent  = 0x07
	wrongPiece  = 0x08
	unwanted    = 0x09
	compression = 0x0a
	apology     = 0x0b
	invalid     = 0x0c
	evidence    = 0x0d
	limit       = 0x0e
)

func drop(number int, why string, details ...any) error {
	return &Violation{number, fmt.Sprintf(why, details...)}
}

// Limits of this end.
const (
	maxIdle     = 1024     // messages in a row on a channel that change nothing
	maxExpanded = 16 << 20 // bytes of one compressed message
	maxPause    = 30 * time.Second
)

// Settings of a session.
type Settings struct {
	Setup     wire.Setup
	Credit    uint64 // proposals that the other end may have here
	Eagerness wire.Eagerness
	Threshold uint64
	MaySkip   bool // a payload that the other end lacks does not hold up the rest
	Max       uint64
}

// DefaultSettings are safe both ways, and send payloads raw.
func DefaultSettings() Settings {
	return Settings{
		Setup: wire.Setup{ReceiveWindow: 64 << 10}, Credit: 64, Eagerness: wire.All, MaySkip: true,
		Max: math.MaxUint64,
	}
}

// Event is something that a session tells.
type Event struct {
	Kind   string    `json:"event"`
	ID     *uint64   `json:"id,omitempty"`
	Log    string    `json:"log,omitempty"`
	SeqNum uint64    `json:"seq_num,omitempty"`
	Hash   wire.Hash `json:"hash,omitempty"`
	Size   *uint64   `json:"size,omitempty"`
	Code   int       `json:"code,omitempty"`
	Pieces uint64    `json:"pieces,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Mine   bool      `json:"-"` // it is about a proposal of this end
}

// Session is one end of a connection, over whatever carries its two channels.
type Session struct {
	Control []byte // to be sent
	Data    []byte

	store     *Store
	settings  Settings
	proactive bool
	tell      func(Event)

	peer     *wire.Setup // nil until it was read
	greedy   bool        // the other end's data may be unverified
	expander wire.Expander
	credit   uint64 // proposals that this end may still send
	granted  uint64 // that the other end may
	nextID   uint64
	orders   int
	requests map[uint64][]*request // the uses of an id, oldest first
	active   []*request            // all of them, oldest first

	controlIn  []byte
	dataIn     []byte
	controlBut int // messages in a row that changed nothing
	dataBut    int
	Consumed   uint64 // bytes of the data channel that are done with
	PausedAt   time.Time
	reading    *request // the current request of what comes
	sending    *request // of what goes
	raw        uint64   // bytes of a payload that are still to come
	turn       int
}

// NewSession begins a session: its setup and the first grant stand in Control.
func NewSession(store *Store, proactive bool, settings Settings, tell func(Event)) *Session {
	s := &Session{
		store: store, settings: settings, proactive: proactive, tell: tell,
		requests: map[uint64][]*request{}, granted: settings.Credit,
	}
	if !proactive {
		s.nextID = 1
	}
	s.Control = settings.Setup.Append(s.Control)
	if s.granted > 0 {
		s.say(&wire.Control{Type: "grant", Credit: s.granted})
	}
	return s
}

func (s *Session) say(message *wire.Control) { s.Control = message.Append(s.Control) }

func (s *Session) mine(id uint64) bool { return (id%2 == 0) == s.proactive }

// event tells about a request.
func (s *Session) event(r *request, event Event) {
	id := r.id
	event.ID = &id
	event.Log = r.log.String()
	event.Mine = r.mine
	s.tell(event)
}

// ReceiveControl takes bytes of the control channel.
func (s *Session) ReceiveControl(bytes []byte) error {
	s.controlIn = append(s.controlIn, bytes...)
	if s.peer == nil {
		setup, used, err := wire.ReadSetup(s.controlIn)
		if err != nil {
			return nil
		}
		s.controlIn = s.controlIn[used:]
		s.peer = &setup
		s.greedy = s.settings.Setup.ReceiveGreedy && setup.SendGreedy
		s.expander.Window = min(s.settings.Setup.ReceiveWindow, setup.SendWindow)
	}
	for {
		message, used, err := wire.ReadControl(s.controlIn, s.store.Flavour)
		if errors.Is(err, wire.ErrShort) {
			break
		}
		if err != nil {
			return drop(malformed, "control %.8x", s.controlIn)
		}
		s.controlIn = s.controlIn[used:]
		s.controlBut++
		if err := s.control(message); err != nil {
			return err
		}
		if s.controlBut >= maxIdle {
			return drop(limit, "%d messages of control that change nothing", maxIdle)
		}
	}
	return s.readData()
}

// ReceiveData takes bytes of the data channel.
func (s *Session) ReceiveData(bytes []byte) error {
	s.dataIn = append(s.dataIn, bytes...)
	if s.peer == nil {
		return nil
	}
	return s.readData()
}

// used says that bytes of the data channel are done with.
func (s *Session) used(count int) {
	s.dataIn = s.dataIn[count:]
	s.Consumed += uint64(count)
}

func (s *Session) drop(r *request) {
	uses := s.requests[r.id]
	for index, one := range uses {
		if one == r {
			uses = append(uses[:index:index], uses[index+1:]...)
		}
	}
	s.requests[r.id] = uses
	if len(uses) == 0 {
		delete(s.requests, r.id)
	}
	for index, one := range s.active {
		if one == r {
			s.active = append(s.active[:index:index], s.active[index+1:]...)
		}
	}
}

func (s *Session) add(r *request) {
	s.requests[r.id] = append(s.requests[r.id], r)
	s.active = append(s.active, r)
}

// cancel says that a request is over, on both channels; more is the evidence of some codes.
func (s *Session) cancel(r *request, code int, more *wire.Control) {
	if r.cancelSent {
		return
	}
	if more == nil {
		more = &wire.Control{}
	}
	more.Type, more.ID, more.Code = "cancel", r.id, code
	s.say(more)
	s.Data = (&wire.Data{Type: "cancelled", ID: r.id}).Append(s.Data)
	r.cancelSent, r.endSent = true, true
	if r.code == 0 {
		r.code = code
	}
	if s.sending == r {
		s.sending = nil
	}
	s.event(r, Event{Kind: "cancel", Code: code})
	s.settle(r)
}

// Cancel ends a proposal of this end, if it is still there.
func (s *Session) Cancel(id uint64, code int) {
	if r := s.named(id); r != nil && r.mine {
		s.cancel(r, code, nil)
	}
}

// HasCredit says whether this end may propose something.
func (s *Session) HasCredit() bool { return s.credit > 0 }

// Busy says whether a request about a log is there, of either end.
func (s *Session) Busy(log LogName) bool {
	for _, r := range s.active {
		if r.log == log && !r.lost {
			return true
		}
	}
	return false
}

// settle frees a request whose four messages are through, and answers the next use of its id.
func (s *Session) settle(r *request) {
	if !r.freed() {
		return
	}
	s.drop(r)
	if s.reading == r {
		s.reading = nil
	}
	if !r.mine {
		s.granted++
		s.say(&wire.Control{Type: "grant", Credit: 1})
	}
	s.event(r, Event{Kind: "freed", Code: r.code})
	s.unpark(r.id)
}

// unpark answers a proposal that waited for the end of the older uses of its id.
func (s *Session) unpark(id uint64) {
	uses := s.requests[id]
	if len(uses) == 0 || !uses[0].parked {
		return
	}
	r := uses[0]
	r.parked = false
	if r.cancelRead {
		s.cancel(r, wire.CancelRead, nil)
	} else {
		s.answer(r)
	}
}
