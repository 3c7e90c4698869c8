"""Logins of registries, where people keep them: our own variable, and what `docker login` writes."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from localllm.errors import InvalidParameter
from localllm.registry.logins.credentials import registry_login
from localllm.registry.sources.oci_auth import Login


@pytest.fixture(autouse=True)
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of docker's configuration."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("LOCALLLM_REGISTRY_LOGINS", raising=False)
    return tmp_path


def write(folder: Path, **config: Any) -> None:
    (folder / "config.json").write_text(json.dumps(config))


def basic(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.mark.parametrize(
    ("text", "host", "login"),
    [
        ("a.example=me:secret", "a.example", Login("secret", "me")),
        ("a.example=me:se,cr,et", "a.example", Login("se,cr,et", "me")),
        ("a.example=me:se,cret,b.example:5000=t", "a.example", Login("se,cret", "me")),
        ("a.example=me:se,cret,b.example:5000=t", "B.example:5000", Login("t")),
        ("a.example=me:x,y=z\nb.example=t", "a.example", Login("x,y=z", "me")),
        ("a.example=me:x,y=z\nb.example=t", "b.example", Login("t")),
        ("a.example=me:a:b,", "a.example", Login("a:b,", "me")),
        ("b.example=t,a.example=me:se,cret,,", "a.example", Login("se,cret,,", "me")),
        ("a.example=t,", "a.example", Login("t")),
        (",", "a.example", None),
        ("a.example=token==", "a.example", Login("token==")),
        ("a.example=t", "b.example", None),
    ],
)
def test_our_variable_takes_passwords_with_commas(
    text: str, host: str, login: Login | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALLLM_REGISTRY_LOGINS", text)
    assert registry_login(host) == login


@pytest.mark.parametrize("text", ["a.example", "=me:secret", "a.example=", "a.example=,"])
def test_what_is_no_login_is_refused_without_being_shown(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALLLM_REGISTRY_LOGINS", text)
    with pytest.raises(InvalidParameter, match="takes HOST=USER:PASSWORD") as caught:
        registry_login("a.example")
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("key", "host"),
    [
        ("registry.example", "registry.example"),
        ("registry.example:5000", "registry.example:5000"),
        ("https://registry.example/v1/", "registry.example"),
        ("https://index.docker.io/v1/", "registry-1.docker.io"),
        ("https://index.docker.io/v1/", "docker.io"),
    ],
)
def test_what_docker_login_wrote_is_used(key: str, host: str, docker: Path) -> None:
    write(docker, auths={key: basic("me", "se:cret")})
    assert registry_login(host) == Login("se:cret", "me")
    assert registry_login("other.example") is None


def test_our_own_variable_goes_first(docker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(docker, auths={"a.example": basic("me", "docker")})
    monkeypatch.setenv("LOCALLLM_REGISTRY_LOGINS", "a.example=me:ours")
    assert registry_login("a.example") == Login("ours", "me")


@pytest.mark.skipif(os.name == "nt", reason="a helper of this test is a shell script")
@pytest.mark.parametrize("store", [{"credsStore": "test"}, {"credHelpers": {"a.example": "test"}}])
def test_a_credential_helper_is_asked_for_the_host_at_hand_only(
    store: dict[str, Any], docker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper, asked = docker / "docker-credential-test", docker / "asked"
    helper.write_text(
        f"""#!/bin/sh
read host; echo "$1 $host" >> {asked}
[ "$host" = a.example ] && echo '{{"ServerURL": "a.example", "Username": "me", "Secret": "kept"}}' && exit 0
echo "credentials not found in native keychain"; exit 1
"""
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(docker), prepend=os.pathsep)
    write(docker, auths={"a.example": {}}, **store)
    assert registry_login("a.example") == Login("kept", "me")
    assert registry_login("b.example") is None
    assert asked.read_text().splitlines()[0] == "get a.example"


@pytest.mark.parametrize(
    "config",
    ["{", '{"auths": []}', '{"auths": {"a.example": {"auth": "?"}}}', '{"auths": {"a.example": {"auth": "/w=="}}}'],
)
def test_a_broken_file_of_dockers_is_named(config: str, docker: Path) -> None:
    (docker / "config.json").write_text(config)
    with pytest.raises(InvalidParameter, match=r"config\.json"):
        registry_login("a.example")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"auths": {"a.example": {}}},
        {"credsStore": "not-installed"},
        {"credsStore": "../../bin/sh"},
        {"HttpHeaders": {}},
    ],
)
def test_docker_without_a_login_is_nobodys_fault(config: dict[str, Any], docker: Path) -> None:
    write(docker, **config)
    assert registry_login("a.example") is None
