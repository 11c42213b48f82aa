// Package peer is an end of Bamboo Point-2-Point: a store of logs, and sessions that exchange them.
package peer

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"culm.example/bamboo-go/wire"
)

// LogName names a log.
type LogName struct {
	Author [32]byte
	ID     uint64
}

// String is KEY/ID.
func (n LogName) String() string { return fmt.Sprintf("%x/%d", n.Author, n.ID) }

// ParseLogName reads KEY/ID.
func ParseLogName(text string) (name LogName, err error) {
	key, id, _ := strings.Cut(text, "/")
	author, err := hex.DecodeString(key)
	if err == nil && len(author) != 32 {
		err = fmt.Errorf("%q is not KEY/ID with the author's key in hex", text)
	}
	if err == nil {
		name.ID, err = strconv.ParseUint(id, 10, 64)
	}
	copy(name.Author[:], author)
	return name, err
}

// Log is what is held of a log: verified entries of one branch, whole payloads, beginnings of payloads.
type Log struct {
	Name     LogName
	Tip      uint64         // the largest number held
	EndsAt   uint64         // the entry that ended it, 0 if none is known
	Proof    [2]*wire.Entry // that it is forked, if it is known to be
	entries  map[uint64]*wire.Entry
	payloads map[uint64][]byte
	parts    map[uint64][]byte
	disk     *disk
}

// Store is the logs of one flavour that an end holds.
type Store struct {
	Flavour *wire.Flavour
	logs    map[LogName]*Log
	disk    *disk
}

// NewStore holds logs in memory, and in a folder if one is named.
func NewStore(folder string, flavour *wire.Flavour) (*Store, error) {
	store := &Store{Flavour: flavour, logs: map[LogName]*Log{}}
	if folder == "" {
		return store, nil
	}
	store.disk = &disk{folder: folder, flavour: flavour}
	return store, store.disk.load(store)
}

// Log is a log of this store, made if there is none.
func (s *Store) Log(name LogName) *Log {
	log := s.logs[name]
	if log == nil {
		log = &Log{
			Name:     name,
			entries:  map[uint64]*wire.Entry{},
			payloads: map[uint64][]byte{},
			parts:    map[uint64][]byte{},
			disk:     s.disk,
		}
		s.logs[name] = log
	}
	return log
}

// Known is a log of this store, nil if nothing of it is held.
func (s *Store) Known(name LogName) *Log { return s.logs[name] }

// Entry is the entry of this number, nil if it is not held.
func (l *Log) Entry(seqNum uint64) *wire.Entry {
	if l == nil {
		return nil
	}
	return l.entries[seqNum]
}

// Payload is the payload of an entry; held says whether it is here, for it may be empty.
func (l *Log) Payload(seqNum uint64) (payload []byte, held bool) {
	entry := l.Entry(seqNum)
	if entry == nil {
		return nil, false
	}
	if entry.PayloadSize == 0 {
		return nil, true
	}
	payload, held = l.payloads[seqNum]
	return payload, held
}

// Part is how much there is of the beginning of a payload that is not whole.
func (l *Log) Part(seqNum uint64) []byte {
	if l == nil {
		return nil
	}
	return l.parts[seqNum]
}

// Ended is the number of the entry that ended the log, 0 if none is known.
func (l *Log) Ended() uint64 {
	if l == nil {
		return 0
	}
	return l.EndsAt
}

// Contradicts is a held entry that cannot be of one log with this one, nil if there is none.
func (l *Log) Contradicts(entry *wire.Entry) *wire.Entry {
	near := []uint64{entry.SeqNum, entry.SeqNum - 1, entry.SeqNum + 1, wire.Lipmaa(entry.SeqNum), l.EndsAt}
	if entry.EndOfLog {
		near = append(near, l.Tip)
	}
	for _, seqNum := range near {
		held := l.entries[seqNum]
		if held != nil && !bytes.Equal(held.Hash, entry.Hash) && wire.ProveFork(held, entry) {
			return held
		}
	}
	return nil
}

// Add keeps a verified entry that nothing contradicts.
func (l *Log) Add(entry *wire.Entry) error {
	if l.entries[entry.SeqNum] != nil {
		return nil
	}
	l.keep(entry)
	return l.disk.entry(l, entry)
}

func (l *Log) keep(entry *wire.Entry) {
	l.entries[entry.SeqNum] = entry
	l.Tip = max(l.Tip, entry.SeqNum)
	if entry.EndOfLog {
		l.EndsAt = entry.SeqNum
	}
}

// AddPayload keeps a verified payload.
func (l *Log) AddPayload(seqNum uint64, payload []byte) error {
	if _, held := l.Payload(seqNum); held {
		return nil
	}
	l.payloads[seqNum] = payload
	delete(l.parts, seqNum)
	return l.disk.payload(l, seqNum, payload)
}

// AddPart keeps bytes of a payload that begin at an offset; what leaves a gap is not kept.
func (l *Log) AddPart(seqNum, offset uint64, bytes []byte) error {
	if _, held := l.Payload(seqNum); held || (offset > 0 && offset != uint64(len(l.parts[seqNum]))) {
		return nil
	}
	l.parts[seqNum] = append(l.parts[seqNum][:offset], bytes...)
	return l.disk.part(l, seqNum, offset, bytes)
}

// DropPart forgets the beginning of a payload.
func (l *Log) DropPart(seqNum uint64) error {
	delete(l.parts, seqNum)
	return l.disk.part(l, seqNum, 0, nil)
}

// Lacks is the lowest number of a lower pool that is not held, 0 if there is none.
func (l *Log) Lacks(start uint64) (lowest uint64) {
	for _, seqNum := range wire.LowerPool(start) {
		if l.Entry(seqNum) == nil {
			lowest = seqNum
		}
	}
	return lowest
}
