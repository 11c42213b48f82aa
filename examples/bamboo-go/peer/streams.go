package peer

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"time"

	"github.com/quic-go/quic-go"

	"culm.example/bamboo-go/wire"
)

const (
	quicScheme = "quic://"
	openWithin = 10 * time.Second

	controlType   = 0x00
	dataType      = 0x01
	normalClose   = 0x100
	protocolClose = 0x01
)

// alpns name the flavour of a connection.
var alpns = map[*wire.Flavour]string{
	wire.Yamf:  "bamboo-p2p/2019-10",
	wire.Yasmf: "bamboo-p2p/2019-10+yasmf",
}

// settingsFor show a key of this run alone: this end lets everybody read.
func settingsFor(flavour *wire.Flavour) (*tls.Config, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	return &tls.Config{
		Certificates:           []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}},
		NextProtos:             []string{alpns[flavour]},
		SessionTicketsDisabled: true,
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // there is no authority: who the other end is, its key says
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 1 {
				if _, is := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey); is {
					return nil
				}
			}
			return errors.New("exactly one certificate with an Ed25519 key is needed")
		},
	}, err
}

func listenQuic(address string, flavour *wire.Flavour) (*quic.Listener, error) {
	settings, err := settingsFor(flavour)
	if err != nil {
		return nil, err
	}
	return quic.ListenAddr(address, settings, &quic.Config{KeepAlivePeriod: 5 * time.Second})
}

// dialQuic calls, and opens both streams; the first byte of each says which it is.
func dialQuic(address string, flavour *wire.Flavour) (*streams, error) {
	settings, err := settingsFor(flavour)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openWithin)
	defer cancel()
	connection, err := quic.DialAddr(ctx, address, settings, &quic.Config{KeepAlivePeriod: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	var opened [2]*quic.Stream
	for kind := range opened {
		if opened[kind], err = connection.OpenStreamSync(ctx); err != nil {
			return nil, err
		}
		if _, err := opened[kind].Write([]byte{byte(kind)}); err != nil {
			return nil, err
		}
	}
	return newStreams(connection, opened), nil
}

// acceptStreams waits for the two streams of who called.
func acceptStreams(connection *quic.Conn) (*streams, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openWithin)
	defer cancel()
	var opened [2]*quic.Stream
	for range opened {
		stream, err := connection.AcceptStream(ctx)
		if err != nil {
			return nil, err
		}
		kind := []byte{0}
		stream.SetReadDeadline(time.Now().Add(openWithin))
		if _, err := stream.Read(kind); err != nil {
			return nil, err
		}
		stream.SetReadDeadline(time.Time{})
		if kind[0] > dataType || opened[kind[0]] != nil {
			return nil, errors.New("a stream is neither control nor data")
		}
		opened[kind[0]] = stream
	}
	return newStreams(connection, opened), nil
}

// streams carries each channel by a QUIC stream of its own.
type streams struct {
	connection *quic.Conn
	both       [2]*quic.Stream
	out        [2]chan []byte
	busy       [2]bool
}

func newStreams(connection *quic.Conn, both [2]*quic.Stream) *streams {
	return &streams{connection: connection, both: both, out: [2]chan []byte{make(chan []byte, 1), make(chan []byte, 1)}}
}

func (q *streams) remote() net.Addr { return q.connection.RemoteAddr() }

func (q *streams) writing() bool { return q.busy[controlType] || q.busy[dataType] }

func (q *streams) start(c *conn) {
	for kind := range q.both {
		go q.read(c, kind)
		go q.write(c, kind)
	}
}

// read takes what comes of a stream. Data that waits for control is not read on, so that its window closes.
func (q *streams) read(c *conn, kind int) {
	buffer := make([]byte, 64<<10)
	for {
		count, err := q.both[kind].Read(buffer)
		if count > 0 {
			err = nil // it comes again
		}
		paused := make(chan bool, 1)
		c.hub.Do(func() {
			if err == nil && !c.closed {
				if kind == controlType {
					err = c.session.ReceiveControl(buffer[:count])
				} else {
					err = c.data(buffer[:count])
				}
			}
			if err != nil {
				c.drop(err)
			}
			paused <- !c.session.PausedAt.IsZero()
		})
		for waits := <-paused; kind == dataType && err == nil && waits; waits = <-paused {
			time.Sleep(tickEvery)
			c.hub.Do(func() { paused <- !c.session.PausedAt.IsZero() && !c.closed })
		}
		if err != nil {
			return
		}
	}
}

func (q *streams) flush(c *conn) {
	s := c.session
	if !q.busy[dataType] && len(s.Data) == 0 {
		s.Pump()
	}
	// What Pump ended is said on control first.
	s.Control = q.put(controlType, s.Control)
	s.Data = q.put(dataType, s.Data)
	s.Consumed = 0
}

func (q *streams) put(kind int, bytes []byte) (rest []byte) {
	if q.busy[kind] || len(bytes) == 0 {
		return bytes
	}
	q.busy[kind] = true
	q.out[kind] <- bytes
	return nil
}

func (q *streams) write(c *conn, kind int) {
	for bytes := range q.out[kind] {
		_, err := q.both[kind].Write(bytes)
		c.hub.Do(func() {
			q.busy[kind] = false
			if err != nil {
				c.drop(err)
			}
		})
	}
}

func (q *streams) close(err error) {
	for _, out := range q.out {
		close(out)
	}
	var violation *Violation
	if errors.As(err, &violation) {
		q.connection.CloseWithError(quic.ApplicationErrorCode(violation.Number), violation.Why)
		return
	}
	q.connection.CloseWithError(normalClose, "")
}

// leave ends both streams, and closes when the other end has closed, or has had a second to read them.
func (q *streams) leave() {
	for _, stream := range q.both {
		stream.Close()
	}
	select {
	case <-q.connection.Context().Done():
	case <-time.After(time.Second):
	}
	q.connection.CloseWithError(normalClose, "")
}
