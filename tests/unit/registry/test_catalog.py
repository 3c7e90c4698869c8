"""The catalog of short names: every entry has the right form, and what people type finds the right one."""

from __future__ import annotations

import re
from typing import get_args

import msgspec
import pytest

from localllm.gguf.tables import BLOCK_TYPES
from localllm.registry import catalog
from localllm.registry.catalog import Catalog, CatalogEntry, Kind
from localllm.registry.offers.recommending import PURPOSES
from localllm.types.upstream import FILE_TYPES
from tests.each import each

KINDS = get_args(Kind)
CARRIED = catalog.load()

BITS_PER_WEIGHT = {"Q8_0": 8.5, "Q4_K_M": 4.85, "Q4_0": 4.5, "MXFP4": 4.25}
"""Of the quantizations that the catalog has; Q4_K_M keeps some tensors in six bits."""
LEAST, MOST = 0.85, 1.4
"""Times the parameters at `BITS_PER_WEIGHT`. More: a small model's embeddings are kept in more bits, or twice."""
LEAST_VISION = 0.6
"""`num_parameters` counts the encoder, `size_bytes` does not: a third of SmolVLM 256M is encoder."""
MOST_FOR_8_GB = 3_000_000_000

every_entry = each("entry", CARRIED.entries, ids=lambda entry: entry.id)
every_name = each("name", CARRIED.names)


def tags_of(name: str) -> list[CatalogEntry]:
    return [entry for entry in CARRIED.entries if entry.name == name]


@every_entry
def test_names_and_tags_can_be_typed(entry: CatalogEntry) -> None:
    for part in (entry.name, entry.tag):
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", part)
    assert entry.name != "demo"  # the carried model's name
    assert not entry.id.endswith(".gguf")  # a file's


@every_entry
def test_a_repository_is_a_user_and_a_name(entry: CatalogEntry) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+", entry.repo)
    assert "gguf" in entry.repo.lower()


@every_entry
def test_a_quantization_is_one_of_ggml(entry: CatalogEntry) -> None:
    """File types, and types of tensors: gpt-oss is of file type MXFP4_MOE, its files are called MXFP4."""
    assert entry.quant in {*FILE_TYPES.values(), *(block.name for block in BLOCK_TYPES.values())}


@every_entry
def test_a_draft_is_an_entry_that_is_much_smaller_and_of_the_same_family(entry: CatalogEntry) -> None:
    if entry.draft is None:
        return
    name, _, tag = entry.draft.partition(":")
    draft = CARRIED.find(name, tag)
    assert draft is not None
    assert draft.id == entry.draft, "its id, whole"
    assert 3.5 * draft.size_bytes < entry.size_bytes
    assert draft.kind == entry.kind
    assert draft.name[:5] == entry.name[:5]


@every_entry
def test_sizes_fit_parameters_and_quantization(entry: CatalogEntry) -> None:
    expected_bytes = entry.num_parameters * BITS_PER_WEIGHT[entry.quant] / 8
    least = LEAST_VISION if entry.kind in ("vision", "audio") else LEAST
    assert least <= entry.size_bytes / expected_bytes <= MOST


@every_entry
def test_every_entry_says_what_it_is(entry: CatalogEntry) -> None:
    assert 256 <= entry.context_length <= 2**20
    assert 20 <= len(entry.description) <= 110
    assert entry.description == entry.description.strip().rstrip(".")
    assert "\n" not in entry.description
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 .+-]+", entry.license)


@every_entry
def test_scores_are_of_known_measures_and_name_their_source(entry: CatalogEntry) -> None:
    measures = [each.measure for each in entry.quality]
    assert len({*measures}) == len(measures)
    assert {*measures} <= {purpose.measure for purpose in PURPOSES.values()}
    for score in entry.quality:
        assert re.fullmatch(r"https://[\w.-]+/[\w./-]+", score.source)


@every_entry
def test_figures_of_computing_are_plausible(entry: CatalogEntry) -> None:
    """Few models have keys and values in more than 64 layers, or of more than 32 heads of 64 numbers in 24."""
    assert (entry.active_parameters or 1) < entry.num_parameters
    assert 2_000 < (entry.kv_bytes_per_token or 4096) <= 4 * 64 * 8 * 128


def test_most_models_that_chat_or_embed_have_a_score() -> None:
    for use, least in {"chat": 0.5, "vision": 0.5, "embed": 0.4}.items():
        purpose = PURPOSES[use]  # type: ignore[index]
        meant = [entry for entry in CARRIED.entries if entry.kind in purpose.kinds]
        assert sum(entry.scored(purpose.measure) is not None for entry in meant) >= least * len(meant), use


@every_name
def test_a_name_has_different_tags_and_one_default(name: str) -> None:
    entries = tags_of(name)
    assert len({entry.tag for entry in entries}) == len(entries)
    assert [entry.default for entry in entries].count(True) == 1


