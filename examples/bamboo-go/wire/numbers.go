package wire

import (
	"math"
	"slices"
)

// AppendNumber writes a VarU64 in its shortest form.
func AppendNumber(to []byte, number uint64) []byte {
	if number < 248 {
		return append(to, byte(number))
	}
	count := 1
	for rest := number >> 8; rest > 0; rest >>= 8 {
		count++
	}
	to = append(to, byte(247+count))
	for shift := 8 * (count - 1); shift >= 0; shift -= 8 {
		to = append(to, byte(number>>shift))
	}
	return to
}

// spine is 1, 4, 13, 40, … (3^j - 1)/2, as far as 64 bits go.
var spine = func() []uint64 {
	var all []uint64
	for one := uint64(1); ; one = 3*one + 1 {
		all = append(all, one)
		if one > (math.MaxUint64-1)/3 {
			return all
		}
	}
}()

// Lipmaa is the number of the entry that the lipmaalink of entry number points to; 0 for entry 1.
func Lipmaa(number uint64) uint64 {
	at, found := slices.BinarySearch(spine, number)
	if found {
		if at == 0 {
			return 0
		}
		return spine[at-1]
	}
	for rest := number; at > 0; {
		at--
		if rest %= spine[at]; rest == 0 {
			return number - spine[at]
		}
	}
	return 0
}

// LowerPool is number, lipmaa(number), lipmaa(lipmaa(number)), … 1.
func LowerPool(number uint64) []uint64 {
	var pool []uint64
	for ; number > 0; number = Lipmaa(number) {
		pool = append(pool, number)
	}
	return pool
}

// Path is the shortest path between two entries, ascending.
func Path(low, high uint64) []uint64 {
	path := []uint64{high}
	for high > low {
		if next := Lipmaa(high); next >= low {
			high = next
		} else {
			high--
		}
		path = append(path, high)
	}
	slices.Reverse(path)
	return path
}

// UpperPool is number and what proves it from the next number of the spine on, ascending.
func UpperPool(number uint64) []uint64 {
	at, _ := slices.BinarySearch(spine, number)
	if at == len(spine) {
		return Path(number, math.MaxUint64)
	}
	return Path(number, spine[at])
}
