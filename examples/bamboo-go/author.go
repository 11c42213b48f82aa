package main

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"culm.example/bamboo-go/peer"
	"culm.example/bamboo-go/wire"
)

// author signs the entries of a log.
type author struct {
	key     ed25519.PrivateKey
	flavour *wire.Flavour
}

func (a *author) append(log *peer.Log, payload []byte) (*wire.Entry, error) {
	entry := &wire.Entry{
		Flavour: a.flavour, LogID: log.Name.ID, Author: log.Name.Author, SeqNum: log.Tip + 1,
		PayloadSize: uint64(len(payload)), PayloadHash: a.flavour.HashOf(payload),
	}
	if wire.HasLipmaalink(entry.SeqNum) {
		entry.Lipmaalink = log.Entry(wire.Lipmaa(entry.SeqNum)).Hash
	}
	if entry.SeqNum > 1 {
		entry.Backlink = log.Entry(entry.SeqNum - 1).Hash
	}
	entry.Sign(a.key)
	if err := log.Add(entry); err != nil {
		return nil, err
	}
	return entry, log.AddPayload(entry.SeqNum, payload)
}

// makeLog makes SEED/ID:COUNT[:BYTES] as far as it is not there yet. The key comes from the seed, each
// payload from seed and number; without BYTES a payload is a few words.
func makeLog(store *peer.Store, text string) (*author, *peer.Log, error) {
	seed, rest, _ := strings.Cut(text, "/")
	parts := strings.Split(rest, ":")
	var numbers []uint64
	for _, part := range parts {
		number, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("%q is not SEED/ID:COUNT[:BYTES]", text)
		}
		numbers = append(numbers, number)
	}
	if len(numbers) < 2 {
		return nil, nil, fmt.Errorf("%q is not SEED/ID:COUNT[:BYTES]", text)
	}
	made := &author{ed25519.NewKeyFromSeed(wire.Yamf.HashOf([]byte(seed))[2:34]), store.Flavour}
	name := peer.LogName{ID: numbers[0]}
	copy(name.Author[:], made.key.Public().(ed25519.PublicKey))
	log := store.Log(name)
	for log.Tip < numbers[1] {
		payload := []byte(fmt.Sprintf("%s %d", seed, log.Tip+1))
		if len(numbers) > 2 {
			payload = stretched(payload, numbers[2])
		}
		if _, err := made.append(log, payload); err != nil {
			return nil, nil, err
		}
	}
	return made, log, nil
}

// stretched is so many bytes that look random.
func stretched(words []byte, count uint64) []byte {
	var out []byte
	for block := uint64(0); uint64(len(out)) < count; block++ {
		out = append(out, wire.Yamf.HashOf(binary.BigEndian.AppendUint64(words, block))[2:]...)
	}
	return out[:count]
}
