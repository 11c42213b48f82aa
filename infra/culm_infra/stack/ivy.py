"""Download of jars by the Ivy in pyspark, run as a program: each jar by its own coordinate.

The settings and the module file are written for each run. No POM is read and nothing is transitive, so Ivy
fetches exactly the requested jars. The repository is the one built into Ivy, unless CULM_MAVEN_REPOSITORY
names a mirror. Java does not use the proxy and certificate variables of other programs, so they are
translated for it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from culm_infra.stack.coordinates import Coordinate
from culm_infra.stack.errors import JarError
from culm_infra.stack.java import Java

TRUST_STORE_PASSWORD = "changeit"  # Java's default; a trust store contains no secrets

_SUCCESSFUL = re.compile(r"\[SUCCESSFUL \]\s+\S+!(\S+)")
_KEPT_LINES = 400
_PEM_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def find_ivy() -> Path:
    """Return the path of Ivy's jar in the installed pyspark. Raises `JarError`."""
    spec = importlib.util.find_spec("pyspark")
    jars = (
        []
        if spec is None or spec.origin is None
        else sorted(Path(spec.origin).parent.glob("jars/ivy-2.5.*.jar"))
    )
    if not jars:
        raise JarError(
            "the jars are fetched by the Ivy inside pyspark, which is not installed",
            hint="pip install 'culm[stack]'",
        )
    return jars[-1]


def fetch(
    coordinates: Sequence[Coordinate],
    *,
    java: Java,
    work: Path,
    timeout_s: float,
    on_fetched: Callable[[str], None],
) -> Path:
    """Fetch every coordinate. Returns the folder of the jars, which are named `Coordinate.file_name`.

    ``work`` is an empty directory owned by the caller; ``on_fetched`` is called with the name of each module
    that arrives. Checksums are not verified here. Raises `JarError` with Ivy's message about missing jars.
    """
    retrieved = work / "jars"
    (work / "settings.xml").write_text(_settings_xml(work / "cache", os.environ.get("CULM_MAVEN_REPOSITORY")))
    (work / "ivy.xml").write_text(_module_xml(coordinates))
    command = [
        *(str(java.executable), *_proxy_options(), *_trust_options(work), "-jar", str(find_ivy())),
        *("-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml")),
        *("-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", str(retrieved / "[artifact]-[revision].[ext]")),
    ]
    lines = _run(command, timeout_s=timeout_s, on_fetched=on_fetched)
    missing = [c for c in coordinates if not (retrieved / c.file_name).is_file()]
    if missing:
        raise _not_fetched(missing, lines)
    return retrieved


def _run(command: list[str], *, timeout_s: float, on_fetched: Callable[[str], None]) -> list[str]:
    """Run Ivy to its end. Returns the last lines of its output."""
    lines: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as ivy:
        watchdog = threading.Timer(timeout_s, ivy.kill)
        watchdog.start()
        try:
            assert ivy.stdout is not None
            for line in ivy.stdout:
                match = _SUCCESSFUL.search(line)
                if match:
                    on_fetched(match[1])
                lines.append(line.rstrip())
                del lines[:-_KEPT_LINES]
        finally:
            watchdog.cancel()
            ivy.kill()
    return lines


def _settings_xml(cache: Path, mirror: str | None) -> str:
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return (
        "<ivysettings>\n"
        # SHA-256 sums of our own table are checked afterwards; the repository's would double the requests.
        '  <property name="ivy.checksums" value=""/>\n'
        '  <settings defaultResolver="maven"/>\n'
        f"  <caches defaultCacheDir={quoteattr(str(cache))}/>\n"
        f'  <resolvers><ibiblio name="maven" m2compatible="true" usepoms="false"{root}/></resolvers>\n'
        "</ivysettings>\n"
    )


def _module_xml(coordinates: Iterable[Coordinate]) -> str:
    rows = "".join(
        f'    <dependency org="{c.organisation}" name="{c.module}" rev="{c.revision}"'
        ' transitive="false" conf="default->default"/>\n'
        for c in coordinates
    )
    return (
        '<ivy-module version="2.0">\n'
        '  <info organisation="culm" module="jars"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{rows}  </dependencies>\n"
        "</ivy-module>\n"
    )


def _proxy_options() -> list[str]:
    """Translate HTTP_PROXY, HTTPS_PROXY and NO_PROXY into Java options."""
    options: list[str] = []
    for scheme in ("http", "https"):
        value = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY")
        if not value:
            continue
        proxy = urlsplit(value if "://" in value else f"http://{value}")
        if proxy.hostname:
            options.append(f"-D{scheme}.proxyHost={proxy.hostname}")
            options.append(f"-D{scheme}.proxyPort={proxy.port or 80}")
    exempt = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    if options and exempt:
        hosts = [host.strip() for host in exempt.split(",") if host.strip()]
        patterns = (f"*{host}" if host.startswith(".") else host for host in hosts)
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(patterns)}")
    return options


def _trust_options(work: Path) -> list[str]:
    """Convert the certificates of SSL_CERT_FILE into a Java trust store, if that variable is set."""
    bundle = os.environ.get("SSL_CERT_FILE")
    if not bundle or "javax.net.ssl.trustStore" in os.environ.get("JAVA_TOOL_OPTIONS", ""):
        return []
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
    except ModuleNotFoundError:
        return []
    try:
        blocks = _PEM_CERTIFICATE.findall(Path(bundle).read_bytes())
    except OSError as error:
        raise JarError(
            f"SSL_CERT_FILE ({bundle}) cannot be read: {error}", hint="correct or unset it"
        ) from error
    entries: list[pkcs12.PKCS12Certificate] = []
    for block in blocks:
        # Some old certificates do not parse; they are left out, as OpenSSL does.
        with warnings.catch_warnings(), contextlib.suppress(ValueError):
            warnings.simplefilter("ignore")
            certificate = x509.load_pem_x509_certificate(block)
            entries.append(pkcs12.PKCS12Certificate(certificate, f"{len(entries)}".encode()))
    if not entries:
        return []
    password = TRUST_STORE_PASSWORD.encode()
    store = work / "trust.p12"
    store.write_bytes(pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(password)))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={TRUST_STORE_PASSWORD}",
    ]


# Hints by a text in Ivy's output: the first match counts.
_HINTS = (
    (
        "PKIX path building failed",
        "Java does not trust the repository's certificate: point SSL_CERT_FILE at the PEM file of your "
        "authorities, or JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=… at a trust store",
    ),
    (
        "UnknownHostException",
        "the repository's name does not resolve: are you online? HTTPS_PROXY is honoured, and "
        "CULM_MAVEN_REPOSITORY names a mirror",
    ),
    (
        "Connection refused",
        "the repository refuses the connection: HTTPS_PROXY is honoured, and CULM_MAVEN_REPOSITORY names "
        "a mirror",
    ),
)
_DEFAULT_HINT = (
    "run it again; behind a proxy set HTTPS_PROXY; CULM_MAVEN_REPOSITORY names a mirror; "
    "CULM_JARS_DIR names a directory that already holds the jars"
)


def _not_fetched(missing: Sequence[Coordinate], lines: Sequence[str]) -> JarError:
    output = "\n".join(lines)
    hint = next((hint for mark, hint in _HINTS if mark in output), _DEFAULT_HINT)
    shown = ", ".join(str(coordinate) for coordinate in missing[:3])
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    reason = next(
        (line.strip() for line in lines if "error at url" in line or "Exception" in line),
        "Ivy did not download them",
    )
    return JarError(f"not fetched: {shown}{more}: {reason[:300]}", hint=hint)
