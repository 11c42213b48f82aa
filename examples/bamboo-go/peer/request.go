package peer

import (
	"math"

	"culm.example/bamboo-go/wire"
)

// cursor is a place in a sequence: whole pieces, and bytes of the payload behind them (counted from the
// beginning of that payload, so a request that begins inside one begins at its offset).
type cursor struct {
	pieces uint64
	bytes  uint64
}

func (c cursor) before(other cursor) bool {
	return c.pieces < other.pieces || (c.pieces == other.pieces && c.bytes < other.bytes)
}

// interest is what an end wants of a request, and all that it ever wanted: an adjust may cross data.
type interest struct {
	eagerness wire.Eagerness
	threshold uint64
	min, max  uint64
	mandatory bool

	first         [2]uint64 // min and max at first
	notified      bool      // notifies alone were wanted at some time
	all           bool      // everything was
	thresholds    bool      // some threshold was: these are the lowest and the highest
	lowest, above uint64
}

func newInterest(low, high uint64, mandatory bool) interest {
	return interest{min: low, max: high, mandatory: mandatory, first: [2]uint64{low, high}, lowest: math.MaxUint64}
}

func (i *interest) set(eagerness wire.Eagerness, threshold uint64) {
	switch eagerness {
	case "":
		return
	case wire.Notify:
		i.notified = true
	case wire.All:
		i.all = true
	case wire.Threshold:
		i.thresholds = true
		i.lowest = min(i.lowest, threshold)
		i.above = max(i.above, threshold)
	}
	i.eagerness, i.threshold = eagerness, threshold
}

// metadataWanted says whether metadata may come instead of a notify.
func (i *interest) metadataWanted() bool { return i.all || i.thresholds }

// payloadWanted says whether bytes of a payload of this size may come.
func (i *interest) payloadWanted(size uint64) bool {
	return size >= i.first[0] && size <= i.first[1] && (i.all || (i.thresholds && size <= i.above))
}

// asksFor says whether a payload of this size is wanted as it stands now.
func (i *interest) asksFor(size uint64) bool {
	return size >= i.min && size <= i.max &&
		(i.eagerness == wire.All || (i.eagerness == wire.Threshold && size <= i.threshold))
}

// request is one use of an id, from the proposal until all four messages of its cancellation are through.
type request struct {
	id        uint64
	mine      bool
	order     int // in which this session's proposals were sent
	proposal  *wire.Control
	log       LogName
	direction Direction

	parked    bool // it waits for the end of an older use of its id
	confirmed bool
	lost      bool     // of the other end, and never sent: an overlap
	winner    *request // that it lost to
	losses    uint64   // how many of the other end's may still lose to this one

	cancelSent, cancelRead bool
	endSent, endRead       bool // the data channel's 20
	code                   int  // with which it was cancelled first

	end, upper *uint64   // in force
	sequence   *sequence // fixed when it is confirmed
	cut        uint64    // sends nothing of an entry above this one
	mineWants  interest
	peerWants  interest
	sent       cursor
	received   cursor
	highest    cursor // that was ever sent
	saysData   bool   // something was sent but catching up

	skipped   map[uint64]bool        // payloads that the other end passed by 4, 5 or 6
	seen      map[uint64]*wire.Entry // that came, and are not held: of another branch
	buffer    []byte                 // of the payload that is coming, from its beginning
	mixed     bool                   // some of it this end had already
	hole      bool                   // some of it this end lacks, and the other passed over it
	lastSent  bool                   // the latest piece came as data, and so may be apologised for
	bad       bool                   // the latest piece is wrong; only an apology may follow (greedy)
	apologies map[uint64]bool
	discards  bool // what comes is only told apart from the next message
}

func newRequest(p *wire.Control, direction Direction) *request {
	return &request{id: p.ID, proposal: p, log: logOf(p), direction: direction, end: p.End, upper: p.Upper,
		cut: math.MaxUint64}
}

// fix settles what the pieces are; the end that answers does so with its confirmation, the other reading it.
func (r *request) fix() {
	r.sequence = sequenceOf(r.proposal, r.end, r.upper)
	if r.proposal.Offset != nil {
		start := cursor{bytes: *r.proposal.Offset}
		r.sent, r.received, r.highest = start, start, start
	}
	r.skipped = map[uint64]bool{}
	r.seen = map[uint64]*wire.Entry{}
	r.apologies = map[uint64]bool{}
}

// base is where the payload of a piece begins in this request.
func (r *request) base(index uint64) uint64 {
	if index == 0 && r.proposal.Offset != nil {
		return *r.proposal.Offset
	}
	return 0
}

// unanswered says whether neither a confirmation nor a cancel of the other end was read.
func (r *request) unanswered() bool { return r.mine && !r.confirmed && !r.cancelRead }

func (r *request) freed() bool { return r.cancelSent && r.cancelRead && r.endSent && r.endRead }

func (r *request) overlaps(other *request) bool {
	return r.log == other.log && r.proposal.Start <= endOf(other.proposal) && other.proposal.Start <= endOf(r.proposal)
}

func endOf(p *wire.Control) uint64 {
	if p.End == nil {
		return math.MaxUint64
	}
	return *p.End
}

// Direction is what an end does of its own about a request; it is never on the wire.
type Direction string

// Both ways, or one alone.
const (
	Both Direction = "both"
	Pull Direction = "pull"
	Push Direction = "push"
)
