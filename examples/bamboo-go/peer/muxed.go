package peer

import (
	"io"
	"net"
	"time"

	"culm.example/bamboo-go/wire"
)

const dataWindow = 256 << 10

// muxed carries both channels over one TCP connection: setup bytes, then bymux.
type muxed struct {
	net   net.Conn
	mux   *wire.Mux
	setup []byte // what has come of the other end's
	ready bool   // that is through
	out   chan []byte
	busy  bool
}

func newMuxed(connection net.Conn) *muxed {
	return &muxed{net: connection, mux: wire.NewMux(dataWindow), out: make(chan []byte, 1)}
}

func (m *muxed) remote() net.Addr { return m.net.RemoteAddr() }

func (m *muxed) writing() bool { return m.busy }

func (m *muxed) start(c *conn) {
	// Setup goes before all frames.
	own := c.session.settings.Setup.Append(nil)
	c.session.Control = c.session.Control[len(own):]
	m.mux.Out = append(own, m.mux.Out...)
	go m.read(c)
	go m.write(c)
}

func (m *muxed) read(c *conn) {
	buffer := make([]byte, 64<<10)
	read := make(chan bool)
	for {
		count, err := m.net.Read(buffer)
		c.hub.Do(func() {
			if err != nil {
				c.drop(err)
			} else if !c.closed {
				if err := m.receive(c, buffer[:count]); err != nil {
					c.drop(err)
				}
			}
			go func() { read <- true }()
		})
		<-read
		if err != nil {
			return
		}
	}
}

func (m *muxed) receive(c *conn, bytes []byte) error {
	if !m.ready {
		m.setup = append(m.setup, bytes...)
		_, used, err := wire.ReadSetup(m.setup)
		if err != nil {
			return nil
		}
		m.ready = true
		bytes = m.setup[used:]
		if err := c.session.ReceiveControl(m.setup[:used]); err != nil {
			return err
		}
	}
	return m.mux.Receive(bytes, func(stream uint64, bytes []byte) error {
		if stream == wire.ControlStream {
			return c.session.ReceiveControl(bytes)
		}
		return c.data(bytes)
	})
}

func (m *muxed) flush(c *conn) {
	if m.busy {
		return
	}
	s := c.session
	if m.mux.Send > 0 && len(s.Data) == 0 {
		s.Pump()
	}
	m.mux.Write(wire.ControlStream, s.Control)
	s.Control = nil
	part := s.Data[:min(uint64(len(s.Data)), m.mux.Send)]
	m.mux.Write(wire.DataStream, part)
	s.Data = s.Data[len(part):]
	m.mux.Consumed(s.Consumed)
	s.Consumed = 0
	if len(m.mux.Out) > 0 {
		m.busy = true
		m.out <- m.mux.Out
		m.mux.Out = nil
	}
}

func (m *muxed) write(c *conn) {
	for bytes := range m.out {
		_, err := m.net.Write(bytes)
		c.hub.Do(func() {
			m.busy = false
			if err != nil {
				c.drop(err)
			}
		})
	}
}

func (m *muxed) close(error) {
	close(m.out)
	m.net.Close()
}

// leave closes the connection when the other end has read all: unread bytes here would make that a reset.
func (m *muxed) leave() {
	if tcp, is := m.net.(*net.TCPConn); is {
		tcp.CloseWrite()
		tcp.SetReadDeadline(time.Now().Add(time.Second))
		io.Copy(io.Discard, tcp)
		tcp.Close()
	}
}
