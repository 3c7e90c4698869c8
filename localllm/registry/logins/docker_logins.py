"""Registry logins stored by `docker login` (or podman, oras): `config.json` and the credential helpers it names.

    {"auths": {"HOST": {"auth": "BASE64 OF USER:PASSWORD"}}, "credHelpers": {"HOST": "NAME"}, "credsStore": "NAME"}

A helper is the program `docker-credential-NAME`, called as docker calls it, and only for the host in question. Knows
nothing of where a login is sent.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from localllm.errors import InvalidParameter
from localllm.registry.sources.oci_auth import Login

MAX_CONFIG_BYTES = 4 * 1024 * 1024
HELPER_TIMEOUT_S = 30.0
_HELPER = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_HUB = {"docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"}
"""All names of Docker Hub, whose login is stored under its own URL."""
_HUB_KEY = "https://index.docker.io/v1/"
_TOKEN_USER = "<token>"
"""The user name that a helper returns if the secret is an identity token."""


class _Auth(msgspec.Struct):
    auth: str = ""
    username: str = ""
    password: str = ""
    registrytoken: str = ""


class _Config(msgspec.Struct):
    auths: dict[str, _Auth] = {}
    credHelpers: dict[str, str] = {}
    credsStore: str = ""


class _Answer(msgspec.Struct):
    Username: str = ""
    Secret: str = ""


def docker_login(host: str) -> Login | None:
    """The login for `host`, or None. Raises `InvalidParameter` for an invalid Docker configuration."""
    path = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    try:
        raw = path.read_bytes()
    except OSError:
        return None  # most people have none
    try:
        config = msgspec.json.decode(raw[:MAX_CONFIG_BYTES], type=_Config)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise InvalidParameter(f"{path} is not a Docker configuration: {error}", param="registry_logins") from error
    names = _HUB if host.lower() in _HUB else {host.lower()}
    for key, helper in config.credHelpers.items():
        if _host(key) in names and (found := _asked(helper, key)) is not None:
            return found
    for key, auth in config.auths.items():
        if _host(key) in names and (found := _kept(auth, path)) is not None:
            return found
    if config.credsStore:
        key = _HUB_KEY if names is _HUB else next((key for key in config.auths if _host(key) in names), host)
        return _asked(config.credsStore, key)
    return None


def _host(key: str) -> str:
    """`https://index.docker.io/v1/` is `index.docker.io`."""
    return key.partition("://")[2].partition("/")[0].lower() if "://" in key else key.partition("/")[0].lower()


def _kept(auth: _Auth, path: Path) -> Login | None:
    if auth.registrytoken:
        return Login(secret=auth.registrytoken)
    if auth.username and auth.password:
        return Login(secret=auth.password, user=auth.username)
    if not auth.auth:
        return None
    try:
        user, colon, password = base64.b64decode(auth.auth, validate=True).decode("utf-8").partition(":")
    except ValueError as error:  # includes UnicodeDecodeError and binascii.Error
        raise InvalidParameter(
            f"{path} has a login that is not base64-encoded text", param="registry_logins"
        ) from error
    return Login(secret=password.rstrip("\0"), user=user) if colon and user and password else None


def _asked(helper: str, key: str) -> Login | None:
    """None if the helper has no login or is not installed: docker, too, treats both as "not logged in"."""
    program = shutil.which(f"docker-credential-{helper}") if _HELPER.fullmatch(helper) else None
    if program is None:
        return None
    command: list[Any] = [program, "get"]
    try:
        done = subprocess.run(command, input=key.encode(), capture_output=True, timeout=HELPER_TIMEOUT_S, check=False)
        answer = msgspec.json.decode(done.stdout, type=_Answer) if done.returncode == 0 else _Answer()
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if not answer.Username or not answer.Secret or answer.Username == _TOKEN_USER:
        return None  # only docker's own token servers accept an identity token
    return Login(secret=answer.Secret, user=answer.Username)
