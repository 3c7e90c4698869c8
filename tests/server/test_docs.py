"""The documentation as served: for everybody, as HTML without scripts, under the page's policy."""

from __future__ import annotations

import re

import pytest

from localllm.docs.pages import pages
from localllm.settings.config import Settings
from tests.server.conftest import Served, running


def test_every_page_is_served_and_every_link_leads_somewhere(served: Served) -> None:
    for path in ("/docs", *(f"/docs/{topic}" for topic in pages())):
        answer = served.http.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "<script" not in answer.text
        for target in re.findall(r'(?:href|src|action)="([^"#]+)', answer.text):
            if "://" not in target and not target.startswith(("settings", "docs/settings")):
                assert served.http.get(str(answer.url.join(target))).status_code == 200, (path, target)


def test_a_search_shows_sections_and_echoes_nothing_as_html(served: Served) -> None:
    found = served.http.get("/docs", params={"q": "system prompt"}).text
    assert '<h2><a href="docs/cli#a-system-prompt">A system prompt</a> (cli)</h2>' in found
    for hostile in ("<script>alert(1)</script>", '"><img src=x>', "zzz" * 1000):
        said = served.http.get("/docs", params={"q": hostile}).text
        assert "<script" not in said
        assert "<img" not in said


def test_only_the_search_form_is_allowed_beyond_the_pages_policy(served: Served) -> None:
    policy = served.http.get("/docs/gpu").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "form-action 'self'" in policy


@pytest.mark.parametrize("path", ["/docs/none", "/docs/../pages.py", "/docs/gpu.md"])
def test_nothing_else_is_served(served: Served, path: str) -> None:
    assert served.http.get(path).status_code == 404


def test_pages_need_no_key_and_go_with_the_page() -> None:
    with running(Settings(port=0, api_keys="secret")) as guarded:
        assert guarded.http.get("/docs/gpu").status_code == 200
    with running(Settings(port=0, ui=False)) as bare:
        assert bare.http.get("/docs").status_code == 404
