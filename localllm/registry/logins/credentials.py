"""The user's credentials: the Hugging Face token, read from where its own tools store it, and registry logins.

None of them is ever part of a printed setting or a log line. Knows nothing of where they are sent; `net` guards that.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from localllm.errors import InvalidParameter
from localllm.registry.logins.docker_logins import docker_login
from localllm.registry.sources.oci_auth import Login

MAX_TOKEN_CHARS = 1024
_BETWEEN = re.compile(r",(?=\s*(?:[\w-]+(?:\.[\w-]+)*)(?::\d{1,5})?=)", re.ASCII)
"""A comma followed by another host; any other comma, even a last one, is part of a password. Tokens contain none."""


def hub_token() -> str | None:
    """`HF_TOKEN`, else the file that `hf auth login` writes. Raises `InvalidParameter` for an invalid token."""
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or _token_file()
    token = (token or "").strip()
    if not token.isascii() or not token.isprintable() or " " in token or len(token) > MAX_TOKEN_CHARS:
        raise InvalidParameter(
            "HF_TOKEN is not a valid token: it contains characters that no token has", param="HF_TOKEN"
        )
    return token or None


def _token_file() -> str | None:
    named = os.environ.get("HF_TOKEN_PATH")
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    try:
        return Path(named or Path(home) / "token").expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # most users have none


def registry_login(host: str) -> Login | None:
    """The login for one registry (HOST or HOST:PORT): from our own setting, else from `docker login`.

    Raises `InvalidParameter` for an invalid login.
    """
    return _own_logins().get(host.lower()) or docker_login(host)


def _own_logins() -> dict[str, Login]:
    """`LOCALLLM_REGISTRY_LOGINS`: `HOST=USER:PASSWORD` or `HOST=TOKEN`, separated by commas or line breaks."""
    text = os.environ.get("LOCALLLM_REGISTRY_LOGINS", "")
    logins: dict[str, Login] = {}
    for entry in text.splitlines() if "\n" in text.strip() else _BETWEEN.split(text):
        if not entry.strip(", "):
            continue
        host, equals, secret = entry.strip().partition("=")
        user, colon, password = secret.partition(":")
        if not colon:
            secret = secret.rstrip(", ")
        if not equals or not host or not secret:
            raise InvalidParameter(
                "LOCALLLM_REGISTRY_LOGINS takes HOST=USER:PASSWORD or HOST=TOKEN, separated by commas or line breaks",
                param="registry_logins",
            )
        logins[host.lower()] = Login(secret=password, user=user) if colon else Login(secret=secret)
    return logins
