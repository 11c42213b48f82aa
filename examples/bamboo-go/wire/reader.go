// Package wire is Bamboo Point-2-Point as bytes: numbers, hashes, entries, messages, bymux frames, LZFoo.
package wire

import "errors"

// ErrShort says that more bytes are needed; ErrMalformed that no further bytes can help.
var (
	ErrShort     = errors.New("more bytes are needed")
	ErrMalformed = errors.New("malformed")
)

// reader takes fields off the front of bytes that may not all be there yet. Its first error stays, so a
// decoder reads all fields and asks once at the end.
type reader struct {
	bytes   []byte
	flavour *Flavour // of the hashes; nil where there are none
	at      int
	err     error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// take returns the next count bytes, nil when there was an error.
func (r *reader) take(count int) []byte {
	if r.err == nil && len(r.bytes)-r.at < count {
		r.err = ErrShort
	}
	if r.err != nil {
		return nil
	}
	taken := r.bytes[r.at : r.at+count]
	r.at += count
	return taken
}

func (r *reader) byte() byte {
	if taken := r.take(1); taken != nil {
		return taken[0]
	}
	return 0
}

// number reads a VarU64 in any form.
func (r *reader) number() uint64 {
	first := r.byte()
	if first < 248 {
		return uint64(first)
	}
	var number uint64
	for _, one := range r.take(int(first) - 247) {
		number = number<<8 | uint64(one)
	}
	return number
}

// shortest reads a VarU64 that must be in its shortest form; a longer one is told by its first bytes.
func (r *reader) shortest() uint64 {
	if r.err != nil {
		return 0
	}
	from := r.at
	number := r.number()
	if rest := r.bytes[from:]; len(rest) >= 2 && rest[0] >= 248 {
		if (rest[0] == 248 && rest[1] < 248) || (rest[0] > 248 && rest[1] == 0) {
			r.err = ErrMalformed
		}
	}
	return number
}

// copied is take, in memory of its own: what was read from is a buffer that goes on.
func (r *reader) copied(count int) []byte {
	return append([]byte(nil), r.take(count)...)
}
