"""Files that a connector reads again while it runs, such as the allow-list and TLS certificates.

A file that cannot be read again does not stop a connector: the previous content stays in force. Metrics then
say which file it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

Signature = tuple[int, int, int, int] | None
"""Changes whenever a file does; None while there is no file."""


@dataclass(frozen=True, slots=True)
class FollowedFile:
    """State of one file."""

    path: Path
    is_in_force: bool = True
    """Whether its latest content is in force; False while it cannot be read, and the previous one stays."""
    expires_s: float | None = None
    """End of the validity of the certificate in force, in seconds since 1970; None for other files."""


def signature_of(path: Path) -> Signature:
    """Return the signature of a file. It also changes with its owner and mode, on which reading depends."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def certificate_expiry_s(path: Path) -> float | None:
    """Return when the first certificate of a PEM file and its chain expires, in seconds since 1970.

    Returns None if the file cannot be read.
    """
    from cryptography import x509

    try:
        certificates = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError):
        return None
    return min(certificate.not_valid_after_utc.timestamp() for certificate in certificates)
