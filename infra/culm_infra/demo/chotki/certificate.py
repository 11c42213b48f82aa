"""A certificate for the loopback address, which is its own authority: what an edge shows over TLS."""

from __future__ import annotations

import datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from culm_connectors.tls_files import TlsFiles
from culm_infra.stack.ports import HOST

_LIFE = datetime.timedelta(days=1)


def make_certificate(folder: Path) -> TlsFiles:
    """Write certificate and key into a folder; good for a day. The certificate is its own `ca`."""
    key = Ed25519PrivateKey.generate()
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "an edge of the demo")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LIFE)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .sign(key, None)
    )
    files = TlsFiles(certificate=folder / "tls.pem", private_key=folder / "tls.key", ca=folder / "tls.pem")
    assert files.certificate is not None and files.private_key is not None, "just named"
    files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    files.private_key.touch(mode=0o600)
    files.private_key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files
