package wire

import "crypto/ed25519"

// Data is a message of the data channel; Type says which fields count. The bytes of a payload are not in
// it: they follow it, Length of them (raw) or Packed (compressed).
type Data struct {
	Type        string `json:"type"` // switch, notify, skip, skip_bytes, raw, compressed, apology, cancelled, metadata
	ID          uint64 `json:"id"`
	Pieces      uint64 `json:"pieces"`
	Reason      string `json:"reason"` // too_small, too_large, unavailable
	Length      uint64 `json:"length"`
	Packed      uint64 `json:"-"`
	EndOfLog    bool   `json:"end_of_log"`
	Backlink    Hash   `json:"backlink"`
	PayloadSize uint64 `json:"payload_size"`
	PayloadHash Hash   `json:"payload_hash"`
	Signature   Hex    `json:"signature"`
}

// SkipReasons in the order of their bytes, 4 to 6.
var SkipReasons = []string{"too_small", "too_large", "unavailable"}

// Append writes the message, without the bytes of a payload.
func (d *Data) Append(to []byte) []byte {
	switch d.Type {
	case "switch":
		return AppendNumber(append(to, 0), d.ID)
	case "notify":
		if d.Pieces == 1 {
			return append(to, 2)
		}
		return AppendNumber(append(to, 3), d.Pieces)
	case "skip":
		for index, reason := range SkipReasons {
			if reason == d.Reason {
				to = append(to, byte(4+index))
			}
		}
		return to
	case "skip_bytes":
		return AppendNumber(append(to, 7), d.Length)
	case "raw":
		return AppendNumber(append(to, 8), d.Length)
	case "compressed":
		return AppendNumber(AppendNumber(append(to, 9), d.Length), d.Packed)
	case "apology":
		return append(to, 0x10)
	case "cancelled":
		return AppendNumber(append(to, 0x20), d.ID)
	}
	to = append(to, 0x80|flag(d.EndOfLog, 1))
	to = append(to, d.Backlink...)
	to = AppendNumber(to, d.PayloadSize)
	to = append(to, d.PayloadHash...)
	return append(to, d.Signature...)
}

// ReadData reads a message off the front of bytes, and says how many it has. Whether metadata has a
// backlink is for the session to know.
func ReadData(from []byte, flavour *Flavour, backlink func() bool) (*Data, int, error) {
	r := &reader{bytes: from, flavour: flavour}
	d := &Data{}
	switch first := r.byte(); first {
	case 0:
		d.Type, d.ID = "switch", r.number()
	case 2:
		d.Type, d.Pieces = "notify", 1
	case 3:
		d.Type, d.Pieces = "notify", r.number()
	case 4, 5, 6:
		d.Type, d.Reason = "skip", SkipReasons[first-4]
	case 7:
		d.Type, d.Length = "skip_bytes", r.number()
	case 8:
		d.Type, d.Length = "raw", r.number()
	case 9:
		d.Type, d.Length = "compressed", r.number()
		d.Packed = r.number()
	case 0x10:
		d.Type = "apology"
	case 0x20:
		d.Type, d.ID = "cancelled", r.number()
	case 0x80, 0x81:
		d.Type, d.EndOfLog = "metadata", first == 0x81
		if backlink() {
			d.Backlink = r.hash()
		}
		d.PayloadSize = r.shortest()
		d.PayloadHash = r.hash()
		d.Signature = r.copied(ed25519.SignatureSize)
	default:
		r.fail(ErrMalformed)
	}
	return d, r.at, r.err
}

// Setup is what an end says of itself before all else.
type Setup struct {
	SendGreedy    bool
	ReceiveGreedy bool
	SendWindow    uint64
	ReceiveWindow uint64
}

// Append writes the setup.
func (s Setup) Append(to []byte) []byte {
	to = append(to, flag(s.SendGreedy, 2)|flag(s.ReceiveGreedy, 1))
	return AppendNumber(AppendNumber(to, s.SendWindow), s.ReceiveWindow)
}

// ReadSetup reads a setup off the front of bytes, and says how many it has.
func ReadSetup(from []byte) (setup Setup, used int, err error) {
	r := &reader{bytes: from}
	flags := r.byte()
	setup.SendGreedy, setup.ReceiveGreedy = flags&2 != 0, flags&1 != 0
	setup.SendWindow = r.number()
	setup.ReceiveWindow = r.number()
	return setup, r.at, r.err
}
