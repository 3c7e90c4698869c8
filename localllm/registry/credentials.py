"""What this user has to show: Hugging Face's token where its own tools keep it, and logins of registries.

None of it is ever in a setting that is printed, or in a log. Knows nothing of where it is sent; `net` guards that.
"""

from __future__ import annotations

import os
from pathlib import Path

from localllm.errors import InvalidParameter
from localllm.registry.sources.oci_auth import Login

MAX_TOKEN_CHARS = 1024


def hub_token() -> str | None:
    """`HF_TOKEN`, else the file that `hf auth login` writes. Raises `InvalidParameter` for what is no token."""
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or _token_file()
    token = (token or "").strip()
    if not token.isascii() or not token.isprintable() or " " in token or len(token) > MAX_TOKEN_CHARS:
        raise InvalidParameter("HF_TOKEN is not a token: it has characters that no token has", param="HF_TOKEN")
    return token or None


def _token_file() -> str | None:
    named = os.environ.get("HF_TOKEN_PATH")
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    try:
        return Path(named or Path(home) / "token").expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # most people have none


def registry_logins() -> dict[str, Login]:
    """`LOCALLLM_REGISTRY_LOGINS`: `HOST=USER:PASSWORD` or `HOST=TOKEN`, comma-separated. Raises `InvalidParameter`."""
    logins: dict[str, Login] = {}
    for entry in os.environ.get("LOCALLLM_REGISTRY_LOGINS", "").split(","):
        if not entry.strip():
            continue
        host, equals, secret = entry.strip().partition("=")
        if not equals or not host or not secret:
            raise InvalidParameter(
                "LOCALLLM_REGISTRY_LOGINS takes HOST=USER:PASSWORD or HOST=TOKEN, separated by commas",
                param="registry_logins",
            )
        user, colon, password = secret.partition(":")
        logins[host.lower()] = Login(secret=password, user=user) if colon else Login(secret=secret)
    return logins
