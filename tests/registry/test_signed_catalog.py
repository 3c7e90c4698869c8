"""A catalog of the user's choice: fetched by a pull, verified, kept, and never replaced by anything worse."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from localllm.errors import InvalidParameter, ModelNotFound
from localllm.registry import catalog, minisign, signed_catalog
from localllm.registry.pull import Puller
from localllm.registry.remote import PullPlan
from localllm.settings.config import Settings
from tests.models.maker import write_llama
from tests.registry.hub_server import HubServer, Repo
from tests.registry.loopback import Answer

LIST = """\
[[model]]
name = "tiny"
tag = "1m"
default = true
kind = "chat"
repo = "ann/tiny-GGUF"
quant = "Q8_0"
size_bytes = 100000
num_parameters = 1000000
context_length = 512
license = "apache-2.0"
description = "The team's model"
"""
# Written by minisign 0.11 for LIST.
MINISIGN_KEY = "RWQYyFb8GRXEIHZEb2P6V83iX4YAUsTjlSNzNE7N/g92UOaxlredKvsD"
MINISIGN_SIGNATURE = b"""\
untrusted comment: signature from minisign secret key
RUQYyFb8GRXEIB3gYU/LJeKQW1DGenwfYjSfb3FsPeBhhEOz+69+V0cfa2jyVKkbgzPhtOUvUjeaUahW1PQkswO9ONGNnTK10AE=
trusted comment: timestamp:1764374400\tfile:catalog.toml\thashed
1R1ydpxuqAmne6iyl3E9579ul5h+Olrzy3tGEgbqMDRcw1Lf0mgFf0m63F4yucpc+f3xRzdT0Hi2oTR/Tar/Ag==
"""
LEGACY_SIGNATURE = b"""\
untrusted comment: signature from minisign secret key
RWQYyFb8GRXEIHVziTALZIaqdP8t0/YNmptNGg5HSNJia1ACi7QCFv1BelWlL6se368+OdhOYT7N0CHzH9VHK/4rfpFvWRJSGQA=
trusted comment: timestamp:1795947184\tfile:catalog.toml
729y4hQ4mtzEML9oUzTtEuw5y17/VLJK9dhKGg+f8M00lOOhKUfTSmyp535damEjfn/JdORruvsMHkVyh/wdDQ==
"""
KEY_ID = b"teamteam"
SECRET = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
MONDAY, TUESDAY = 1764547200, 1764633600


def public(secret: Ed25519PrivateKey = SECRET) -> str:
    raw = secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.b64encode(b"Ed" + KEY_ID + raw).decode()


def signed(text: str, comment: str = f"timestamp:{MONDAY}", secret: Ed25519PrivateKey = SECRET) -> bytes:
    own = secret.sign(hashlib.blake2b(text.encode()).digest())
    first = base64.b64encode(b"ED" + KEY_ID + own).decode()
    whole = base64.b64encode(secret.sign(own + comment.encode())).decode()
    return f"untrusted comment: x\n{first}\ntrusted comment: {comment}\n{whole}\n".encode()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubServer]:
    gguf = write_llama(tmp_path / "tiny.gguf").read_bytes()
    with HubServer({"ann/tiny-GGUF": Repo({"Tiny-Q8_0.gguf": gguf})}) as server:
        publish(server, LIST, signed(LIST))
        yield server


@pytest.fixture
def settings(tmp_path: Path, hub: HubServer) -> Iterator[Settings]:
    yield Settings(
        home=tmp_path, hub_endpoint=hub.url, catalog_url=f"{hub.url}/c.toml", catalog_key=public(), hub_publishers=""
    )
    catalog.use(None)


def publish(server: HubServer, text: str, signature: bytes) -> None:
    server.scripted["/c.toml"] = Answer(200, text.encode())
    server.scripted["/c.toml.minisig"] = Answer(200, signature)


def plan(settings: Settings, name: str = "tiny") -> PullPlan:
    with Puller(settings) as puller:
        return puller.plan(name, threading.Event())


def lists_fetched(hub: HubServer) -> int:
    return len([asked for asked in hub.asked if asked.path == "/c.toml"])


def test_a_name_of_the_signed_list_is_known_from_the_first_pull_on(settings: Settings, hub: HubServer) -> None:
    found = plan(settings)
    assert (found.name, found.source.partition("@")[0]) == ("tiny:1m", "hf.co/ann/tiny-GGUF")
    assert found.notices[0] == f"the catalog is now that of 2025-12-01 from {hub.host}"
    assert plan(settings, "tiny:1m").notices == (), "asked once a day"
    assert lists_fetched(hub) == 1
    assert catalog.load().find("qwen3") is not None, "the bundled names stay"
    catalog.use(None)
    signed_catalog.use(settings)  # as the next process does
    assert catalog.load().find("tiny") is not None


def test_a_newer_list_replaces_the_names_that_it_has(settings: Settings, hub: HubServer) -> None:
    plan(settings)
    newer = LIST.replace('tag = "1m"', 'tag = "2m"')
    publish(hub, newer, signed(newer, f"timestamp:{TUESDAY}"))
    later = msgspec.structs.replace(settings, catalog_refresh_s=0.0)
    assert "2025-12-02" in plan(later, "tiny:2m").notices[0]
    assert [entry.tag for entry in catalog.load().entries if entry.name == "tiny"] == ["2m"]
    with pytest.raises(ModelNotFound, match="no model is called 'tiny:1m'"):
        plan(later, "tiny:1m")


OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
OLDER = LIST.replace('tag = "1m"', 'tag = "0m"')


@pytest.mark.parametrize(
    ("text", "signature", "reason"),
    [
        (OLDER, signed(LIST), "does not fit the file"),
        (OLDER, signed(OLDER, secret=OTHER), "does not fit the file"),
        (OLDER, signed(OLDER).replace(b"17645", b"27645"), "does not fit its comment"),
        (OLDER, signed(OLDER, "x"), "no timestamp"),
        (OLDER, signed(OLDER, f"timestamp:{MONDAY - 1}"), "has one of 2025-11-30, and that of 2025-12-01 is here"),
        (OLDER, MINISIGN_SIGNATURE, "of another key"),
        (OLDER, LEGACY_SIGNATURE, "legacy"),
        (OLDER, b"<html>", "not one of minisign"),
        ("[[model]]\nname = 1", None, "cannot read"),
        ("\x00", None, "cannot read"),
        (LIST + "#" * signed_catalog.MAX_CATALOG_BYTES, b"", "more than"),
    ],
)
def test_a_list_that_is_altered_old_or_unreadable_changes_nothing(
    settings: Settings, hub: HubServer, text: str, signature: bytes | None, reason: str
) -> None:
    plan(settings)
    publish(hub, text, signed(text, f"timestamp:{TUESDAY}") if signature is None else signature)
    [notice] = [
        each for each in plan(msgspec.structs.replace(settings, catalog_refresh_s=0.0)).notices if "catalog" in each
    ]
    assert reason in notice
    assert "was not refreshed" in notice
    assert catalog.load().find("tiny", "1m") is not None


def test_without_any_list_the_bundled_one_is_used_and_the_pull_goes_on(settings: Settings, hub: HubServer) -> None:
    del hub.scripted["/c.toml"]
    repo = catalog.bundled().find("smollm2", "135m")
    assert repo is not None
    hub.repos[repo.repo] = Repo({f"x-{repo.quant}.gguf": 1000})
    with Puller(settings) as puller:
        notices = puller.plan("smollm2:135m", threading.Event()).notices
    assert notices[0].startswith("the catalog was not refreshed, the bundled one is used: ")
    assert "answered 404" in notices[0]
    with pytest.raises(ModelNotFound, match=r"no model is called 'tiny'.*; the catalog was not refreshed"):
        plan(settings)


def test_the_signature_is_the_one_that_minisign_writes() -> None:
    key = minisign.public_key(MINISIGN_KEY)
    assert minisign.signed_at(LIST.encode(), MINISIGN_SIGNATURE, key) == 1764374400
    with pytest.raises(minisign.NotSigned, match="legacy"):
        minisign.signed_at(LIST.encode(), LEGACY_SIGNATURE, key)


@pytest.mark.parametrize(
    ("changed", "param"),
    [
        ({"catalog_key": None}, "catalog_key"),
        ({"catalog_key": "RWQ"}, "catalog_key"),
        ({"catalog_url": "x"}, "catalog_url"),
    ],
)
def test_settings_that_cannot_work_are_named(settings: Settings, changed: dict[str, str | None], param: str) -> None:
    with pytest.raises(InvalidParameter, match=param) as caught:
        plan(msgspec.structs.replace(settings, **changed))
    assert caught.value.param == param


def test_a_list_may_say_how_good_and_how_fast_a_model_is(settings: Settings, hub: HubServer) -> None:
    score = '{ measure = "MMLU-Pro", score = 12, source = "https://models.example/tiny" }'
    text = f"{LIST}active_parameters = 500000\nkv_bytes_per_token = 4096\nquality = [{score}]\n"
    publish(hub, text, signed(text))
    plan(settings)
    found = catalog.load().find("tiny")
    assert found is not None
    assert found.active_parameters == 500_000
    assert (found.scored("MMLU-Pro"), found.scored("MMMU-Pro")) == (found.quality[0], None)
