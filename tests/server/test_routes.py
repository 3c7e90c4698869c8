"""Replies of a route name the model that answered and the reason; `localllm route` shows where names lead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localllm.cli.commands.routes import show_routes
from localllm.errors import InvalidParameter
from localllm.runtime.answer_reader import Routed
from localllm.runtime.routing import Routing
from localllm.settings import config
from localllm.types.states import AvailableModel
from tests.server.conftest import Served

ROUTES = """
[models."chat"]
route = ["nobody:1b", "demo"]
when = ["too_long", "wait > 2s"]
split = {"nobody:1b" = 90, demo = 10}
mirror = "demo"
"""


@pytest.mark.parametrize("stream", [True, False])
def test_the_reply_says_which_model_answered_and_why(served: Served, stream: bool) -> None:
    served.runtime.routed = Routed("chat", "tiny", "too_long")
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "stream": stream}
    answer = served.http.post("/v1/chat/completions", json=body)
    assert answer.headers["x-localllm-model"] == "tiny"
    assert answer.headers["x-localllm-route"] == "chat; too_long"
    metrics = served.http.get("/metrics").text
    assert 'localllm_routed_requests_total{model="tiny",reason="too_long",route="chat"}' in metrics
    served.runtime.routed = None
    plain = served.http.post("/v1/chat/completions", json=body)
    assert plain.headers["x-localllm-model"] == "tiny"
    assert "x-localllm-route" not in plain.headers
    assert "x-localllm-model" not in served.http.get("/v1/models").headers


def test_the_command_shows_where_a_name_leads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.toml").write_text(ROUTES)
    settings = config.load({"home": tmp_path, "port": 1})
    assert show_routes(settings, None, as_json=False) == 0
    assert capsys.readouterr().out.splitlines() == [
        "chat",
        "  asked first  nobody:1b  not on this machine  weight 90",
        "  then         demo       here; no server runs  weight 10",
        "  when         too_long, wait > 2s",
        "  mirror       demo",
    ]
    show_routes(settings, "chat", as_json=True)
    assert [each["model"] for each in json.loads(capsys.readouterr().out)[0]["models"]] == ["nobody:1b", "demo"]
    with pytest.raises(InvalidParameter, match="'nothing' is no route; known: chat"):
        show_routes(settings, "nothing", as_json=False)


def test_a_route_is_listed_under_the_first_of_its_models_that_is_here(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        """
        [models."chat"]
        route = ["nobody:1b", "fast"]
        [models."fast"]
        route = ["tiny", "other:1b"]
        [models."none"]
        route = ["nobody:1b"]
        """
    )
    models = [AvailableModel(id=id, size_bytes=5, created_unix_s=7) for id in ("other:1b", "tiny")]
    listed = Routing(config.load({"home": tmp_path})).listed(models)
    assert [(each.id, each.base, each.route) for each in listed] == [
        ("chat", "tiny", ("nobody:1b", "fast")),
        ("fast", "tiny", ("tiny", "other:1b")),
        ("none", None, ("nobody:1b",)),
    ]
    assert [each.problem for each in listed] == [None, None, "none of its models is on this machine; pull one of them"]


def test_every_list_of_models_has_the_routes(served: Served) -> None:
    route = AvailableModel(id="chat", size_bytes=0, created_unix_s=7, base="tiny", route=("tiny", "other:1b"))
    served.runtime.others = [*served.runtime.others, route]
    listed = {each["id"]: each for each in served.http.get("/v1/models").json()["data"]}
    assert listed["chat"]["route"] == ["tiny", "other:1b"]
    assert (listed["chat"]["loaded"], listed["chat"]["ctx"]) == (True, listed["tiny"]["ctx"])
    assert not {"parent", "root"} & listed["chat"].keys()
    assert "route" not in listed["tiny"]
    assert served.http.get("/v1/models/chat").json()["route"] == ["tiny", "other:1b"]
    assert "chat:latest" in [each["name"] for each in served.http.get("/api/tags").json()["models"]]
    assert served.http.get("/localllm/models").json()["models"][-1]["route"] == ["tiny", "other:1b"]
