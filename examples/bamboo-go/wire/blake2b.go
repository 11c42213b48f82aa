package wire

import (
	"encoding/binary"
	"math/bits"
)

// BLAKE2b with 64 bytes of output and no key, from RFC 7693.

const blockBytes = 128

var blake2bStart = [8]uint64{
	0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
	0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
}

var blake2bOrder = [10][16]byte{
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
	{11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
	{7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
	{9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
	{2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
	{12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
	{13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
	{6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
	{10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
}

// blake2b returns the 64 bytes of the hash.
func blake2b(message []byte) []byte {
	state := blake2bStart
	state[0] ^= 0x01010000 ^ 64
	var done uint64
	for len(message) > blockBytes {
		done += blockBytes
		compress(&state, message[:blockBytes], done, 0)
		message = message[blockBytes:]
	}
	var last [blockBytes]byte
	copy(last[:], message)
	compress(&state, last[:], done+uint64(len(message)), ^uint64(0))
	digest := make([]byte, 0, 64)
	for _, word := range state {
		digest = binary.LittleEndian.AppendUint64(digest, word)
	}
	return digest
}

// compress takes one block into the state; no message here is longer than 2^64 bytes.
func compress(state *[8]uint64, block []byte, count, last uint64) {
	var words, v [16]uint64
	for index := range words {
		words[index] = binary.LittleEndian.Uint64(block[8*index:])
	}
	copy(v[:8], state[:])
	copy(v[8:], blake2bStart[:])
	v[12] ^= count
	v[14] ^= last
	for round := range 12 {
		order := &blake2bOrder[round%10]
		mix(&v[0], &v[4], &v[8], &v[12], words[order[0]], words[order[1]])
		mix(&v[1], &v[5], &v[9], &v[13], words[order[2]], words[order[3]])
		mix(&v[2], &v[6], &v[10], &v[14], words[order[4]], words[order[5]])
		mix(&v[3], &v[7], &v[11], &v[15], words[order[6]], words[order[7]])
		mix(&v[0], &v[5], &v[10], &v[15], words[order[8]], words[order[9]])
		mix(&v[1], &v[6], &v[11], &v[12], words[order[10]], words[order[11]])
		mix(&v[2], &v[7], &v[8], &v[13], words[order[12]], words[order[13]])
		mix(&v[3], &v[4], &v[9], &v[14], words[order[14]], words[order[15]])
	}
	for index := range state {
		state[index] ^= v[index] ^ v[index+8]
	}
}

func mix(a, b, c, d *uint64, x, y uint64) {
	*a += *b + x
	*d = bits.RotateLeft64(*d^*a, -32)
	*c += *d
	*b = bits.RotateLeft64(*b^*c, -24)
	*a += *b + y
	*d = bits.RotateLeft64(*d^*a, -16)
	*c += *d
	*b = bits.RotateLeft64(*b^*c, -63)
}
