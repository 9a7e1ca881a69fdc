"""An authority and certificates that it signed, for servers and clients on this machine."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Authority:
    """Signs certificates; `file` is its own."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder, self.key, self.name = folder, ec.generate_private_key(ec.SECP256R1()), _name(name)
        built = _builder(self.name, self.name, self.key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        usage = {f: f == "key_cert_sign" for f in ("digital_signature", "content_commitment", "key_encipherment")}
        usage |= dict.fromkeys(
            ("data_encipherment", "key_agreement", "crl_sign", "encipher_only", "decipher_only"), False
        )
        built = built.add_extension(x509.KeyUsage(key_cert_sign=True, **usage), critical=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(_pem(built.sign(self.key, hashes.SHA256())))

    def signed(self, name: str) -> tuple[Path, Path]:
        """Files of a certificate and of its key, which only its owner can read."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        built = _builder(_name(name), self.name, key).add_extension(names, critical=False)
        built = built.add_extension(issuer, critical=False)
        certificate, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(_pem(built.sign(self.key, hashes.SHA256())))
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        private.touch(mode=0o600)
        private.write_bytes(key.private_bytes(*form))
        return certificate, private


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> Any:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