@every_name
def test_the_default_fits_a_machine_with_8_gb_where_a_tag_does(name: str) -> None:
    default = CARRIED.find(name)
    assert default is not None
    smallest = min(entry.size_bytes for entry in tags_of(name))
    assert default.size_bytes <= max(MOST_FOR_8_GB, smallest)


def test_the_file_is_by_kind_and_small_first() -> None:
    assert list(CARRIED.entries) == sorted(CARRIED.entries, key=lambda one: (KINDS.index(one.kind), one.size_bytes))


def test_every_kind_has_models_and_there_are_thirty_at_least() -> None:
    assert {entry.kind for entry in CARRIED.entries} == {*KINDS}
    assert len(CARRIED.entries) >= 30


def test_the_catalog_is_read_once() -> None:
    assert catalog.load() is CARRIED


SMALL = """
[[model]]
name = "ox"
tag = "1b"
kind = "chat"
repo = "Farm/Ox-1B-GGUF"
quant = "Q8_0"
size_bytes = 1_100
num_parameters = 1_000
context_length = 4096
license = "MIT"
description = "A small Animal of the field"

[[model]]
name = "ox"
tag = "7b"
default = true
kind = "chat"
repo = "stable/Ox-7B-GGUF"
quant = "Q4_K_M"
size_bytes = 4_200
num_parameters = 7_000
context_length = 4096
license = "MIT"
description = "A large animal of the field"

[[model]]
name = "owl-embed-text"
tag = "30m"
default = true
kind = "embedding"
repo = "Farm/owl-gguf"
quant = "Q8_0"
size_bytes = 32
num_parameters = 30
context_length = 512
license = "MIT"
description = "Sees in the dark"
"""


@pytest.fixture
def small() -> Catalog:
    return catalog.parse(SMALL)


def ids(entries: list[CatalogEntry]) -> list[str]:
    return [entry.id for entry in entries]


@pytest.mark.parametrize(
    ("name", "tag", "found"),
    [
        ("ox", "1b", "ox:1b"),
        ("ox", None, "ox:7b"),
        ("owl-embed-text", None, "owl-embed-text:30m"),
        ("ox", "30m", None),
        ("ox", "", None),
        ("o", None, None),
        ("Ox", None, None),
    ],
)
def test_find_knows_exact_names_only(small: Catalog, name: str, tag: str | None, found: str | None) -> None:
    entry = small.find(name, tag)
    assert (entry.id if entry else None) == found


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", ["owl-embed-text:30m", "ox:1b", "ox:7b"]),
        ("  \t", ["owl-embed-text:30m", "ox:1b", "ox:7b"]),
        ("OX", ["ox:1b", "ox:7b"]),
        ("ox:7b", ["ox:7b"]),
        ("animal", ["ox:1b", "ox:7b"]),
        ("field large", ["ox:7b"]),
        ("large embedding", []),
        ("embedding", ["owl-embed-text:30m"]),
        ("farm", ["owl-embed-text:30m", "ox:1b"]),
        ("farm/ox", ["ox:1b"]),
    ],
)
def test_search_finds_entries_with_every_word_small_ones_first(small: Catalog, words: str, found: list[str]) -> None:
    assert ids(small.search(words)) == found


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("qwen3-0.6b", "qwen3:0.6b"),
        ("qwen3:06b", "qwen3:0.6b"),
        ("Gemma-3", "gemma3"),
        ("lama3.2", "llama3.2"),
        ("deepseekr1", "deepseek-r1"),
        ("phi-4", "phi4"),
        ("nomic", "nomic-embed-text"),
        ("bge-reranker", "bge-reranker-v2-m3"),
    ],
)
def test_suggest_puts_what_was_meant_first(typed: str, meant: str) -> None:
    assert CARRIED.suggest(typed)[0] == meant


def test_suggestions_are_few_and_none_for_what_is_like_nothing(small: Catalog) -> None:
    assert len(CARRIED.suggest("qwen")) == catalog.MAX_SUGGESTIONS
    assert small.suggest("xyzzy") == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('kind = "embedding"', 'kind = "embeding"', "Invalid enum value 'embeding'.*kind"),
        ('tag = "30m"', 'tga = "30m"', "tga|tag"),
        ("size_bytes = 32", 'size_bytes = "32"', "Expected `int`.*size_bytes"),
        ("[[model]]", "[[models]]", "model"),
        ('tag = "30m"', 'tag = "30m"\nactive_parameters = 0', "Expected `int` >= 1.*active_parameters"),
        (
            'tag = "30m"',
            'tag = "30m"\nquality = [{ measure = "M", score = 101, source = "https://a.example/b" }]',
            "Expected `float` <= 100.*quality",
        ),
    ],
)
def test_a_slip_in_the_file_is_an_error_that_says_where(old: str, new: str, complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        catalog.parse(SMALL.replace(old, new))
