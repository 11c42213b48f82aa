package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/fxamacker/cbor/v2"
	"lukechampine.com/blake3"
)

const (
	keySize  = ed25519.PublicKeySize
	hashSize = 34
)

// logName names a log: its author's public key in hex, and the log id.
type logName struct {
	author string
	id     uint64
}

// entry is one entry of a log as it goes over the wire, with its name.
type entry struct {
	bytes, operation []byte
	log              logName
	seqNum           uint64
}

// hashOf is what everything is named by: 00 20 and 32 bytes of BLAKE3.
func hashOf(data []byte) []byte {
	sum := blake3.Sum256(data)
	return append([]byte{0x00, 0x20}, sum[:]...)
}

// varU64 appends a number: one byte below 248, else 247 + n and n bytes.
func varU64(to []byte, number uint64) []byte {
	if number < 248 {
		return append(to, byte(number))
	}
	digits := bytes.TrimLeft(binary.BigEndian.AppendUint64(nil, number), "\x00")
	return append(append(to, byte(247+len(digits))), digits...)
}

// takeVarU64 reads a number; the rest is nil where there is none.
func takeVarU64(from []byte) (number uint64, rest []byte) {
	size := 0
	if len(from) > 0 && from[0] >= 248 {
		size = int(from[0]) - 247
	}
	if len(from) <= size {
		return 0, nil
	}
	if size == 0 {
		return uint64(from[0]), from[1:]
	}
	for _, digit := range from[1 : 1+size] {
		number = number<<8 | uint64(digit)
	}
	return number, from[1+size:]
}

// newDocument signs the first entry of a log: a create operation with one field of text.
func newDocument(key ed25519.PrivateKey, logID uint64, schema, field string) (entry, error) {
	name, value, ok := strings.Cut(field, "=")
	if !ok || name == "" {
		return entry{}, errors.New("a field is name=value")
	}
	operation, err := cbor.Marshal([]any{1, 0, schema, map[string]string{name: value}})
	if err != nil {
		return entry{}, err
	}
	public := key.Public().(ed25519.PublicKey)
	data := append([]byte{0}, public...)
	data = varU64(varU64(data, logID), 1)
	data = append(varU64(data, uint64(len(operation))), hashOf(operation)...)
	data = append(data, ed25519.Sign(key, data)...)
	return entry{data, operation, logName{hex.EncodeToString(public), logID}, 1}, nil
}

// check reads whose entry it is, and holds its signature and its operation's hash to it. Whether it follows
// on the one before is not looked at here: whoever keeps logs compares the links too.
func (e *entry) check() error {
	signed := len(e.bytes) - ed25519.SignatureSize
	if signed < 1+keySize+hashSize {
		return errors.New("an entry is cut off")
	}
	author := e.bytes[1 : 1+keySize]
	logID, rest := takeVarU64(e.bytes[1+keySize : signed-hashSize])
	seqNum, rest := takeVarU64(rest)
	if rest == nil || seqNum == 0 {
		return errors.New("an entry has no number")
	}
	if !ed25519.Verify(author, e.bytes[:signed], e.bytes[signed:]) {
		return errors.New("an entry is not signed by its author")
	}
	if !bytes.Equal(e.bytes[signed-hashSize:signed], hashOf(e.operation)) {
		return errors.New("an operation is not that of its entry")
	}
	e.log, e.seqNum = logName{hex.EncodeToString(author), logID}, seqNum
	return nil
}
