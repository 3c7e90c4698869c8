"""The catalog that an address publishes, signed by a key that this user chose; kept in the data directory.

Nothing is fetched unless `catalog_url` is set. A list is taken only whole, valid, signed and not older than the one
that is here; otherwise the one that is here stays in use. Knows nothing of pulls.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from localllm.errors import InvalidParameter, PullFailed
from localllm.registry import catalog, minisign
from localllm.registry.catalog import Catalog
from localllm.registry.sources.source import Fetch, clean, host_of
from localllm.settings.config import Settings
from localllm.system.files import write_whole

SIGNATURE_SUFFIX = ".minisig"
MAX_CATALOG_BYTES = 4 * 1024 * 1024
MAX_SIGNATURE_BYTES = 16 * 1024


class Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A verified list as it lies in the data directory."""

    url: str
    key: str
    """The public key that signed it; with another one configured, the list is not used."""
    signed_at: int
    """Unix time in seconds, from the signed comment."""
    checked_at: float
    """Unix time in seconds of the last request that found nothing newer."""
    text: str
    """TOML, as in `data/catalog.toml`."""


def use(settings: Settings) -> None:
    """Makes this process know the names of the list that these settings name, as far as it is here."""
    catalog.use(_catalog(_read(settings)))


def refresh(settings: Settings, fetch: Fetch, *, now: float | None = None) -> str:
    """Fetches the list if `catalog_url` is set and the last check is `catalog_refresh_s` ago.

    Returns what the user should know: that it was refreshed, or why it could not be; empty if there is nothing to say.
    Raises `InvalidParameter` for settings that cannot work, and `Cancelled`.
    """
    chosen = _chosen(settings)
    if chosen is None:
        return ""
    now = time.time() if now is None else now
    kept = _read(settings)
    if kept is not None and 0 <= now - kept.checked_at < settings.catalog_refresh_s:
        return ""
    try:
        fetched = _fetched(*chosen, fetch, now)
    except PullFailed as error:
        used = "the bundled one" if kept is None else f"that of {_date(kept.signed_at)}"
        return f"the catalog was not refreshed, {used} is used: {error.message}"
    if kept is not None and fetched.signed_at < kept.signed_at:
        return (
            f"the catalog was not refreshed: {host_of(fetched.url)} has one of {_date(fetched.signed_at)}, and that of "
            f"{_date(kept.signed_at)} is here"
        )
    write_whole(_path(settings), msgspec.json.encode(fetched))
    use(settings)
    if kept is not None and kept.text == fetched.text:
        return ""
    return f"the catalog is now that of {_date(fetched.signed_at)} from {host_of(fetched.url)}"


def _fetched(url: str, key: str, fetch: Fetch, now: float) -> Kept:
    content = _body(url, fetch, MAX_CATALOG_BYTES)
    signature = _body(url + SIGNATURE_SUFFIX, fetch, MAX_SIGNATURE_BYTES)
    host = host_of(url)
    try:
        signed_at = minisign.signed_at(content, signature, minisign.public_key(key))
    except minisign.NotSigned as error:
        raise PullFailed(f"{host}: {error}") from error
    try:
        text = content.decode("utf-8")
        catalog.parse(text)
    except ValueError as error:
        raise PullFailed(f"{host} sent a catalog that this version cannot read: {clean(str(error))}") from error
    return Kept(url=url, key=key, signed_at=signed_at, checked_at=now, text=text)


def _body(url: str, fetch: Fetch, max_bytes: int) -> bytes:
    answer = fetch.get_small(url, named_by_user=True, max_bytes=max_bytes)
    if answer.status != 200:
        raise PullFailed(f"{host_of(url)} answered {answer.status} for {url}", status=answer.status)
    return answer.body


def _chosen(settings: Settings) -> tuple[str, str] | None:
    """Address and public key; None if no address is set. Raises `InvalidParameter`."""
    url, key = settings.catalog_url, settings.catalog_key
    if not url:
        return None
    if urlsplit(url).scheme not in ("http", "https"):
        raise InvalidParameter("catalog_url has to be an http or https address", param="catalog_url")
    if not key:
        raise InvalidParameter(
            "catalog_url needs catalog_key, the minisign public key of who signs the list", param="catalog_key"
        )
    minisign.public_key(key)
    return url, key


def _read(settings: Settings) -> Kept | None:
    """The list that is here; None without one of this address and key."""
    if not settings.catalog_url:
        return None
    with contextlib.suppress(FileNotFoundError):
        try:
            kept = msgspec.json.decode(_path(settings).read_bytes(), type=Kept)
        except ValueError:
            return None  # damaged: it is fetched again
        if (kept.url, kept.key) == (settings.catalog_url, settings.catalog_key):
            return kept
    return None


def _catalog(kept: Kept | None) -> Catalog | None:
    if kept is None:
        return None
    try:
        return catalog.bundled().replaced_by(catalog.parse(kept.text))
    except ValueError:  # written by a newer version
        return None


def _path(settings: Settings) -> Path:
    return settings.data_dir / "catalog.json"


def _date(unix_time: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(unix_time))
