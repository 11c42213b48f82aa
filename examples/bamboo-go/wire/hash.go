package wire

import (
	"encoding/hex"
	"errors"

	"lukechampine.com/blake3"
)

// Hex is bytes that JSON shows as lower-case digits.
type Hex []byte

// MarshalText writes the digits.
func (h Hex) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

// UnmarshalText reads the digits.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.AppendDecode(nil, text)
	return err
}

// Hash is a hash as it is written: its type, its length, its digest.
type Hash = Hex

// Flavour is the kind of all hashes of a connection, and so of the logs that go over it.
type Flavour struct {
	Name   string
	prefix [2]byte // type and length of every hash
	digest func([]byte) []byte
}

// The two flavours.
var (
	Yamf = &Flavour{"yamf", [2]byte{0x00, 0x40}, blake2b}

	Yasmf = &Flavour{"yasmf", [2]byte{0x00, 0x20}, func(message []byte) []byte {
		digest := blake3.Sum256(message)
		return digest[:]
	}}
)

// FlavourNamed is the flavour of this name.
func FlavourNamed(name string) (*Flavour, error) {
	for _, flavour := range []*Flavour{Yamf, Yasmf} {
		if flavour.Name == name {
			return flavour, nil
		}
	}
	return nil, errors.New("a flavour is yamf or yasmf")
}

// HashOf is the hash of bytes.
func (f *Flavour) HashOf(message []byte) Hash {
	return append(Hash(f.prefix[:2:2]), f.digest(message)...)
}

// hash reads a hash of the reader's flavour; another form is told by its first two bytes.
func (r *reader) hash() Hash {
	if r.err != nil {
		return nil
	}
	prefix := r.flavour.prefix
	for index, want := range prefix {
		if r.at+index < len(r.bytes) && r.bytes[r.at+index] != want {
			r.err = ErrMalformed
			return nil
		}
	}
	return Hash(r.copied(len(prefix) + int(prefix[1])))
}
