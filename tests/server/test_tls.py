"""https with a certificate of one's own, and clear errors for files that are none.

`data/` was made once with openssl and is valid until 2126: a self-signed certificate for localhost and 127.0.0.1 and
its key, a key that is not its own, and its own under a password. They guard nothing.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import httpx
import pytest

from localllm.errors import InvalidParameter
from localllm.server.edge.tls import tls_context
from localllm.server.main import serve
from localllm.settings.config import Settings
from tests.server.conftest import running
from tests.server.fake_runtime import make_fake

DATA = Path(__file__).with_name("data")
CERT, KEY = DATA / "localhost.cert.pem", DATA / "localhost.key.pem"


def test_with_a_certificate_the_server_answers_https_and_says_so() -> None:
    with running(Settings(port=0, grace_s=0.1, tls_cert_file=CERT, tls_key_file=KEY)) as served:
        assert served.url.startswith("https://127.0.0.1:")
        verify = ssl.create_default_context(cafile=str(CERT))
        with httpx.Client(base_url=served.url, verify=verify, trust_env=False) as client:
            assert client.get("/v1/models", headers={"origin": served.url}).status_code == 200
            body = {"model": "tiny", "prompt": "x", "stream": True}
            assert client.post("/v1/completions", json=body).text.endswith("data: [DONE]\n\n")
            plain = served.url.replace("https://", "http://")
            assert client.get("/v1/models", headers={"origin": plain}).status_code == 403
        with pytest.raises(httpx.TransportError):
            httpx.get(plain + "/health", trust_env=False)


def test_certificate_and_key_may_be_one_file(tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(CERT.read_text() + KEY.read_text())
    assert tls_context(both, None) is not None
    assert tls_context(None, None) is None


@pytest.mark.parametrize(
    ("cert", "key", "setting", "reason"),
    [
        (DATA / "none.pem", KEY, "tls_cert_file", "none.pem cannot be read: No such file"),
        (CERT, DATA / "none.pem", "tls_key_file", "none.pem cannot be read: No such file"),
        (DATA, KEY, "tls_cert_file", "data cannot be read"),
        (KEY, KEY, "tls_cert_file", "has no certificate in PEM format"),
        (CERT, CERT, "tls_key_file", "has no key without a password in PEM format"),
        (CERT, None, "tls_key_file", "has no key without a password in PEM format"),
        (CERT, DATA / "encrypted.key.pem", "tls_key_file", "has no key without a password in PEM format"),
        (CERT, DATA / "other.key.pem", "tls_key_file", "has no key for the certificate"),
        (None, KEY, "tls_cert_file", "is not"),
    ],
)
def test_a_file_that_cannot_be_used_names_its_setting_at_start(
    cert: Path | None, key: Path | None, setting: str, reason: str
) -> None:
    settings = Settings(port=0, tls_cert_file=cert, tls_key_file=key)
    with pytest.raises(InvalidParameter, match=f"{setting}.*{reason}") as caught:
        asyncio.run(serve(settings, [], None, make_runtime=make_fake))  # type: ignore[arg-type]
    assert caught.value.param == setting
