// A p2panda peer that speaks QUIC with Culm, written from docs/p2panda-quic.md alone.
//
//	go run . -schema venue_0020c6… -connect 127.0.0.1:4455
//
// It replicates one schema: prints every entry that comes, and stays in live mode. Each line "name=value" on
// standard input is published as a document of its own. With -listen it waits to be dialled instead. What it
// received and published it keeps in memory only.
package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/big"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/quic-go/quic-go"
)

const (
	alpn          = "culm/p2panda/1"
	codeNormal    = 0x100
	codeProtocol  = 0x110
	codeWrongPeer = 0x131
	maxMessage    = 2 << 20
)

func main() {
	keyFile := flag.String("key", "peer.key", "file with the private key in hex; made where there is none")
	schema := flag.String("schema", "", "the schema to replicate")
	connect := flag.String("connect", "", "dial this address")
	listen := flag.String("listen", "", "wait for one peer at this address")
	expected := flag.String("peer", "", "the other side's public key in hex; any, if left out")
	flag.Parse()
	log.SetFlags(0)
	if *schema == "" || (*connect == "") == (*listen == "") {
		log.Fatal("-schema is needed, and one of -connect and -listen")
	}
	key, err := loadKey(*keyFile)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	conn, err := open(ctx, key, *connect, *listen)
	if err != nil {
		log.Fatal(err)
	}
	remote := conn.ConnectionState().TLS.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	fmt.Printf("connected %x\n", remote)
	if *expected != "" && *expected != hex.EncodeToString(remote) {
		conn.CloseWithError(codeWrongPeer, "")
		log.Fatal("the other side proved another key")
	}
	if err := talk(ctx, conn, key, *schema, *connect != ""); err != nil {
		conn.CloseWithError(codeProtocol, err.Error())
		log.Fatal(err)
	}
}

// talk speaks p2panda on a connection until ctx ends, and then leaves in good order.
func talk(ctx context.Context, conn *quic.Conn, key ed25519.PrivateKey, schema string, dialled bool) error {
	out, err := conn.OpenUniStream()
	if err != nil {
		return err
	}
	peer := newPeer(key, schema, cbor.NewEncoder(out))
	peer.begin(dialled)
	messages, failed, lines := make(chan []byte), make(chan error, 1), make(chan string)
	go func() { failed <- receive(ctx, conn, messages) }()
	go func() {
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
			lines <- input.Text()
		}
	}()
	for {
		select {
		case message := <-messages:
			err = peer.take(message)
		case line := <-lines:
			if err := peer.publish(line); err != nil {
				log.Print(err)
			}
		case err = <-failed:
		case <-ctx.Done():
			peer.leave()
			out.Close()
			select {
			case <-conn.Context().Done(): // the other side has taken everything
			case <-time.After(5 * time.Second):
				conn.CloseWithError(codeNormal, "")
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// receive reads the other side's stream: CBOR items, one right after the other.
func receive(ctx context.Context, conn *quic.Conn, messages chan<- []byte) error {
	stream, err := conn.AcceptUniStream(ctx)
	if err != nil {
		return err
	}
	decoder := cbor.NewDecoder(stream)
	for {
		var message cbor.RawMessage
		if err := decoder.Decode(&message); err != nil {
			return err
		}
		messages <- message
	}
}

// open dials, or waits for one peer that dials.
func open(ctx context.Context, key ed25519.PrivateKey, connect, listen string) (*quic.Conn, error) {
	// TLS wants a certificate; nobody reads more of it than the key.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	settings := &tls.Config{
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:             []string{alpn},
		SessionTicketsDisabled: true,
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // there is no authority: the key itself is who the peer is
		VerifyConnection:       oneEd25519Key,
	}
	timing := &quic.Config{KeepAlivePeriod: 5 * time.Second}
	if connect != "" {
		return quic.DialAddr(ctx, connect, settings, timing)
	}
	listener, err := quic.ListenAddr(listen, settings, timing)
	if err != nil {
		return nil, err
	}
	fmt.Printf("listening %s\n", listener.Addr())
	return listener.Accept(ctx)
}

func oneEd25519Key(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 1 {
		if _, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey); ok {
			return nil
		}
	}
	return errors.New("exactly one certificate with an Ed25519 key is needed")
}

func loadKey(path string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		seed := make([]byte, ed25519.SeedSize)
		rand.Read(seed)
		return ed25519.NewKeyFromSeed(seed), os.WriteFile(path, []byte(hex.EncodeToString(seed)+"\n"), 0o600)
	}
	seed, _ := hex.DecodeString(strings.TrimSpace(string(text)))
	if err == nil && len(seed) != ed25519.SeedSize {
		err = fmt.Errorf("%s holds no private key of 64 hex digits", path)
	}
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
