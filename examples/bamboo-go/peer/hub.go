package peer

import (
	"errors"
	"io"
	"net"
	"time"

	"culm.example/bamboo-go/wire"
)

const (
	dataWindow = 256 << 10
	tickEvery  = 20 * time.Millisecond
)

// Hub is one store with any number of TCP connections; all work on them is done in turn by one loop.
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

// Listen serves whoever calls, and never returns but for an error.
func (h *Hub) Listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	h.tell(map[string]any{"event": "listening", "address": listener.Addr().String()})
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			h.Do(func() { h.start(connection, false) })
		}
	}()
	h.loop(func() bool { return false })
	return nil
}

// Call connects and returns an exit status when all wants are met or cannot be: 0 met, 1 the connection
// failed, 3 refused, 4 forked.
func (h *Hub) Call(address string) int {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		h.tell(map[string]any{"event": "closed", "why": err.Error()})
		return 1
	}
	var c *conn
	go h.Do(func() { c = h.start(connection, true) })
	h.loop(func() bool { return c != nil && (c.closed || (c.over() && !c.writing)) })
	c.leave()
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

// conn is one TCP connection: setup bytes, then bymux.
type conn struct {
	hub     *Hub
	net     net.Conn
	session *Session
	mux     *wire.Mux
	setup   []byte // what has come of the other end's
	ready   bool   // that is through
	out     chan []byte
	writing bool
	closed  bool
	wishes  []*wish
}

func (h *Hub) start(connection net.Conn, proactive bool) *conn {
	c := &conn{hub: h, net: connection, mux: wire.NewMux(dataWindow), out: make(chan []byte, 1)}
	c.session = NewSession(h.store, proactive, h.Settings, c.event)
	own := h.Settings.Setup.Append(nil)
	c.session.Control = c.session.Control[len(own):]
	c.mux.Out = append(own, c.mux.Out...)
	for _, want := range h.Wants {
		c.wishes = append(c.wishes, &wish{Want: want})
	}
	h.conns[c] = true
	h.tell(map[string]any{"event": "connected", "address": connection.RemoteAddr().String()})
	go c.read()
	go c.write()
	return c
}

// leave closes the connection when the other end has read all: unread bytes here would make that a reset.
func (c *conn) leave() {
	if tcp, is := c.net.(*net.TCPConn); is && !c.closed {
		tcp.CloseWrite()
		tcp.SetReadDeadline(time.Now().Add(time.Second))
		io.Copy(io.Discard, tcp)
		tcp.Close()
	}
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

func (c *conn) read() {
	buffer := make([]byte, 64<<10)
	read := make(chan bool)
	for {
		count, err := c.net.Read(buffer)
		c.hub.Do(func() {
			if err != nil {
				c.drop(err)
			} else if !c.closed {
				c.receive(buffer[:count])
			}
			go func() { read <- true }()
		})
		<-read
		if err != nil {
			return
		}
	}
}

func (c *conn) receive(bytes []byte) {
	if !c.ready {
		c.setup = append(c.setup, bytes...)
		_, used, err := wire.ReadSetup(c.setup)
		if err != nil {
			return
		}
		c.ready = true
		bytes = c.setup[used:]
		if err := c.session.ReceiveControl(c.setup[:used]); err != nil {
			c.drop(err)
			return
		}
	}
	err := c.mux.Receive(bytes, func(stream uint64, bytes []byte) error {
		if stream == wire.ControlStream {
			return c.session.ReceiveControl(bytes)
		}
		for _, w := range c.wishes {
			w.news = time.Now()
		}
		return c.session.ReceiveData(bytes)
	})
	if err != nil {
		c.drop(err)
	}
}

func (c *conn) drop(err error) {
	if c.closed {
		return
	}
	c.closed = true
	delete(c.hub.conns, c)
	close(c.out)
	c.net.Close()
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

// flush writes what there is, unless something is being written: so what cannot go out is not made, either.
func (c *conn) flush() {
	if c.closed || c.writing {
		return
	}
	s := c.session
	if c.mux.Send > 0 && len(s.Data) == 0 {
		s.Pump()
	}
	c.mux.Write(wire.ControlStream, s.Control)
	s.Control = nil
	part := s.Data[:min(uint64(len(s.Data)), c.mux.Send)]
	c.mux.Write(wire.DataStream, part)
	s.Data = s.Data[len(part):]
	c.mux.Consumed(s.Consumed)
	s.Consumed = 0
	if len(c.mux.Out) > 0 {
		c.writing = true
		c.out <- c.mux.Out
		c.mux.Out = nil
	}
}

func (c *conn) write() {
	for bytes := range c.out {
		_, err := c.net.Write(bytes)
		c.hub.Do(func() {
			c.writing = false
			if err != nil {
				c.drop(err)
			}
		})
	}
}
