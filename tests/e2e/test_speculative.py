"""The request field `speculative` on real servers: each source by its name, or an answer that says why not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from localllm.client.sidecar import Sidecar
from tests.conftest import CHATML
from tests.models import families
from tests.waiting import until

STORY = "Once upon a time there was a little cat. The little cat was happy. The little cat sat on the mat. "
ASKED = {"messages": [{"role": "user", "content": f"Repeat after me: {STORY * 2}"}], "temperature": 0}


@contextmanager
def served(*options: str) -> Iterator[httpx.Client]:
    with Sidecar.start([*options, "--slots=2", "--threads=1", "--log-level=warning"]) as one:
        headers = {"authorization": f"Bearer {one.token}"}
        with httpx.Client(base_url=one.url, headers=headers, timeout=120) as client:
            yield client


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    asked = {"model": client.get("/v1/models").json()["data"][0]["id"], **ASKED, "max_tokens": 80, **fields}
    return client.post("/v1/chat/completions", json=asked)


def text_of(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


def warnings_of(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return list(response.json().get("localllm", {}).get("warnings", []))


@pytest.mark.usefixtures("demo")
def test_a_draft_model_alone_may_guess_and_the_answer_stays() -> None:
    """How much it guesses depends on what it costs here; what it is counted under does not."""
    with served("demo", "--draft=demo-draft") as client:
        model = client.get("/v1/models").json()["data"][0]
        assert model["draft"] == "demo-draft"
        assert all(slot["speculative"] for slot in client.get("/slots").json())
        assert model["speculation_sources"] == ["lookup", "prediction", "draft"]
        plain = ask(client, speculative=False)
        drafted = ask(client, speculative={"sources": ["draft"]})
        assert text_of(drafted) == text_of(plain)
        assert warnings_of(drafted) == warnings_of(plain) == []
        guessed = [line for line in client.get("/metrics").text.splitlines() if "guess" in line and 'source="' in line]
        used = [line for line in guessed if not line.startswith("#") and float(line.rsplit(" ", 1)[1]) > 0]
        assert used, "a source is believed in until it was measured, so some guesses are always made"
        assert all('source="draft"' in line for line in used)
        refused = ask(client, speculative={"sources": ["lookup", "mtp"]})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "speculative.sources"
        assert "has no NextN layers" in refused.json()["error"]["message"]


@pytest.mark.usefixtures("demo")
def test_a_source_that_is_not_there_is_refused_and_a_server_that_never_guesses_says_so() -> None:
    with served("demo", "--speculation=off") as client:
        assert not any(slot["speculative"] for slot in client.get("/slots").json())
        wanted: tuple[object, ...] = (True, {}, {"n_max": 4}, {"sources": ["lookup"]})
        for value in wanted:
            assert warnings_of(ask(client, speculative=value)) == ["speculative: nothing is guessed: as requested"]
        nothing: tuple[object, ...] = (False, {"n_max": 0}, {"sources": []}, None)
        for value in nothing:
            assert warnings_of(ask(client, speculative=value)) == []
        with client.stream("POST", "/v1/chat/completions", json={"model": "demo", **ASKED, "max_tokens": 5,
                           "speculative": True, "stream": True}) as stream:  # fmt: skip
            assert "speculative: nothing is guessed" in "".join(stream.iter_text())
        for source in ("draft", "mtp"):
            refused = ask(client, speculative={"sources": [source]})
            assert refused.status_code == 400
            assert refused.json()["error"]["code"] == "unsupported_parameter"
            assert f"names {source}" in refused.json()["error"]["message"]
        wrong = ask(client, speculative={"sources": ["guess"]})
        assert wrong.status_code == 400


def test_the_models_own_heads_guess_and_say_so(tmp_path: Path) -> None:
    path = families.write_gated_delta(
        tmp_path / "heads.gguf", n_nextn=1, scale=0.05, sees_tokens=True, chat_template=CHATML
    )
    with served(str(path), "--ctx=512") as client:
        assert "mtp" in client.get("/v1/models").json()["data"][0]["speculation_sources"]
        plain = ask(client, speculative=False, ignore_eos=True)
        for fields in ({"sources": ["mtp"]}, {"sources": ["mtp"], "n_max": 1}, True):
            assert text_of(ask(client, speculative=fields, ignore_eos=True)) == text_of(plain)
        noted = ask(client, speculative=True, mirostat=2, max_tokens=5)
        assert warnings_of(noted) == ["speculative: nothing is guessed with mirostat"]

        def has_guessed() -> bool:
            """They rest where a busy machine makes guesses dear, and try again later."""
            ask(client, speculative={"sources": ["mtp"]}, ignore_eos=True)
            return 'source="mtp"' in client.get("/metrics").text

        until(has_guessed)
    with served(str(path), "--ctx=512", "--mtp=off") as client:
        assert client.get("/v1/models").json()["data"][0]["mtp_reason"] == "as requested"
        refused = ask(client, speculative={"sources": ["mtp"]})
        assert refused.status_code == 400
        assert "do not guess: as requested" in refused.json()["error"]["message"]


def test_a_memory_that_takes_nothing_back_says_so(tmp_path: Path) -> None:
    path = families.write_recurrent(tmp_path / "recurrent.gguf", chat_template=CHATML)
    with served(str(path), "--ctx=512") as client:
        (warning,) = warnings_of(ask(client, speculative={"n_max": 3}, max_tokens=5))
        assert warning.startswith("speculative: nothing is guessed: a recurrent memory")
