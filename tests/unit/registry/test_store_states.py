"""The store against a model of it in memory: after any history, what is needed is there and nothing else stays."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from localllm.errors import ModelNotFound
from localllm.registry.disk.layout import fold
from localllm.registry.disk.locks import Hold
from localllm.registry.disk.store import OpenModel, Store
from localllm.registry.manifest import Manifest, StoredFile
from localllm.registry.names.model_names import parse
from tests.stores import contents_of, digest_of, fetch, manifest_of, shard_names

NAMES = st.sampled_from(["qwen3", "qwen3:0.6b", "hf.co/A/B:Q4", "hf.co/a/b:q4", "https://x.org/A.gguf"])
CONTENTS = st.sampled_from([b"one", b"two", b"three", b"four"])
MODELS = st.lists(CONTENTS, min_size=1, max_size=3, unique=True)
A_WEEK_S = 7 * 24 * 3600.0


@dataclass
class Expected:
    """What should be in the store."""

    models: dict[str, tuple[str, tuple[bytes, ...]]] = field(default_factory=dict)
    """Folded name -> name and contents."""
    blobs: set[bytes] = field(default_factory=set)
    fresh: set[bytes] = field(default_factory=set)
    """Fetched, and put into no manifest since."""
    partials: dict[str, bytes] = field(default_factory=dict)
    open: list[tuple[OpenModel, tuple[bytes, ...]]] = field(default_factory=list)
    holds: list[tuple[Hold, set[bytes]]] = field(default_factory=list)

    @property
    def needed(self) -> set[bytes]:
        named = [set(contents) for _, contents in self.models.values()]
        opened = [set(contents) for _, contents in self.open]
        return set().union(*named, *opened, *(contents for _, contents in self.holds))


def files_of(contents: tuple[bytes, ...]) -> list[StoredFile]:
    names = shard_names(len(contents)) if len(contents) > 1 else ["model.gguf"]
    return [
        StoredFile(file_name=name, size_bytes=len(content), digest=digest_of(content))
        for name, content in zip(names, contents, strict=True)
    ]


class StoreMachine(RuleBasedStateMachine):
    """Every rule does a thing to the store and to `Expected`."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store(self.folder / "models")
        self.expected = Expected()
        self.no_flushing = mock.patch.object(os, "fsync")  # nobody pulls the plug here
        self.no_flushing.start()

    def teardown(self) -> None:
        self.no_flushing.stop()
        for opened, _ in self.expected.open:
            opened.close()
        for hold, _ in self.expected.holds:
            hold.close()
        shutil.rmtree(self.folder)

    @rule(content=CONTENTS, held=st.booleans())
    def fetch(self, content: bytes, held: bool) -> None:
        hold = self.store.hold("pull of something") if held else None
        if hold is not None:
            self.expected.holds.append((hold, {content}))
        is_new = content not in self.expected.blobs
        fetch(self.store, content, hold=hold)
        self.expected.blobs.add(content)
        if is_new:
            self.expected.fresh.add(content)

    @rule(key=st.sampled_from(["https://x.org/a", "https://x.org/b"]), more=st.binary(min_size=1, max_size=3))
    def write_partial(self, key: str, more: bytes) -> None:
        with self.store.claim(key) as partial, open(partial, "ab") as file:
            file.write(more)
        self.expected.partials[key] = self.expected.partials.get(key, b"") + more

    @rule(name=NAMES, contents=MODELS.map(tuple))
    def put(self, name: str, contents: tuple[bytes, ...]) -> None:
        manifest = manifest_of(name, *files_of(contents))
        if not self.expected.blobs >= set(contents):
            with pytest.raises(ModelNotFound):
                self.store.put(manifest)
            return
        self.store.put(manifest)
        self.expected.models[fold(parse(name))] = (name, contents)
        self.expected.fresh -= set(contents)

    @rule(source=NAMES, destination=NAMES)
    def copy(self, source: str, destination: str) -> None:
        known = self.expected.models.get(fold(parse(source)))
        if known is None:
            with pytest.raises(ModelNotFound):
                self.store.copy(parse(source), parse(destination))
            return
        self.store.copy(parse(source), parse(destination))
        self.expected.models[fold(parse(destination))] = (destination, known[1])

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        if self.expected.models.pop(fold(parse(name)), None) is None:
            with pytest.raises(ModelNotFound):
                self.store.remove(parse(name))
        else:
            self.store.remove(parse(name))

    @rule(name=NAMES)
    def open(self, name: str) -> None:
        manifest = self.store.find(parse(name))
        if manifest is not None:
            contents = self.expected.models[fold(parse(name))][1]
            self.expected.open.append((self.store.open_model(manifest), contents))

    @precondition(lambda self: self.expected.open)
    @rule()
    def close(self) -> None:
        self.expected.open.pop(0)[0].close()

    @precondition(lambda self: self.expected.holds)
    @rule()
    def end_pull(self) -> None:
        self.expected.holds.pop(0)[0].close()

    @rule(dry_run=st.booleans(), keep_partials_s=st.sampled_from([0.0, A_WEEK_S]))
    def gc(self, dry_run: bool, keep_partials_s: float) -> None:
        expected = self.expected
        stays = expected.needed | (expected.fresh if keep_partials_s else set())
        goes = expected.blobs - stays
        report = self.store.gc(dry_run=dry_run, keep_partials_s=keep_partials_s)
        removed = {item.id for item in report.removed if item.kind == "blob"}
        assert removed == {str(digest_of(content)) for content in goes}
        assert {item.id for item in report.kept if item.kind == "blob"} == {
            str(digest_of(content))
            for content in (expected.blobs - goes) - set().union(*(set(c) for _, c in expected.models.values()))
        }
        assert len([1 for item in report.removed if item.kind == "partial"]) == (
            0 if keep_partials_s else len(expected.partials)
        )
        assert report.freed_bytes >= sum(map(len, goes))
        if not dry_run:
            expected.blobs -= goes
            expected.fresh -= goes
            if not keep_partials_s:
                expected.partials.clear()

    @invariant()
    def listed_is_what_was_put(self) -> None:
        models, damaged = self.store.scan()
        assert damaged == ()
        assert {(one.name, self.digests(one)) for one in models} == {
            (name, tuple(map(digest_of, contents))) for name, contents in self.expected.models.values()
        }

    @staticmethod
    def digests(manifest: Manifest) -> tuple[object, ...]:
        return tuple(file.digest for file in manifest.files)

    @invariant()
    def blobs_are_there_and_right(self) -> None:
        for content in self.expected.blobs:
            assert self.store.blob_path(digest_of(content)).read_bytes() == content
        folder = self.store.root / "blobs"
        assert len(list(folder.iterdir()) if folder.exists() else []) == len(self.expected.blobs)

    @invariant()
    def opened_models_can_be_read(self) -> None:
        for opened, contents in self.expected.open:
            assert contents_of(opened.path, len(contents)) == list(contents)

    @invariant()
    def partials_go_on(self) -> None:
        for key, content in self.expected.partials.items():
            assert self.store.partial(key).read_bytes() == content


StoreMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
test_any_history_of_a_store_keeps_what_is_needed_and_nothing_else = StoreMachine.TestCase
