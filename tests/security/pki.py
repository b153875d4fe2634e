"""Certificates for servers of tests, on 127.0.0.1."""

import ipaddress
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ares.adapters.certificates import make_authority


class Files(NamedTuple):
    ca: Path
    cert: Path
    key: Path


def on_loopback(folder: Path) -> Files:
    """A new authority, and a certificate of it for servers and clients on this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    now = int(time.time())
    made = make_authority("test", now)
    ca = x509.load_pem_x509_certificate(made.certificate.encode())
    ca_key = serialization.load_pem_private_key(made.key.encode(), None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(now - 300, UTC))
        .not_valid_after(datetime.fromtimestamp(now + 3600, UTC))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    files = Files(folder / "ca.pem", folder / "cert.pem", folder / "key.pem")
    files.ca.write_text(made.certificate)
    files.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files
