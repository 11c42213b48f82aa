"""libp2p's certificate: who it proves, and everything that makes it prove nobody."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from culm_connectors.transport.libp2p import wire
from culm_connectors.transport.libp2p.certificate import EXTENSION, Libp2pIdentity, host_key_of
from culm_connectors.transport.libp2p.errors import CertificateError
from culm_connectors.transport.libp2p.host_key import HostKey, KeyKind
from tests.connectors.transport.libp2p.vectors import CERTIFICATES, FALSE_CERTIFICATE

NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
HOST = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
CERTIFICATE_KEY = ec.generate_private_key(ec.SECP256R1())
PREFIX = b"libp2p-tls-handshake:"


def public_bytes(key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def vouched(host_key: HostKey | None = None, signature: bytes | None = None) -> bytes:
    """The extension's content; by default a true one."""
    key = host_key or HostKey.ed25519(HOST.public_key().public_bytes_raw())
    spki = public_bytes(CERTIFICATE_KEY.public_key())
    return wire.encode_der_strings(key.encode(), HOST.sign(PREFIX + spki) if signature is None else signature)


def make(
    *contents: bytes,
    signer: ec.EllipticCurvePrivateKey = CERTIFICATE_KEY,
    start: datetime.datetime = datetime.datetime(2020, 1, 1),
    end: datetime.datetime = datetime.datetime(2030, 1, 1),
    other: x509.ExtensionType | None = None,
    critical: bool = True,
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([]))
        .serial_number(7)
        .not_valid_before(start)
        .not_valid_after(end)
        .public_key(CERTIFICATE_KEY.public_key())
    )
    for content in contents:
        builder = builder.add_extension(x509.UnrecognizedExtension(EXTENSION, content), critical=critical)
    if other is not None:
        builder = builder.add_extension(other, critical=critical)
    return builder.sign(signer, hashes.SHA256())


@pytest.mark.parametrize("kind", CERTIFICATES)
def test_the_published_certificates_prove_the_published_peer_ids(kind: str) -> None:
    certificate, peer_id = CERTIFICATES[kind]
    key = host_key_of([x509.load_der_x509_certificate(bytes.fromhex(certificate))], NOW)
    assert key.peer_id == peer_id
    assert key.kind.name.lower() == kind


def test_the_published_false_certificate_is_refused() -> None:
    with pytest.raises(CertificateError, match="vouched"):
        host_key_of([x509.load_der_x509_certificate(bytes.fromhex(FALSE_CERTIFICATE))], NOW)


def test_our_certificate_proves_our_host_key() -> None:
    identity = Libp2pIdentity.from_private_key(HOST.private_bytes_raw())
    assert identity.judge([identity.certificate]) == HOST.public_key().public_bytes_raw() == identity.peer_id
    received = x509.load_der_x509_certificate(identity.certificate.public_bytes(Encoding.DER))
    assert host_key_of([received], NOW).data == identity.peer_id


@pytest.mark.parametrize("kind", ["ecdsa", "secp256k1"])
def test_a_p2panda_peer_has_an_ed25519_host_key(kind: str) -> None:
    identity = Libp2pIdentity.from_private_key(bytes(32))
    with pytest.raises(CertificateError, match="Ed25519"):
        identity.judge([x509.load_der_x509_certificate(bytes.fromhex(CERTIFICATES[kind][0]))])


def test_an_rsa_host_key_is_verified() -> None:
    from cryptography.hazmat.primitives.asymmetric import padding

    host = rsa.generate_private_key(65_537, 2_048)
    spki = public_bytes(CERTIFICATE_KEY.public_key())
    signature = host.sign(PREFIX + spki, padding.PKCS1v15(), hashes.SHA256())
    key = HostKey(KeyKind.RSA, public_bytes(host.public_key()))
    assert host_key_of([make(vouched(key, signature))], NOW) == key
    with pytest.raises(CertificateError, match="vouched"):
        host_key_of([make(vouched(key, signature[:-1] + bytes([signature[-1] ^ 1])))], NOW)


def test_a_short_rsa_host_key_proves_nothing() -> None:
    from cryptography.hazmat.primitives.asymmetric import padding

    host = rsa.generate_private_key(65_537, 1_024)
    spki = public_bytes(CERTIFICATE_KEY.public_key())
    signature = host.sign(PREFIX + spki, padding.PKCS1v15(), hashes.SHA256())
    key = HostKey(KeyKind.RSA, public_bytes(host.public_key()))
    with pytest.raises(CertificateError, match="vouched"):
        host_key_of([make(vouched(key, signature))], NOW)


