"""Reads MCP server configurations, the `mcpServers` JSON that MCP hosts share. Knows no protocol and starts nothing.

`${NAME}` and `${NAME:-default}` expand environment variables in every string. Fields of other hosts are reported as
having no effect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.system.files import bounded_bytes
from localllm.types.mismatches import mismatch

MAX_FILE_BYTES = 1024 * 1024
MAX_SERVERS = 32
HTTP_TYPES = ("http", "streamable-http", "streamableHttp", "streamable_http")
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class StdioServer(NamedTuple):
    """A program that speaks MCP on stdin and stdout."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    """In addition to basic variables such as `PATH` and `HOME`."""
    cwd: Path | None = None
    include: tuple[str, ...] | None = None
    """Included tools; None: all."""
    exclude: tuple[str, ...] = ()


class HttpServer(NamedTuple):
    """A server that speaks Streamable HTTP."""

    name: str
    url: str
    headers: Mapping[str, str] = {}
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()


McpServer = StdioServer | HttpServer


class Servers(NamedTuple):
    """The content of a file."""

    servers: tuple[McpServer, ...]
    notes: tuple[str, ...] = ()
    """Notes on fields without effect and disabled servers."""


class _Entry(msgspec.Struct, rename="camel"):
    """One server, as in the hosts' format."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str | int | float | bool] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    type: str | None = None
    transport: str | None = None
    """Another name for `type`."""
    disabled: bool = False
    enabled: bool = True
    include_tools: list[str] | None = None
    exclude_tools: list[str] = []


_KNOWN = {field.encode_name for field in msgspec.structs.fields(_Entry)}


def load_servers(path: Path, environ: Mapping[str, str], *, param: str) -> Servers:
    """Read a file. Raises `InvalidParameter`, `UnsupportedParameter` for `param`, naming file, server and field."""
    data = bounded_bytes(path, MAX_FILE_BYTES, param=param)
    try:
        return parse_servers(data.removeprefix(b"\xef\xbb\xbf"), environ)
    except (InvalidParameter, UnsupportedParameter) as error:
        raise error.renamed(f"{path}: {error.message}", param) from error


def parse_servers(data: bytes, environ: Mapping[str, str]) -> Servers:
    """Parse a configuration. Raises like `load_servers`, without the name of the file."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParameter(f"this is not JSON: {error}") from error
    given = found.get("mcpServers", found.get("servers")) if isinstance(found, dict) else None
    if not isinstance(given, dict) or not given:
        raise InvalidParameter(
            'there are no servers: {"mcpServers": {"NAME": {"command": ..., "args": [...]}, "OTHER": {"url": ...}}}'
        )
    if len(given) > MAX_SERVERS:
        raise InvalidParameter(f"there are {len(given)} servers; the limit is {MAX_SERVERS}")
    servers: list[McpServer] = []
    notes: list[str] = []
    for name, entry in given.items():
        where = f"server {clipped(name)!r}"
        server = _server(name, entry, where, environ)
        unknown = sorted(entry.keys() - _KNOWN)
        if unknown:
            notes.append(f"{where}: fields without effect: {clipped(', '.join(unknown))}")
        if server is None:
            notes.append(f"{where} is disabled")
        else:
            servers.append(server)
    return Servers(tuple(servers), tuple(notes))


def _server(name: str, given: object, where: str, environ: Mapping[str, str]) -> McpServer | None:
    try:
        entry = msgspec.convert(given, _Entry)
    except msgspec.ValidationError as error:
        path, what = mismatch(error)
        raise InvalidParameter(f"{where}: {path or 'it'} {what}") from error
    if entry.disabled or not entry.enabled:
        return None
    if not name.strip():
        raise InvalidParameter("a server has no name")
    kind = entry.type or entry.transport
    include = None if entry.include_tools is None else tuple(entry.include_tools)
    exclude = tuple(entry.exclude_tools)

    def filled(text: str, field: str) -> str:
        return _filled(text, environ, f"{where}: {field}")

    if entry.command is not None and entry.url is not None:
        raise InvalidParameter(f"{where} has a command and a url; leave one out")
    if kind == "sse":
        raise UnsupportedParameter(f"{where}: type sse is the transport before 2025-03-26; use type http")
    if entry.command is not None:
        if kind not in (None, "stdio"):
            raise InvalidParameter(f"{where}: type must be stdio, since it has a command, got {clipped(kind or '')!r}")
        command = filled(entry.command, "command")
        return StdioServer(
            name,
            str(Path(command).expanduser()) if command.startswith("~") else command,
            tuple(filled(text, f"args[{place}]") for place, text in enumerate(entry.args)),
            {key: filled(_text(value), f"env.{key}") for key, value in entry.env.items()},
            None if entry.cwd is None else Path(filled(entry.cwd, "cwd")).expanduser(),
            include,
            exclude,
        )
    if entry.url is None:
        raise InvalidParameter(f"{where} has neither a command nor a url")
    if kind not in (None, *HTTP_TYPES):
        raise InvalidParameter(f"{where}: type must be http, since it has a url, got {clipped(kind)!r}")
    url = filled(entry.url, "url")
    if not url.startswith(("http://", "https://")):
        raise InvalidParameter(f"{where}: url must begin with http:// or https://")
    headers = {key: filled(value, f"headers.{key}") for key, value in entry.headers.items()}
    return HttpServer(name, url, _checked(headers, where), include, exclude)


def _filled(text: str, environ: Mapping[str, str], where: str) -> str:
    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        if name in environ:
            return environ[name]
        if default is None:
            raise InvalidParameter(f"{where}: the environment has no {name}; set it, or write ${{{name}:-...}}")
        return default

    filled = _VARIABLE.sub(value, text)
    if "\0" in filled:
        raise InvalidParameter(f"{where}: a string contains a NUL character")
    return filled


def _checked(headers: Mapping[str, str], where: str) -> Mapping[str, str]:
    """Raises `InvalidParameter` for invalid HTTP headers."""
    for key, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", key) or not value.isascii() or not _is_line(value):
            raise InvalidParameter(f"{where}: headers.{clipped(key)} is not a valid HTTP header")
    return headers


def _is_line(text: str) -> bool:
    return all(character.isprintable() or character == "\t" for character in text)


def _text(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
