package wire

import (
	"encoding/binary"
	"errors"
	"math"
)

// What ends a bymux session.
var (
	ErrFrameType = errors.New("bymux.type")
	ErrStream    = errors.New("bymux.stream")
	ErrCredit    = errors.New("bymux.credit")
	ErrClosed    = errors.New("bymux.closed")
)

// The two streams of Bamboo.
const (
	ControlStream = 0
	DataStream    = 1
)

const (
	maxWrite   = 16 << 10
	frameTypes = 6
)

var frameNames = [frameTypes]string{"credit", "write", "ping", "pong", "close", "stop_read"}

const (
	frameCredit = iota
	frameWrite
	framePing
	framePong
)

// FrameHead is a frame without the bytes of a write.
type FrameHead struct {
	Type   int
	Global bool
	Stream uint64
	Amount uint64 // of a credit or a write; of a global write, the id of the stream that it creates
}

// Name is what the vectors call the type.
func (h FrameHead) Name() string { return frameNames[h.Type] }

func (h FrameHead) hasAmount() bool { return h.Type == frameCredit || h.Type == frameWrite }

func width(number uint64) (code, count int) {
	switch {
	case number <= math.MaxUint8:
		return 0, 1
	case number <= math.MaxUint16:
		return 1, 2
	case number <= math.MaxUint32:
		return 2, 4
	}
	return 3, 8
}

func appendBig(to []byte, number uint64, count int) []byte {
	all := binary.BigEndian.AppendUint64(nil, number)
	return append(to, all[8-count:]...)
}

// Append writes a head with numbers of the least width.
func (h FrameHead) Append(to []byte) []byte {
	first := h.Type << 5
	var numbers []byte
	if h.Global {
		first |= 0x10
	} else {
		code, count := width(h.Stream)
		first |= code << 2
		numbers = appendBig(numbers, h.Stream, count)
	}
	if h.hasAmount() {
		code, count := width(h.Amount)
		first |= code
		numbers = appendBig(numbers, h.Amount, count)
	}
	return append(append(to, byte(first)), numbers...)
}

// ReadFrameHead reads a head off the front of bytes, and says how many it has.
func ReadFrameHead(from []byte) (head FrameHead, used int, err error) {
	r := &reader{bytes: from}
	first := r.byte()
	head.Type = int(first >> 5)
	if r.err == nil && head.Type >= frameTypes {
		return head, 0, ErrFrameType
	}
	big := func(code byte) (number uint64) {
		for _, one := range r.take(1 << (code & 3)) {
			number = number<<8 | uint64(one)
		}
		return number
	}
	if head.Global = first&0x10 != 0; !head.Global {
		head.Stream = big(first >> 2)
	}
	if head.hasAmount() {
		head.Amount = big(first)
	}
	return head, r.at, r.err
}

// Mux is one end of a session whose streams 0 and 1 exist from the start.
type Mux struct {
	Send uint64 // what may still be written on the data stream
	Out  []byte // frames to be sent

	grant    uint64 // what the other end may still write on the data stream
	consumed uint64 // of what it wrote, not granted again yet
	in       []byte
	rest     uint64 // of the write whose head was read
	stream   uint64
}

// NewMux grants a window of the data stream.
func NewMux(window uint64) *Mux {
	m := &Mux{grant: window}
	m.Out = FrameHead{Type: frameCredit, Stream: DataStream, Amount: window}.Append(nil)
	return m
}

// Write frames bytes of a stream; those of the data stream have been allowed by Send.
func (m *Mux) Write(stream uint64, bytes []byte) {
	for len(bytes) > 0 {
		part := bytes[:min(len(bytes), maxWrite)]
		bytes = bytes[len(part):]
		m.Out = FrameHead{Type: frameWrite, Stream: stream, Amount: uint64(len(part))}.Append(m.Out)
		m.Out = append(m.Out, part...)
		if stream == DataStream && m.Send != math.MaxUint64 {
			m.Send -= uint64(len(part))
		}
	}
}

// Consumed says that so many bytes of the data stream are done with, and grants them again in time.
func (m *Mux) Consumed(count uint64) {
	m.consumed += count
	if m.consumed > 0 && m.consumed >= m.grant {
		m.Out = FrameHead{Type: frameCredit, Stream: DataStream, Amount: m.consumed}.Append(m.Out)
		m.grant += m.consumed
		m.consumed = 0
	}
}

// Receive takes bytes of the connection and hands on what they carry, in order.
func (m *Mux) Receive(bytes []byte, deliver func(stream uint64, bytes []byte) error) error {
	m.in = append(m.in, bytes...)
	for {
		if m.rest > 0 && len(m.in) > 0 {
			part := m.in[:min(m.rest, uint64(len(m.in)))]
			m.in = m.in[len(part):]
			m.rest -= uint64(len(part))
			if err := deliver(m.stream, part); err != nil {
				return err
			}
			continue
		}
		head, used, err := ReadFrameHead(m.in)
		if m.rest > 0 || err == ErrShort {
			return nil
		}
		if err == nil {
			err = m.frame(head)
		}
		if err != nil {
			return err
		}
		m.in = m.in[used:]
	}
}

func (m *Mux) frame(head FrameHead) error {
	if head.Global || head.Stream > DataStream {
		return ErrStream
	}
	switch head.Type {
	case frameCredit:
		if head.Stream == ControlStream || m.Send == math.MaxUint64 {
			// It has all there is; nothing more may be added.
			if head.Amount > 0 {
				return ErrCredit
			}
		} else if head.Amount == 0 {
			m.Send = math.MaxUint64
		} else if head.Amount > math.MaxUint64-m.Send {
			return ErrCredit
		} else {
			m.Send += head.Amount
		}
	case frameWrite:
		if head.Stream == DataStream {
			if head.Amount > m.grant {
				return ErrCredit
			}
			m.grant -= head.Amount
		}
		m.rest, m.stream = head.Amount, head.Stream
	case framePing:
		m.Out = FrameHead{Type: framePong, Stream: head.Stream}.Append(m.Out)
	case framePong:
	default:
		return ErrClosed
	}
	return nil
}
