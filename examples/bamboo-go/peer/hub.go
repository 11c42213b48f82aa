package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/quic-go/quic-go"

	"culm.example/bamboo-go/wire"
)

const (
	tickEvery = 20 * time.Millisecond
)

// Hub is one store with any number of connections; all work on them is done in turn by one loop.
type Hub struct {
	Settings Settings
	Wants    []Want

	store *Store
	tell  func(any)
	work  chan func()
	conns map[*conn]bool
}

// NewHub has no connection yet.
func NewHub(store *Store, tell func(any)) *Hub {
	return &Hub{Settings: DefaultSettings(), store: store, tell: tell, work: make(chan func()), conns: map[*conn]bool{}}
}

// Do has the loop do something that may change what there is to send.
func (h *Hub) Do(what func()) { h.work <- what }

// Listen serves whoever calls, at HOST:PORT or quic://HOST:PORT, and never returns but for an error.
func (h *Hub) Listen(address string) error {
	where, isQuic := strings.CutPrefix(address, quicScheme)
	if isQuic {
		listener, err := listenQuic(where, h.store.Flavour)
		if err != nil {
			return err
		}
		h.listening(listener.Addr())
		go func() {
			for {
				connection, err := listener.Accept(context.Background())
				if err != nil {
					return
				}
				go h.accept(connection)
			}
		}()
	} else {
		listener, err := net.Listen("tcp", where)
		if err != nil {
			return err
		}
		h.listening(listener.Addr())
		go func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				h.Do(func() { h.start(newMuxed(connection), false) })
			}
		}()
	}
	h.loop(func() bool { return false })
	return nil
}

func (h *Hub) listening(at net.Addr) {
	h.tell(map[string]any{"event": "listening", "address": at.String()})
}

// accept waits for the streams of somebody who called.
func (h *Hub) accept(connection *quic.Conn) {
	streams, err := acceptStreams(connection)
	if err != nil {
		connection.CloseWithError(protocolClose, err.Error())
		return
	}
	h.Do(func() { h.start(streams, false) })
}

func (h *Hub) dial(address string) (carrier, error) {
	if where, isQuic := strings.CutPrefix(address, quicScheme); isQuic {
		return dialQuic(where, h.store.Flavour)
	}
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return newMuxed(connection), nil
}

// Call connects and returns an exit status when all wants are met or cannot be: 0 met, 1 the connection
// failed, 3 refused, 4 forked.
func (h *Hub) Call(address string) int {
	connection, err := h.dial(address)
	if err != nil {
		h.tell(map[string]any{"event": "closed", "why": err.Error()})
		return 1
	}
	var c *conn
	go h.Do(func() { c = h.start(connection, true) })
	h.loop(func() bool { return c != nil && (c.closed || (c.over() && !c.carrier.writing())) })
	if !c.closed {
		c.carrier.leave()
	}
	status := 0
	for _, w := range c.wishes {
		switch {
		case !w.over:
			status = 1
		case w.code == wire.OtherHash || w.code == wire.Forked:
			status = 4
		case w.code != wire.Complete:
			status = 3
		}
	}
	return status
}

func (h *Hub) loop(over func() bool) {
	ticks := time.NewTicker(tickEvery)
	defer ticks.Stop()
	for !over() {
		select {
		case work := <-h.work:
			work()
		case now := <-ticks.C:
			for c := range h.conns {
				c.tick(now)
			}
		}
		// What one brought, another may be waiting for.
		for c := range h.conns {
			c.flush()
		}
	}
}

// carrier carries the two channels of a connection; all but its reading and writing is done by the loop.
type carrier interface {
	remote() net.Addr
	// start begins to read and to write for a connection.
	start(c *conn)
	// flush writes what there is, unless something is being written: so what cannot go out is not made, either.
	flush(c *conn)
	writing() bool
	// close ends the connection at once, for a violation or for another reason.
	close(err error)
	// leave ends it when the other end has read all.
	leave()
}

// conn is one connection: a session, and what carries it.
type conn struct {
	hub     *Hub
	carrier carrier
	session *Session
	closed  bool
	wishes  []*wish
}

func (h *Hub) start(carrier carrier, proactive bool) *conn {
	c := &conn{hub: h, carrier: carrier}
	c.session = NewSession(h.store, proactive, h.Settings, c.event)
	for _, want := range h.Wants {
		c.wishes = append(c.wishes, &wish{Want: want})
	}
	h.conns[c] = true
	h.tell(map[string]any{"event": "connected", "address": carrier.remote().String()})
	carrier.start(c)
	return c
}

func (c *conn) event(event Event) {
	c.hub.tell(event)
	for _, w := range c.wishes {
		over := w.over
		w.hear(c.session, event, time.Now())
		c.announce(w, over)
	}
}

func (c *conn) announce(w *wish, before bool) {
	if w.over && !before {
		c.hub.tell(Event{Kind: "over", Log: w.Log.String(), Code: w.code})
	}
}

func (c *conn) over() bool {
	for _, w := range c.wishes {
		if !w.over {
			return false
		}
	}
	return true
}

func (c *conn) tick(now time.Time) {
	if err := c.session.Late(now); err != nil {
		c.drop(err)
		return
	}
	for _, w := range c.wishes {
		over := w.over
		w.seek(c.session, now)
		w.tick(c.session, now)
		c.announce(w, over)
	}
}

// data takes bytes of the data channel.
func (c *conn) data(bytes []byte) error {
	for _, w := range c.wishes {
		w.news = time.Now()
	}
	return c.session.ReceiveData(bytes)
}

func (c *conn) drop(err error) {
	if c.closed {
		return
	}
	c.closed = true
	delete(c.hub.conns, c)
	c.carrier.close(err)
	var violation *Violation
	switch {
	case errors.As(err, &violation):
		c.hub.tell(map[string]any{"event": "dropped", "number": violation.Number, "why": violation.Why})
	case errors.Is(err, io.EOF):
		c.hub.tell(map[string]any{"event": "closed"})
	default:
		c.hub.tell(map[string]any{"event": "closed", "why": err.Error()})
	}
}

func (c *conn) flush() {
	if !c.closed {
		c.carrier.flush(c)
	}
}
