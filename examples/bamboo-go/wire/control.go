package wire

// Eagerness is what an end asks the other to send.
type Eagerness string

// The three of them; "" leaves it as it was.
const (
	Notify    Eagerness = "notify"
	Threshold Eagerness = "threshold"
	All       Eagerness = "all"
)

var eagernessBits = map[Eagerness]byte{"": 0, Notify: 0x20, Threshold: 0x40, All: 0x60}

func eagernessOf(first byte) Eagerness {
	return [...]Eagerness{"", Notify, Threshold, All}[first>>5&3]
}

// Why a request is cancelled.
const (
	Refused       = 128
	Resources     = 129
	Complete      = 130
	CancelRead    = 131
	Mandatory     = 132
	OtherHash     = 133
	EndedBefore   = 134
	Forked        = 135
	firstProposal = 0xa0
)

// Control is a message of the control channel; Type says which fields count.
type Control struct {
	Type         string    `json:"type"` // grant, propose, adjust, cancel
	Credit       uint64    `json:"credit"`
	ID           uint64    `json:"id"`
	PublicKey    Hex       `json:"public_key"`
	LogID        uint64    `json:"log_id"`
	Start        uint64    `json:"start"`
	Lower        *uint64   `json:"lower"`
	Min          *uint64   `json:"min"`
	Max          *uint64   `json:"max"`
	ExpectedHash Hash      `json:"expected_hash"`
	Eagerness    Eagerness `json:"eagerness"`
	Threshold    uint64    `json:"threshold"`
	End          *uint64   `json:"end"`
	Upper        *uint64   `json:"upper"`
	Offset       *uint64   `json:"offset"`
	PayloadOnly  bool      `json:"payload_only"`
	Sparse       bool      `json:"sparse"`
	Mandatory    bool      `json:"mandatory"`
	MaySkip      bool      `json:"may_skip"`
	Code         int       `json:"code"`
	SeqNum       uint64    `json:"seq_num"`
	Entries      []Hex     `json:"entries"`
}

func flag(is bool, bit byte) byte {
	if is {
		return bit
	}
	return 0
}

func appendNumbers(to []byte, numbers ...*uint64) []byte {
	for _, number := range numbers {
		if number != nil {
			to = AppendNumber(to, *number)
		}
	}
	return to
}

// Append writes the message.
func (c *Control) Append(to []byte) []byte {
	switch c.Type {
	case "grant":
		return AppendNumber(append(to, 0), c.Credit)
	case "cancel":
		to = AppendNumber(append(to, byte(c.Code)), c.ID)
		if c.Code == EndedBefore {
			to = AppendNumber(to, c.SeqNum)
		}
		for _, entry := range c.Entries {
			to = append(to, entry...)
		}
		return to
	}
	var threshold *uint64
	if c.Eagerness == Threshold {
		threshold = &c.Threshold
	}
	first := eagernessBits[c.Eagerness]
	if c.Type == "adjust" {
		first |= flag(c.MaySkip, 0x10) | flag(c.End != nil, 0x08) | flag(c.Upper != nil, 0x04) |
			flag(c.Min != nil, 0x02) | flag(c.Max != nil, 0x01)
		to = AppendNumber(append(to, first), c.ID)
		return appendNumbers(to, threshold, c.End, c.Upper, c.Min, c.Max)
	}
	first |= 0x80 | flag(c.End != nil, 0x10) | flag(c.Offset != nil, 0x08) | flag(c.PayloadOnly, 0x04) |
		flag(c.Sparse, 0x02) | flag(c.Mandatory, 0x01)
	to = AppendNumber(append(to, first), c.ID)
	to = append(to, c.PublicKey...)
	to = appendNumbers(to, &c.LogID, &c.Start, c.Lower, c.Min, c.Max)
	to = append(to, c.ExpectedHash...)
	return appendNumbers(to, threshold, c.End, c.Upper, c.Offset)
}

// ReadControl reads a message off the front of bytes, and says how many it has.
func ReadControl(from []byte, flavour *Flavour) (*Control, int, error) {
	r := &reader{bytes: from, flavour: flavour}
	c := &Control{}
	switch first := r.byte(); {
	case r.err != nil:
	case first == 0:
		c.Type = "grant"
		c.Credit = r.number()
	case first < 128:
		c.Type = "adjust"
		r.adjust(c, first)
	case first <= Forked:
		c.Type = "cancel"
		r.cancel(c, int(first))
	case first < firstProposal:
		r.err = ErrMalformed
	default:
		c.Type = "propose"
		r.propose(c, first)
	}
	return c, r.at, r.err
}

func (r *reader) optional(there bool) *uint64 {
	if !there {
		return nil
	}
	number := r.number()
	return &number
}

func (r *reader) threshold(c *Control, first byte) {
	if c.Eagerness = eagernessOf(first); c.Eagerness == Threshold {
		c.Threshold = r.number()
	}
}

func (r *reader) adjust(c *Control, first byte) {
	c.ID = r.number()
	r.threshold(c, first)
	c.MaySkip = first&0x10 != 0
	c.End = r.optional(first&0x08 != 0)
	c.Upper = r.optional(first&0x04 != 0)
	c.Min = r.optional(first&0x02 != 0)
	c.Max = r.optional(first&0x01 != 0)
}

func (r *reader) cancel(c *Control, code int) {
	c.Code = code
	c.ID = r.number()
	entries := 0
	switch code {
	case EndedBefore:
		c.SeqNum = r.number()
	case OtherHash:
		entries = 1
	case Forked:
		entries = 2
	}
	for range entries {
		c.Entries = append(c.Entries, r.entry().Bytes)
	}
}

func (r *reader) propose(c *Control, first byte) {
	c.ID = r.number()
	c.PublicKey = r.copied(32)
	c.LogID = r.number()
	c.Start = r.number()
	inside := first&0x08 != 0
	c.Lower = r.optional(!inside)
	c.Min, c.Max = r.optional(true), r.optional(true)
	if inside || (c.Lower != nil && *c.Lower != 1) {
		c.ExpectedHash = r.hash()
	}
	r.threshold(c, first)
	finite := first&0x10 != 0
	c.End, c.Upper = r.optional(finite), r.optional(finite)
	c.Offset = r.optional(inside)
	c.PayloadOnly = first&0x04 != 0
	c.Sparse = first&0x02 != 0
	c.Mandatory = first&0x01 != 0
}
