package wire

import "errors"

// ErrCompression says that bytes are no LZFoo of what was claimed.
var ErrCompression = errors.New("wrong LZFoo")

// Expander decompresses the LZFoo of one direction; copies reach into what came before.
type Expander struct {
	Window  uint64
	history []byte
}

// Expand returns the length bytes that the packed ones stand for.
func (e *Expander) Expand(packed []byte, length int) ([]byte, error) {
	out := e.history
	before := len(out)
	from := &reader{bytes: packed}
	for from.at < len(packed) {
		tag := from.byte()
		count := uint64(tag & 0x7f)
		if count >= 120 {
			var long uint64
			for _, one := range from.take(int(count) - 119) {
				long = long<<8 | uint64(one)
			}
			count = long
		}
		// Judged before anything is made of it: it is no more than a claim.
		if count > uint64(length-(len(out)-before)) {
			return nil, ErrCompression
		}
		if tag&0x80 == 0 {
			out = append(out, from.take(int(count))...)
		} else {
			back := from.number()
			if from.err != nil || back == 0 || back > e.Window || back > uint64(len(out)) {
				return nil, ErrCompression
			}
			for range count {
				out = append(out, out[len(out)-int(back)])
			}
		}
		if from.err != nil {
			return nil, ErrCompression
		}
	}
	if len(out)-before != length {
		return nil, ErrCompression
	}
	expanded := append([]byte(nil), out[before:]...)
	if excess := len(out) - int(min(e.Window, uint64(len(out)))); excess > 0 {
		out = append([]byte(nil), out[excess:]...)
	}
	e.history = out
	return expanded, nil
}
