"""Models from plain URLs: the number, sizes and names of their files. Nothing more is known before the download.

A plain URL comes without a digest, so the received bytes are hashed and accepted. `hub_file` recognizes the URL of a
file on Hugging Face, as a browser shows it, since Hugging Face provides the digest.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit, urlunsplit

from localllm.errors import AccessDenied, ForbiddenAddress, InvalidParameter, ModelNotFound, PullFailed
from localllm.registry.fetch.pacing import Retryable
from localllm.registry.names import model_names
from localllm.registry.names.model_names import HubFile, UrlName
from localllm.registry.remote import Cancelled, PullPlan, RemoteFile
from localllm.registry.sources.quants import quant_of, shard_name, split_shard
from localllm.registry.sources.source import Fetch, checked_file_name, clean, header, host_of

MAX_SHARDS = 256
PROBE_BYTES = 64 * 1024
"""A server that sends more than this for a request of one byte does not support ranges."""

_TOTAL = re.compile(r"bytes \d+-\d+/(\d{1,18})")
_HUB = re.compile(r"/(?P<repo>[^/]+/[^/]+)/(?:resolve|blob|raw)/(?P<revision>[^/]+)/(?P<path>.+)")


def plan(name: UrlName, fetch: Fetch) -> PullPlan:
    """What to download for `name`; the URL of one shard stands for all. Raises `ModelNotFound`, `AccessDenied` or
    `PullFailed`."""
    urls = _urls(name.url)
    files = tuple(
        RemoteFile(
            file_name=checked_file_name(_file_name(url), host_of(url)),
            url=url,
            named_by_user=True,
            size_bytes=_probe(fetch, url),
            digest=None,
        )
        for url in urls
    )
    return PullPlan(name=str(name), source=name.url, files=files, quant=quant_of(files[0].file_name))


def hub_file(name: UrlName) -> HubFile | None:
    """The Hugging Face file that the URL points to, if it does."""
    parts = urlsplit(name.url)
    match = _HUB.fullmatch(unquote(parts.path)) if parts.hostname in ("huggingface.co", "hf.co") else None
    if match is None:
        return None
    revision = None if match["revision"] == "main" else match["revision"]
    return model_names.hub_file(match["repo"], match["path"], revision)


def _urls(url: str) -> list[str]:
    parts = urlsplit(url)
    stem, number, count = split_shard(parts.path)
    if count == 1:
        return [url]
    if not 1 <= number <= count <= MAX_SHARDS:
        raise InvalidParameter(
            f"{url} is file {number:,} of {count:,}; at most {MAX_SHARDS} are supported", param="model"
        )
    return [urlunsplit(parts._replace(path=shard_name(stem, one, count))) for one in range(1, count + 1)]


def _file_name(url: str) -> str:
    return unquote(urlsplit(url).path.rpartition("/")[2])


def _probe(fetch: Fetch, url: str) -> int | None:
    """The size in bytes; None if the server does not give it without sending the whole file."""
    try:
        response = fetch.get_small(
            url,
            named_by_user=True,
            max_bytes=PROBE_BYTES,
            headers={"Range": "bytes=0-0", "Accept-Encoding": "identity"},
        )
    except (Cancelled, ForbiddenAddress, Retryable):
        raise
    except PullFailed:
        return None  # it sends more than requested; the download will meet anything worse again
    host = clean(host_of(response.url))
    if response.status in (404, 410):
        raise ModelNotFound(f"{host} has no {url}", param="model")
    if response.status in (401, 403):
        raise AccessDenied(f"{host} does not serve {url} publicly; download it yourself and give its path")
    if response.status not in (200, 206):
        raise PullFailed(f"{host} answered {response.status} for {url}", status=response.status)
    if header(response, "content-type").startswith("text/html"):
        raise PullFailed(f"{url} is a web page, not a file; use the link to the file itself")
    if response.status == 200:
        return len(response.body)
    total = _TOTAL.fullmatch(header(response, "content-range"))
    return int(total[1]) if total else None
