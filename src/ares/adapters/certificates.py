"""X.509 with elliptic-curve keys (P-256): the authority that signs machines' certificates, and requests for them."""

import hashlib
import secrets
from datetime import UTC, datetime
from typing import Final, NamedTuple, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ares.core.access.certificates import CONTROL_PLANE, SKEW_S, identity, parse
from ares.model.node import MachineRole, Presented
from ares.ports.certificates import Signed

_AUTHORITY_LIFE_S: Final = 10 * 365 * 86_400
_REQUEST_BYTES_MAX: Final = 16 * 1024
# Low bits of a serial number, which name the certificate; the generation is above them.
_RANDOM_BITS: Final = 96
_HASH: Final = hashes.SHA256()


class NoAuthority(Exception):
    """The certificate and key cannot sign for an installation; the message says why."""


class Pair(NamedTuple):
    """A certificate and its key, in PEM."""

    certificate: str
    key: str


class X509Issuer:
    """`ports.certificates.Issuer`."""

    def __init__(self, certificates: list[x509.Certificate], key: ec.EllipticCurvePrivateKey) -> None:
        self._own = certificates[0]
        self._key = key
        self.authorities = "".join(map(_pem, certificates))
        self.fingerprints = tuple(certificate.fingerprint(_HASH).hex() for certificate in certificates)
        self.fingerprint = self.fingerprints[0]

    @classmethod
    def of(cls, certificates: str, key: str) -> Self:
        """From PEM: the first certificate goes with the key, the others are trusted beside it."""
        try:
            chain = x509.load_pem_x509_certificates(certificates.encode())
            private = serialization.load_pem_private_key(key.encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise NoAuthority(f"not PEM of certificates and of a key without a password: {error}") from error
        public = chain[0].public_key()
        if not isinstance(private, ec.EllipticCurvePrivateKey) or not isinstance(public, ec.EllipticCurvePublicKey):
            raise NoAuthority("its key is not an elliptic-curve key")
        if _spki(public) != _spki(private.public_key()):
            raise NoAuthority("the first certificate is not of that key")
        if not all(map(_may_sign, chain)):
            raise NoAuthority("a certificate among them is not of an authority (basicConstraints CA:TRUE)")
        return cls(chain, private)

    def key_of(self, request: str) -> str | None:
        parsed = _request(request)
        return None if parsed is None else hashlib.sha256(_spki(_public(parsed))).hexdigest()

    def sign(self, request: str, role: MachineRole, name: str, generation: int, life: tuple[int, int]) -> Signed:
        parsed = _request(request)
        if parsed is None:
            raise ValueError("not a request for a certificate")
        uri = x509.UniformResourceIdentifier(identity(role, name))
        serial = generation << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS - 1) | 1
        signed = self._sign(_public(parsed), uri, ExtendedKeyUsageOID.CLIENT_AUTH, serial, life)
        return Signed(serial=f"{signed.serial_number:x}", certificate=_pem(signed))

    def read(self, certificate: bytes) -> Presented | None:
        parsed = x509.load_pem_x509_certificate(certificate)
        try:
            names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (x509.ExtensionNotFound, ValueError):
            return None
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        who = parse(uris[0]) if len(uris) == 1 else None
        if who is None:
            return None
        issued_at, ends_at = _life(parsed)
        number = parsed.serial_number
        return Presented(
            role=who[0], name=who[1], serial=f"{number:x}", generation=number >> _RANDOM_BITS, issued_at=issued_at,
            ends_at=ends_at,
        )  # fmt: skip

    def serving(self, issued_at: int, ends_at: int) -> Pair:
        """For a control plane's agent port. It holds the name alone, so that agents may connect by any address."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.DNSName(CONTROL_PLANE)
        serial = x509.random_serial_number()
        signed = self._sign(key.public_key(), name, ExtendedKeyUsageOID.SERVER_AUTH, serial, (issued_at, ends_at))
        return Pair(_pem(signed), _key_pem(key))

    def _sign(
        self,
        key: ec.EllipticCurvePublicKey,
        name: x509.GeneralName,
        usage: x509.ObjectIdentifier,
        serial: int,
        life: tuple[int, int],
    ) -> x509.Certificate:
        """The name is in the alternative name alone: a machine's name may be longer than a common name."""
        issued_at, ends_at = life
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self._own.subject)
            .public_key(key)
            .serial_number(serial)
            .not_valid_before(_date(issued_at - SKEW_S))
            .not_valid_after(_date(ends_at))
            .add_extension(x509.SubjectAlternativeName([name]), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            # A node's certificate is for clients only, a server's for servers only.
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        return builder.sign(self._key, _HASH)


def make_authority(installation: str, now: int) -> Pair:
    """A new authority, for ten years."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Ares {installation}"[:64])])
    public = key.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_date(now - SKEW_S))
        .not_valid_after(_date(now + _AUTHORITY_LIFE_S))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    return Pair(_pem(builder.sign(key, _HASH)), _key_pem(key))


class X509Requests:
    """`ports.certificates.Requests`."""

    def new_key(self) -> str:
        return _key_pem(ec.generate_private_key(ec.SECP256R1()))

    def request(self, key: str) -> str:
        """A signing request that holds the key and no name. The join token or the old certificate proves the node."""
        private = serialization.load_pem_private_key(key.encode(), password=None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        signed = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(private, _HASH)
        return signed.public_bytes(serialization.Encoding.PEM).decode()

    def life(self, certificate: str) -> tuple[int, int]:
        return _life(x509.load_pem_x509_certificate(certificate.encode()))


def _request(text: str) -> x509.CertificateSigningRequest | None:
    """The request, checked: it is signed by its own key, and the key is of the kind that is signed here."""
    if len(text) > _REQUEST_BYTES_MAX:
        return None
    try:
        parsed = x509.load_pem_x509_csr(text.encode())
        proven = parsed.is_signature_valid
        public = parsed.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature):
        return None
    good = proven and isinstance(public, ec.EllipticCurvePublicKey) and isinstance(public.curve, ec.SECP256R1)
    return parsed if good else None


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _life(certificate: x509.Certificate) -> tuple[int, int]:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return int(begins.timestamp()) + SKEW_S, int(ends.timestamp())


def _date(at: int) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _public(request: x509.CertificateSigningRequest) -> ec.EllipticCurvePublicKey:
    key = request.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey), "others are no requests here"
    return key


def _spki(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
