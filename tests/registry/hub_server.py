"""A fake Hugging Face on loopback: the API requests and responses that `hub_api` uses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.registry.loopback import Answer, Asked, LoopbackServer, ranged

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_look_alike"
PAGE = 3
"""Files per page of a tree."""

_REVISION = re.compile(r"/api/models/([^/]+/[^/]+)/revision/(.+)")
_TREE = re.compile(r"/api/models/([^/]+/[^/]+)/tree/(.+)")
_CHECK = re.compile(r"/api/models/([^/]+/[^/]+)/auth-check")
_RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


@dataclass
class Repo:
    """A repository; its files are bytes, or only sizes for files that are never downloaded."""

    files: Mapping[str, bytes | int]
    card: dict[str, Any] = field(default_factory=dict)
    gated: str | bool = False
    private: bool = False
    downloads: int = 10
    without_lfs: bool = False
    """Sizes are only in the tree, not in the model's info, as with some mirrors."""
    in_git: bool = False
    """No file has a sha256."""

    def sha256(self, path: str) -> str:
        content = self.files[path]
        return hashlib.sha256(content if isinstance(content, bytes) else path.encode()).hexdigest()

    def git_id(self, path: str) -> str:
        content = self.files[path]
        raw = content if isinstance(content, bytes) else path.encode()
        return hashlib.sha1(b"blob %d\0" % len(raw) + raw, usedforsecurity=False).hexdigest()

    def size(self, path: str) -> int:
        content = self.files[path]
        return len(content) if isinstance(content, bytes) else content


class HubServer(LoopbackServer):
    """`repos` by name."""

    def __init__(self, repos: Mapping[str, Repo] | None = None) -> None:
        super().__init__()
        self.repos: dict[str, Repo] = dict(repos or {})

    def answer(self, asked: Asked) -> Answer:
        authorization = asked.headers.get("authorization")
        if authorization not in (None, f"Bearer {TOKEN}"):
            return _error(401, "", "Invalid credentials in Authorization header")
        if asked.path == "/api/models":
            return self._search(asked)
        match = _RESOLVE.fullmatch(asked.path)
        if match is not None:
            return self._resolve(match, asked)
        for pattern in (_REVISION, _TREE, _CHECK):
            match = pattern.fullmatch(asked.path)
            if match is not None:
                return self._about(match, asked)
        return Answer(404)

    def _about(self, match: re.Match[str], asked: Asked) -> Answer:
        repo, known = self.repos.get(match[1]), "authorization" in asked.headers
        if repo is None or (repo.private and not known):
            return _error(404 if known else 401, "RepoNotFound", "Repository not found")
        if match.re is _CHECK:
            return _error(403, "GatedRepo", "Access is restricted") if repo.gated == "manual" else Answer()
        return self._tree(repo, asked) if match.re is _TREE else self._info(match, repo, asked)

    def _info(self, match: re.Match[str], repo: Repo, asked: Asked) -> Answer:
        if match[2] not in ("main", COMMIT):
            return _error(404, "RevisionNotFound", f"Invalid rev id: {match[2]}")
        blobs = asked.query.get("blobs") == ["true"] and not repo.without_lfs
        siblings = [_entry(repo, path, "rfilename", "sha256") if blobs else {"rfilename": path} for path in repo.files]
        tags = ["gguf", *([f"license:{repo.card['license']}"] if isinstance(repo.card.get("license"), str) else [])]
        about = {"_id": "x", "id": match[1], "modelId": match[1], "sha": COMMIT, "private": repo.private}
        about |= {"gated": repo.gated, "disabled": False, "downloads": repo.downloads, "likes": 1, "tags": tags}
        about |= {"lastModified": "2025-05-01T00:00:00.000Z", "cardData": repo.card, "siblings": siblings}
        return _json({**about, "gguf": {"total": 1, "architecture": "llama"}})

    def _tree(self, repo: Repo, asked: Asked) -> Answer:
        begin = int(asked.query.get("cursor", ["0"])[0])
        entries = [_entry(repo, path, "path", "oid") for path in repo.files]
        page = [{"type": "directory", "oid": "f" * 40, "size": 0, "path": "folder"}, *entries[begin : begin + PAGE]]
        if begin + PAGE >= len(entries):
            return _json(page)
        link = f'<{self.url}{asked.path}?recursive=true&cursor={begin + PAGE}>; rel="next"'
        return _json(page, ("Link", link))

    def _resolve(self, match: re.Match[str], asked: Asked) -> Answer:
        repo = self.repos.get(match[1])
        content = None if repo is None or match[2] != COMMIT else repo.files.get(match[3])
        return ranged(content, asked) if isinstance(content, bytes) else _error(404, "EntryNotFound", "Entry not found")

    def _search(self, asked: Asked) -> Answer:
        words = asked.query.get("search", [""])[0].lower()
        found = [
            {"_id": "x", "id": name, "downloads": repo.downloads, "likes": 5, "gated": repo.gated,
             "lastModified": "2025-05-01T00:00:00.000Z", "tags": ["gguf", f"license:{repo.card.get('license', 'mit')}"]}
            for name, repo in self.repos.items()
            if words in name.lower() and any(path.endswith(".gguf") for path in repo.files)
        ]  # fmt: skip
        found.sort(key=lambda one: -int(str(one["downloads"])))
        return _json(found[: int(asked.query["limit"][0])])


def _entry(repo: Repo, path: str, name_key: str, digest_key: str) -> dict[str, Any]:
    id_key = "oid" if name_key == "path" else "blobId"
    entry: dict[str, Any] = {name_key: path, "size": repo.size(path), "type": "file", id_key: repo.git_id(path)}
    if not repo.in_git and path.endswith((".gguf", ".safetensors")):
        entry["lfs"] = {digest_key: repo.sha256(path), "size": repo.size(path), "pointerSize": 134}
    return entry


def _json(value: object, *headers: tuple[str, str]) -> Answer:
    return Answer(200, json.dumps(value).encode(), (("Content-Type", "application/json"), *headers))


def _error(status: int, code: str, message: str) -> Answer:
    headers = (("X-Error-Code", code), ("X-Error-Message", message)) if code else (("X-Error-Message", message),)
    return Answer(status, json.dumps({"error": message}).encode(), headers)
