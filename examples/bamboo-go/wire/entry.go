package wire

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"slices"
)

// Entry is one entry of a log. Its bytes and its hash are there when it was signed or read.
type Entry struct {
	EndOfLog    bool
	Author      [32]byte
	LogID       uint64
	SeqNum      uint64
	Lipmaalink  Hash // nil where it would be the backlink, and in entry 1
	Backlink    Hash // nil in entry 1
	PayloadSize uint64
	PayloadHash Hash
	Signature   []byte

	Flavour *Flavour
	Bytes   []byte
	Hash    Hash
}

// HasLipmaalink says whether an entry of this number writes a lipmaalink of its own.
func HasLipmaalink(seqNum uint64) bool { return seqNum > 1 && Lipmaa(seqNum) != seqNum-1 }

func (e *Entry) unsigned() []byte {
	var out []byte
	if e.EndOfLog {
		out = append(out, 1)
	} else {
		out = append(out, 0)
	}
	out = append(out, e.Author[:]...)
	out = AppendNumber(out, e.LogID)
	out = AppendNumber(out, e.SeqNum)
	out = append(out, e.Lipmaalink...)
	out = append(out, e.Backlink...)
	out = AppendNumber(out, e.PayloadSize)
	return append(out, e.PayloadHash...)
}

// Seal makes bytes and hash of the fields.
func (e *Entry) Seal() {
	e.Bytes = append(e.unsigned(), e.Signature...)
	e.Hash = e.Flavour.HashOf(e.Bytes)
}

// Sign signs an entry and seals it.
func (e *Entry) Sign(key ed25519.PrivateKey) {
	e.Signature = ed25519.Sign(key, e.unsigned())
	e.Seal()
}

// Verified says whether the author has signed it.
func (e *Entry) Verified() bool {
	return signed(e.Author[:], e.Bytes[:len(e.Bytes)-ed25519.SignatureSize], e.Signature)
}

func (r *reader) entry() *Entry {
	entry := &Entry{Flavour: r.flavour}
	from := r.at
	tag := r.byte()
	if tag > 1 {
		r.fail(ErrMalformed)
	}
	entry.EndOfLog = tag == 1
	copy(entry.Author[:], r.take(32))
	entry.LogID = r.shortest()
	entry.SeqNum = r.shortest()
	if r.err == nil && entry.SeqNum == 0 {
		r.err = ErrMalformed
	}
	if HasLipmaalink(entry.SeqNum) {
		entry.Lipmaalink = r.hash()
	}
	if entry.SeqNum > 1 {
		entry.Backlink = r.hash()
	}
	entry.PayloadSize = r.shortest()
	entry.PayloadHash = r.hash()
	entry.Signature = r.copied(ed25519.SignatureSize)
	if r.err == nil {
		entry.Bytes = slices.Clone(r.bytes[from:r.at])
		entry.Hash = r.flavour.HashOf(entry.Bytes)
	}
	return entry
}

// ReadEntry reads one entry off the front of bytes, and says how many it has.
func ReadEntry(from []byte, flavour *Flavour) (*Entry, int, error) {
	r := &reader{bytes: from, flavour: flavour}
	entry := r.entry()
	return entry, r.at, r.err
}

// link is the hash that an entry states of another one of its log, nil where it states none.
func (e *Entry) link(seqNum uint64) Hash {
	switch {
	case e.SeqNum < 2 || seqNum == 0:
		return nil
	case seqNum == e.SeqNum-1:
		return e.Backlink
	case seqNum == Lipmaa(e.SeqNum):
		return e.Lipmaalink
	}
	return nil
}

// ProveFork says whether two entries, each signed by the author of one log, cannot both be of it.
func ProveFork(a, b *Entry) bool {
	if a.Author != b.Author || a.LogID != b.LogID {
		return false
	}
	if a.SeqNum > b.SeqNum {
		a, b = b, a
	}
	if a.SeqNum == b.SeqNum {
		if a.PayloadSize != b.PayloadSize || a.EndOfLog != b.EndOfLog || !bytes.Equal(a.PayloadHash, b.PayloadHash) {
			return true
		}
	} else if a.EndOfLog {
		return true
	}
	if link := b.link(a.SeqNum); link != nil && !bytes.Equal(link, a.Hash) {
		return true
	}
	if a.SeqNum > 1 {
		for _, target := range []uint64{a.SeqNum - 1, Lipmaa(a.SeqNum)} {
			of, other := a.link(target), b.link(target)
			if of != nil && other != nil && !bytes.Equal(of, other) {
				return true
			}
		}
	}
	return false
}

// Small orders, and the field's prime: the least significant byte first, without the sign.
var smallOrders = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

// signed is Ed25519 as libsodium has it: besides what Go checks, no point of a small order, and no key
// that is written in another than its shortest form. Two ends must agree about what is a signature.
func signed(key, message, signature []byte) bool {
	return !smallOrder(key) && !smallOrder(signature[:32]) && canonicalPoint(key) &&
		ed25519.Verify(key, message, signature)
}

func smallOrder(point []byte) bool {
	unsigned := slices.Clone(point)
	unsigned[31] &= 0x7f
	return slices.Contains(smallOrders, hex.EncodeToString(unsigned))
}

// canonicalPoint says whether the number is below the prime 2^255 - 19.
func canonicalPoint(point []byte) bool {
	if point[31]&0x7f != 0x7f || point[0] < 0xed {
		return true
	}
	for _, one := range point[1:31] {
		if one != 0xff {
			return true
		}
	}
	return false
}
