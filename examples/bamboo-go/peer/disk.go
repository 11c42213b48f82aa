package peer

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"culm.example/bamboo-go/wire"
)

// disk mirrors a store in a folder: for each log a folder KEY-ID-FLAVOUR with the file `entries`, whole entries
// one behind the other, and files SEQ.payload and SEQ.part. A nil disk keeps nothing.
type disk struct {
	folder  string
	flavour *wire.Flavour
}

func (d *disk) path(log *Log, name string) (string, error) {
	folder := filepath.Join(d.folder, fmt.Sprintf("%x-%d-%s", log.Name.Author, log.Name.ID, d.flavour.Name))
	return filepath.Join(folder, name), os.MkdirAll(folder, 0o755)
}

func (d *disk) write(log *Log, name string, flags int, bytes []byte) error {
	path, err := d.path(log, name)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, 0o644)
	if err != nil {
		return err
	}
	if _, err = file.Write(bytes); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

func (d *disk) entry(log *Log, entry *wire.Entry) error {
	if d == nil {
		return nil
	}
	return d.write(log, "entries", os.O_APPEND, entry.Bytes)
}

func (d *disk) payload(log *Log, seqNum uint64, payload []byte) error {
	if d == nil {
		return nil
	}
	name := strconv.FormatUint(seqNum, 10)
	// A payload that is there by its name is whole.
	if err := d.write(log, name+".part", os.O_TRUNC, payload); err != nil {
		return err
	}
	path, err := d.path(log, name)
	if err != nil {
		return err
	}
	return os.Rename(path+".part", path+".payload")
}

func (d *disk) part(log *Log, seqNum, offset uint64, bytes []byte) error {
	if d == nil {
		return nil
	}
	flags := os.O_APPEND
	if offset == 0 {
		flags = os.O_TRUNC
	}
	return d.write(log, strconv.FormatUint(seqNum, 10)+".part", flags, bytes)
}

func (d *disk) load(store *Store) error {
	folders, err := filepath.Glob(filepath.Join(d.folder, "*-*-"+d.flavour.Name))
	if err != nil {
		return err
	}
	for _, folder := range folders {
		parts := strings.Split(filepath.Base(folder), "-")
		name, err := ParseLogName(parts[0] + "/" + parts[1])
		if err != nil {
			return err
		}
		if err := d.loadLog(store.Log(name), folder); err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) loadLog(log *Log, folder string) error {
	path := filepath.Join(folder, "entries")
	held, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for rest := held; len(rest) > 0; {
		entry, used, err := wire.ReadEntry(rest, d.flavour)
		if err != nil {
			// The last one, of a process that was killed while it wrote.
			if err := os.Truncate(path, int64(len(held)-len(rest))); err != nil {
				return err
			}
			break
		}
		log.keep(entry)
		rest = rest[used:]
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, file := range files {
		number, kind, _ := strings.Cut(file.Name(), ".")
		seqNum, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			continue
		}
		bytes, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			return err
		}
		if kind == "payload" {
			log.payloads[seqNum] = bytes
		} else if len(bytes) > 0 {
			log.parts[seqNum] = bytes
		}
	}
	return nil
}
