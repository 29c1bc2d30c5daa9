"""Certificates for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ikos.deployment.party_files import write_new


def certificates(folder):
    """Make an authority and a certificate of this machine; return both files."""
    now = datetime.now(UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        for name in ("an authority", "localhost")
    ]

    def built(which, *extensions):
        builder = (
            x509.CertificateBuilder()
            .subject_name(names[which])
            .issuer_name(names[0])
            .public_key(keys[which].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(keys[which].public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key()),
                critical=False,
            )
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(keys[0], hashes.SHA256()).public_bytes(Encoding.PEM)

    usage = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
         "key_agreement", "encipher_only", "decipher_only"), False,
    )  # fmt: skip
    signs = x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage)
    authority, certificate = folder / "authority.pem", folder / "party.pem"
    authority.write_bytes(
        built(0, (x509.BasicConstraints(ca=True, path_length=0), True), (signs, True))
    )
    certificate.write_bytes(
        built(
            1,
            (x509.SubjectAlternativeName([x509.DNSName("localhost")]), False),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        )
    )
    write_new(
        certificate.with_suffix(".key"),
        keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
    return authority, certificate
