"""`GET /docs` and `GET /docs/{topic}`: the documentation as HTML for browsers, with a search.

Needs no key: the text is that of the package. Runs no script. The policy of the web page applies, except
that the search form may be sent.
"""

from __future__ import annotations

import functools
import itertools
from html import escape
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from localllm.docs.pages import anchor, pages, relinked
from localllm.docs.searching import search
from localllm.errors import clipped
from localllm.server.errors import NotFound
from localllm.server.ui.files import HEADERS, POLICY

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_FOUND = 8
"""Sections shown for a search."""
MAX_QUERY_CHARS = 200
_CURRENT = ' aria-current="page"'
_HEADERS = HEADERS | {"content-security-policy": POLICY.replace("form-action 'none'", "form-action 'self'")}


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [Route("/docs", show), Route("/docs/{topic}", show)]


async def show(request: Request) -> Response:
    """One page; without a topic, what `?q=` finds, or the list of pages."""
    topic: str | None = request.path_params.get("topic")
    if not request.app.state.server.settings.ui or (topic is not None and topic not in pages()):
        raise NotFound(f"{clipped(request.url.path)} is not served here")
    # Relative addresses, since another application may have mounted this one under a path.
    to_docs, to_ui = ("docs/", "ui/") if topic is None else ("", "../ui/")
    query = request.query_params.get("q", "")[:MAX_QUERY_CHARS]
    if topic is not None:
        title, main = pages()[topic].title, _html(pages()[topic].text, to_docs)
    elif query:
        title, main = query, _found(query, to_docs)
    else:
        title, main = "Documentation", _list()
    return HTMLResponse(_document(title, main, topic, query, to_docs, to_ui), headers=_HEADERS)


def _document(title: str, main: str, topic: str | None, query: str, to_docs: str, to_ui: str) -> str:
    links = "".join(
        f'<li><a href="{to_docs}{each}"{_CURRENT if each == topic else ""}>{escape(each)}</a></li>' for each in pages()
    )
    home = "./" if topic is None else "../"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} - localllm</title>
<link rel="icon" href="{to_ui}icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="{to_ui}docs.css">
</head>
<body>
<nav aria-label="Documentation">
<p><a href="{home}">localllm</a></p>
<form action="{home}docs" role="search">
<input type="search" name="q" aria-label="Search" placeholder="Search" value="{escape(query)}">
</form>
<ul>{links}</ul>
</nav>
<main>
{main}
</main>
</body>
</html>
"""


def _list() -> str:
    rows = (f'<li><a href="docs/{topic}">{escape(page.title)}</a></li>' for topic, page in pages().items())
    return f"<h1>Documentation</h1>\n<ul>{''.join(rows)}</ul>"


def _found(query: str, to_docs: str) -> str:
    found = search(query, MAX_FOUND)
    if not found:
        return f"<h1>Nothing found</h1>\n<p>No page says anything about {escape(query)}.</p>"
    return f"<h1>{escape(query)}</h1>\n" + "\n".join(
        f'<h2><a href="{to_docs}{one.topic}#{anchor(one.heading)}">{escape(one.heading)}</a> ({escape(one.topic)})</h2>'
        f"\n{_html(one.text, to_docs)}"
        for one in found
    )


@functools.lru_cache(maxsize=256)
def _html(markdown: str, to_docs: str) -> str:
    """HTML of Markdown, in which any HTML is shown as text."""
    text = relinked(markdown, lambda label, topic, to: f"[{label}]({to_docs}{topic}{to})")
    parser = _parser()
    tokens = parser.parse(text)
    for opening, inner in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", anchor(_plain(inner)))
    rendered: Any = parser.renderer.render(tokens, parser.options, {})
    return str(rendered)


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or ())


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # only when a page is shown

    return MarkdownIt("commonmark", {"html": False}).enable("table")
