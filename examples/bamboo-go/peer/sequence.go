package peer

import (
	"math"
	"slices"

	"culm.example/bamboo-go/wire"
)

// piece is one thing that is sent: the metadata or the payload of an entry.
type piece struct {
	seqNum  uint64
	payload bool
}

// sequence is the pieces of a request in their order; both ends count them alike.
type sequence struct {
	lower       []uint64
	start, last uint64
	open        bool
	path        []uint64 // of a sparse range
	upper       []uint64
	inside      bool // it begins with the payload of start
	payloadOnly bool
}

// sequenceOf is what a proposal asks for, up to an end that a confirmation may have lowered.
func sequenceOf(p *wire.Control, end, upper *uint64) *sequence {
	s := &sequence{start: p.Start, last: math.MaxUint64, open: end == nil,
		inside: p.Offset != nil, payloadOnly: p.PayloadOnly}
	if end != nil {
		s.last = *end
	}
	if p.Sparse {
		s.path = wire.Path(s.start, s.last)
	}
	if s.payloadOnly {
		return s
	}
	if !s.inside {
		for _, seqNum := range wire.LowerPool(s.start)[1:] {
			if seqNum >= *p.Lower {
				s.lower = append(s.lower, seqNum)
			}
		}
		slices.Reverse(s.lower)
	}
	if !s.open {
		for _, seqNum := range wire.UpperPool(s.last)[1:] {
			if seqNum <= *upper {
				s.upper = append(s.upper, seqNum)
			}
		}
	}
	return s
}

func plus(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// of is how many pieces so many entries of the range have.
func (s *sequence) of(entries uint64) uint64 {
	if s.payloadOnly || entries == 0 {
		return entries
	}
	count := plus(entries, entries)
	if s.inside {
		count--
	}
	return count
}

// entries is how many entries of the range have no number above this one.
func (s *sequence) entries(seqNum uint64) uint64 {
	if seqNum < s.start {
		return 0
	}
	if s.path != nil {
		return until(s.path, seqNum)
	}
	return plus(min(seqNum, s.last)-s.start, 1)
}

func until(ascending []uint64, seqNum uint64) uint64 {
	at, found := slices.BinarySearch(ascending, seqNum)
	if found {
		at++
	}
	return uint64(at)
}

// upTo is how many pieces belong to entries with no number above this one.
func (s *sequence) upTo(seqNum uint64) uint64 {
	count := until(s.lower, seqNum) + until(s.upper, seqNum)
	return plus(count, s.of(s.entries(seqNum)))
}

// count is how many pieces there are, as far as 64 bits go.
func (s *sequence) count() uint64 { return s.upTo(math.MaxUint64) }

// at is a piece by its index; there is one.
func (s *sequence) at(index uint64) piece {
	if index < uint64(len(s.lower)) {
		return piece{seqNum: s.lower[index]}
	}
	index -= uint64(len(s.lower))
	if total := s.of(s.entries(s.last)); index >= total {
		return piece{seqNum: s.upper[index-total]}
	}
	one := piece{payload: true}
	if !s.payloadOnly {
		if s.inside {
			index++
		}
		one.payload = index%2 == 1
		index /= 2
	}
	if s.path != nil {
		one.seqNum = s.path[index]
	} else {
		one.seqNum = s.start + index
	}
	return one
}

// hasMetadata says whether the metadata of an entry is a piece.
func (s *sequence) hasMetadata(seqNum uint64) bool {
	if s.payloadOnly || seqNum == 0 {
		return false
	}
	count := s.upTo(seqNum)
	if count == s.upTo(seqNum-1) {
		return false
	}
	return !s.inside || seqNum != s.start
}

// statesBacklink says whether metadata of an entry has a backlink in this request.
func (s *sequence) statesBacklink(seqNum uint64) bool {
	return wire.HasLipmaalink(seqNum) && !s.hasMetadata(seqNum-1)
}