REFUSED: dict[str, tuple[Callable[[], x509.Certificate], str]] = {
    "no extension": (lambda: make(), "does not have"),
    "an extension twice": (lambda: twice(), "cannot be read"),
    "not yet valid": (lambda: make(vouched(), start=datetime.datetime(2027, 1, 1)), "not valid"),
    "expired": (lambda: make(vouched(), end=datetime.datetime(2025, 1, 1)), "not valid"),
    "signed by another key": (
        lambda: make(vouched(), signer=ec.generate_private_key(ec.SECP256R1())),
        "its own key",
    ),
    "an unknown critical extension": (
        lambda: make(vouched(), other=x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"")),
        "critical",
    ),
    "a signature over another key": (lambda: make(vouched(signature=HOST.sign(PREFIX))), "vouched"),
    "no signature": (lambda: make(vouched(signature=b"")), "vouched"),
    "a host key of another host": (lambda: make(vouched(HostKey.ed25519(bytes(31) + b"\x01"))), "vouched"),
    "no content": (lambda: make(b""), "DER"),
    "three strings": (lambda: make(wire.encode_der_strings(b"a", b"b", b"c")), "a key and a signature"),
    "something behind": (lambda: make(vouched() + b"\x00"), "follows"),
    "an unknown kind of key": (
        lambda: make(wire.encode_der_strings(wire.number_field(1, 4) + wire.bytes_field(2, b"x"), b"")),
        "kind 4",
    ),
    "a key without data": (lambda: make(wire.encode_der_strings(wire.number_field(1, 1), b"")), "needs"),
    "an Ed25519 key of 31 bytes": (
        lambda: make(wire.encode_der_strings(HostKey(KeyKind.ED25519, bytes(31)).encode(), b"")),
        "32 bytes",
    ),
    "an enormous key": (
        lambda: make(wire.encode_der_strings(HostKey(KeyKind.RSA, bytes(5_000)).encode(), b"")),
        "too long",
    ),
}


def twice() -> x509.Certificate:
    """The builder refuses an extension that is there twice; the bytes are changed and signed anew."""
    filler = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.53594.1.2"), vouched())
    former = make(vouched(), other=filler)
    content = former.tbs_certificate_bytes
    assert content.count(bytes.fromhex("83a25a0102")) == 1
    content = content.replace(bytes.fromhex("83a25a0102"), bytes.fromhex("83a25a0101"))
    signature = CERTIFICATE_KEY.sign(content, ec.ECDSA(hashes.SHA256()))
    ecdsa_with_sha256 = bytes.fromhex("300a06082a8648ce3d040302")
    signed = content + ecdsa_with_sha256 + bytes((0x03, len(signature) + 1, 0)) + signature
    return x509.load_der_x509_certificate(b"\x30\x82" + len(signed).to_bytes(2) + signed)


@pytest.mark.parametrize("case", REFUSED)
def test_a_certificate_that_proves_nobody_is_refused(case: str) -> None:
    build, reason = REFUSED[case]
    with pytest.raises(CertificateError, match=reason):
        host_key_of([build()], NOW)


def test_exactly_one_certificate_is_shown() -> None:
    for certificates in ([], [make(vouched())] * 2):
        with pytest.raises(CertificateError, match="exactly one"):
            host_key_of(certificates, NOW)


def test_extensions_that_are_not_critical_are_passed_over() -> None:
    other = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"whatever")
    assert host_key_of([make(vouched(), other=other, critical=False)], NOW).kind is KeyKind.ED25519


def test_plain_quic_and_libp2p_give_out_different_reset_tokens_under_one_host_key() -> None:
    from culm_connectors.transport import Identity

    private_key = HOST.private_bytes_raw()
    plain, libp2p = Identity.from_private_key(private_key), Libp2pIdentity.from_private_key(private_key)
    assert plain.peer_id == libp2p.peer_id
    assert plain.reset_token(b"12345678") != libp2p.reset_token(b"12345678")
    assert libp2p.reset_token(b"12345678") == Libp2pIdentity.from_private_key(private_key).reset_token(
        b"12345678"
    )
