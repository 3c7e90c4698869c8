"""Loads the certificate and key before anything slow, with errors that name the setting at fault."""

from __future__ import annotations

import ssl
from pathlib import Path

from localllm.errors import InvalidParameter


def tls_context(cert_file: Path | None, key_file: Path | None) -> ssl.SSLContext | None:
    """The context for https (TLS 1.2 and up); None without a certificate. Raises `InvalidParameter`."""
    if cert_file is None:
        if key_file is not None:
            raise InvalidParameter("tls_key_file is set and tls_cert_file is not", param="tls_cert_file")
        return None
    for name, path in (("tls_cert_file", cert_file), ("tls_key_file", key_file)):
        _check_readable(name, path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_certificate(context, cert_file, key_file)
    return context


def load_certificate(context: ssl.SSLContext, cert_file: Path, key_file: Path | None) -> None:
    """Load the certificate into the context, for new connections. Raises `InvalidParameter`."""
    try:
        # Without this, OpenSSL would ask for a password on the terminal.
        context.load_cert_chain(cert_file, key_file, password="")
    except ssl.SSLError as error:
        raise _explained(error, cert_file, key_file) from error


def _check_readable(name: str, path: Path | None) -> None:
    """OpenSSL's own error does not say which of the two files it could not open."""
    try:
        if path is not None:
            path.read_bytes()
    except OSError as error:
        raise InvalidParameter(f"{name}: {path} cannot be read: {error.strerror}", param=name) from error


def _explained(error: ssl.SSLError, cert_file: Path, key_file: Path | None) -> InvalidParameter:
    if error.reason == "KEY_VALUES_MISMATCH":
        return InvalidParameter(
            f"tls_key_file: {key_file or cert_file} has no key for the certificate in {cert_file}",
            param="tls_key_file",
        )
    try:
        ssl.create_default_context(cafile=str(cert_file))
        name, path = "tls_key_file", key_file or cert_file
    except ssl.SSLError:
        name, path = "tls_cert_file", cert_file
    what = "certificate" if name == "tls_cert_file" else "key without a password"
    return InvalidParameter(f"{name}: {path} has no {what} in PEM format ({error.reason})", param=name)
