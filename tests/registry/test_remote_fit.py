"""A model's memory need is computed from its header before the rest is downloaded, over real HTTP from a fake."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.cli.commands.fit import show_fit
from localllm.cli.commands.store.pull import pull_models
from localllm.errors import InvalidModelFile, ModelNotFound, PullFailed
from localllm.gguf import read_model_info
from localllm.gguf.projectors import read_projector
from localllm.llm.models import Models
from localllm.planning.memory_fit import measure, needs
from localllm.planning.projector_plan import Projector, need_of, projector_bytes
from localllm.registry import catalog
from localllm.registry.fetch.net import Net
from localllm.registry.pull import Puller
from localllm.registry.remote import RemoteFile
from localllm.registry.resolve import resolve
from localllm.registry.sources import remote_header
from localllm.registry.sources.headers import Offer, resized
from localllm.settings.config import Settings, load
from localllm.system import memory
from localllm.types.load_options import LoadOptions
from tests.foreign_stores import write_unknown
from tests.homes import measured_once
from tests.models import raw
from tests.models.maker import shards_of, write_llama
from tests.models.media import MediaModel, MediaModelKind
from tests.registry.hub_server import COMMIT, HubServer, Repo
from tests.registry.loopback import Answer, no_pause, ranged
from tests.registry.oci_server import OciServer
from tests.worker.conftest import INFO

REPO = "ann/words-GGUF"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model whose header takes several requests, in two tensor types, once split."""
    folder = tmp_path_factory.mktemp("words")
    from gguf import GGMLQuantizationType

    write_llama(folder / "words-Q5_K_M.gguf", vocab=20_000, n_layer=3)
    write_llama(folder / "words-Q4_K_M.gguf", vocab=20_000, n_layer=3, dtype=GGMLQuantizationType.F16)
    write_llama(folder / "words-Q8_0.gguf", vocab=20_000, n_layer=3, max_tensors_per_file=9)
    shards = {path.name: path for path in shards_of(folder / "words-Q8_0.gguf")}
    return {name: folder / name for name in ("words-Q5_K_M.gguf", "words-Q4_K_M.gguf")} | shards


@pytest.fixture
def hub(files: dict[str, Path]) -> Iterator[HubServer]:
    with HubServer({REPO: Repo({name: path.read_bytes() for name, path in files.items()})}) as server:
        yield server


@pytest.fixture
def settings(home: Path, tmp_path: Path, hub: HubServer) -> Iterator[Settings]:
    with measured_once(home, tmp_path):
        yield load({"home": tmp_path, "hub_endpoint": hub.url, "device": "cpu"})


def offered(settings: Settings, name: str) -> list[Offer]:
    with Puller(settings) as puller:
        return puller.offers(name, threading.Event())


def remote(server: HubServer, name: str, size_bytes: int | None) -> RemoteFile:
    url = f"{server.url}/{REPO}/resolve/{COMMIT}/{name}"
    return RemoteFile(file_name=name, url=url, named_by_user=True, size_bytes=size_bytes, digest=None)


def test_every_quantization_is_offered_with_what_its_header_says(
    settings: Settings, files: dict[str, Path], hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_header, "PIECE_BYTES", 100_000)
    offers = offered(settings, f"hf.co/{REPO}")
    assert {one.quant: one.num_files for one in offers} == {"Q5_K_M": 1, "Q4_K_M": 1, "Q8_0": len(files) - 2}
    for one in offers:
        assert one.info is not None
        assert one.info.size_bytes == one.size_bytes == sum(one.info.layer_bytes) + one.info.other_bytes
    by_quant = {one.quant: one for one in offers}
    real, told = read_model_info(files["words-Q4_K_M.gguf"]), by_quant["Q4_K_M"].info
    assert told is not None
    assert (told.layer_memory, told.vocabulary_size, told.num_heads) == (
        real.layer_memory, real.vocabulary_size, real.num_heads,
    )  # fmt: skip
    assert needs(told, LoadOptions()).total == pytest.approx(needs(real, LoadOptions()).total, rel=0.01)
    parts = [asked for asked in hub.asked if "/resolve/" in asked.path]
    assert len({asked.path for asked in parts}) == 1, "one header serves all quantizations"
    assert all("range" in asked.headers for asked in parts)


def test_a_projector_is_counted_by_its_header_before_it_is_downloaded(
    settings: Settings,
    hub: HubServer,
    media_model: Callable[[MediaModelKind], MediaModel],
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = media_model("gemma3")
    contents = {"sees-F16.gguf": made.model.read_bytes(), "mmproj-F16.gguf": made.projector.read_bytes()}
    hub.repos["ann/sees-GGUF"] = Repo(contents)
    name, info = "hf.co/ann/sees-GGUF", read_projector(made.projector)
    (offer,) = offered(settings, name)
    assert offer.projector == info
    assert offer.size_bytes == sum(map(len, contents.values()))
    text_only = msgspec.structs.replace(settings, projector="off")
    found = []
    for each in (settings, text_only):
        assert show_fit(each, name, as_json=True) == 0
        found.append(json.loads(capsys.readouterr().out)[0]["fit"]["need_bytes"])
        with Puller(each, measure=measure(each.load_options())) as puller:
            found.append(puller.plan(name, threading.Event()).need_bytes)
    assert found[0] - found[2] == projector_bytes(Projector(made.projector, info), settings.load_options())
    assert found[1] - found[3] == need_of(info)
    assert all("range" in asked.headers for asked in hub.asked if "/resolve/" in asked.path)


def test_a_table_says_of_each_whether_it_fits(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert show_fit(settings, f"hf.co/{REPO}", as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[1:4]} == {"Q5_K_M", "Q8_0", "Q4_K_M"}
    assert all(" yes " in line for line in lines[1:4])
    assert "tokens/s" in lines[0]
    assert all(line.count(" ± ") == 2 for line in lines[1:4]), "of answers and of prompts, give or take"
    monkeypatch.setattr(memory, "available_memory", lambda: 1 << 20)
    assert show_fit(settings, f"hf.co/{REPO}:Q4_K_M", as_json=True) == 1
    (only,) = json.loads(capsys.readouterr().out)
    assert (only["quant"], only["fit"]["fits"], only["name"]) == ("Q4_K_M", False, f"hf.co/{REPO}:Q4_K_M")
    assert only["speed"]["answer_tokens_per_s"] > 0


def test_a_name_of_the_catalog_stands_for_all_quantizations_of_its_repository(
    settings: Settings, hub: HubServer
) -> None:
    entry = next(iter(catalog.load().entries))
    hub.repos[entry.repo] = hub.repos[REPO]
    assert {one.name for one in offered(settings, entry.id)} == {
        f"hf.co/{entry.repo}:{quant}" for quant in ("Q4_K_M", "Q5_K_M", "Q8_0")
    }


def test_what_a_pull_would_take_is_marked_and_nothing_is_where_it_would_ask_back(
    settings: Settings, files: dict[str, Path], hub: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [one.quant for one in offered(settings, f"hf.co/{REPO}") if one.is_chosen] == ["Q8_0"]
    assert [one.is_chosen for one in offered(settings, f"hf.co/{REPO}:Q4_K_M")] == [True]
    entry = next(entry for entry in catalog.load().entries if entry.quant == "Q4_K_M")
    hub.repos[entry.repo] = hub.repos[REPO]
    assert [one.quant for one in offered(settings, entry.id) if one.is_chosen] == ["Q4_K_M"]
    show_fit(settings, f"hf.co/{REPO}", as_json=False)
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if " * " in line] == ["Q8_0"]
    assert "what localllm pull takes" in out
    content = files["words-Q4_K_M.gguf"].read_bytes()
    hub.repos[REPO] = Repo({"one-Q8_0.gguf": content, "two-Q8_0.gguf": content})
    assert [one.is_chosen for one in offered(settings, f"hf.co/{REPO}")] == [False, False]


def test_nothing_of_a_missing_file_or_repository_is_invented(settings: Settings) -> None:
    with pytest.raises(ModelNotFound, match="does not exist"):
        show_fit(settings, "./nowhere.gguf", as_json=False)
    with pytest.raises(ModelNotFound, match="no repository"):
        show_fit(settings, "hf.co/ann/other-GGUF", as_json=False)


def test_a_file_that_is_no_model_is_offered_with_the_reason(settings: Settings, hub: HubServer) -> None:
    hub.repos[REPO] = Repo({"a-Q4_K_M.gguf": b"<!DOCTYPE html>" * 10})
    (one,) = offered(settings, f"hf.co/{REPO}")
    assert one.info is None
    assert "web page" in (one.why_not or "")
    assert show_fit(settings, f"hf.co/{REPO}", as_json=False) == 1


def test_the_quantization_that_is_pulled_fits_by_the_plan(
    settings: Settings, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For such a small model Q8_0 is chosen if it fits, else Q4_K_M, else the smallest, and the reason is given."""
    measured = measure(settings.load_options())
    small, large = (measured(read_model_info(files[f"words-{quant}.gguf"])) for quant in ("Q4_K_M", "Q5_K_M"))
    chosen = []
    with Puller(settings, measure=measured) as puller:
        for total in (8 << 30, int((small + large) / 2 / 0.9), small // 2):
            monkeypatch.setattr(memory, "total_memory", lambda total=total: total)
            plan = puller.plan(f"hf.co/{REPO}", threading.Event())
            chosen.append((plan.quant, "will probably not fit" in " ".join(plan.notices)))
            expected = large if plan.quant == "Q8_0" else small
            assert plan.need_bytes == pytest.approx(expected, rel=0.01)
    assert chosen == [("Q8_0", False), ("Q4_K_M", False), ("Q4_K_M", True)]


def test_a_program_pulls_the_quantization_that_the_command_would(
    settings: Settings, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the header Q8_0 just fits; by the estimate from file size none does, and the smallest is chosen."""
    large = measure(settings.load_options())(read_model_info(files["words-Q5_K_M.gguf"]))
    monkeypatch.setattr(memory, "total_memory", lambda: int(large / 0.9 * 1.1))
    with Puller(settings) as guessing:
        assert guessing.plan(f"hf.co/{REPO}", threading.Event()).quant == "Q4_K_M"
    assert Models(settings=settings).pull(f"hf.co/{REPO}").quant == "Q8_0"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(206, b"x" * 9, (("Content-Range", "bytes 5-13/100"),)), "does not serve ranges"),
        (Answer(206, b"x" * 9), "does not serve ranges"),
        (Answer(416, b"", (("Content-Range", "bytes */3"),)), "does not serve ranges"),
        (Answer(401), "answered 401 for"),
        (Answer(403), "answered 403 for"),
        (Answer(404), r"has no words-Q4_K_M.gguf \(it answered 404\)"),
        (Answer(500), "answered 500"),
        (Answer(418), "answered 418 for"),
        (Answer(200, b"x" * (5 << 20)), "more than"),
    ],
)
def test_a_server_that_gives_no_ranges_or_others_is_an_error(hub: HubServer, answer: Answer, reason: str) -> None:
    file = remote(hub, "words-Q4_K_M.gguf", 10 << 20)
    hub.scripted[f"/{REPO}/resolve/{COMMIT}/words-Q4_K_M.gguf"] = answer
    with Net(pause=no_pause) as net, pytest.raises(PullFailed, match=reason):
        remote_header.remote_header(file, net)


def test_a_header_without_end_is_not_read_for_ever(
    hub: HubServer, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_header, "PIECE_BYTES", 50_000)
    monkeypatch.setattr(remote_header, "MAX_HEADER_BYTES", 100_000)
    name = "words-Q4_K_M.gguf"
    with Net(pause=no_pause) as net, pytest.raises(PullFailed, match="more than 100,000 bytes"):
        remote_header.remote_header(remote(hub, name, files[name].stat().st_size), net)


@given(sizes=st.lists(st.integers(0, 2**36), min_size=1, max_size=40), size_bytes=st.integers(1, 2**42))
def test_resizing_keeps_the_sum(sizes: list[int], size_bytes: int) -> None:
    info = msgspec.structs.replace(
        INFO, size_bytes=sum(sizes), num_layers=len(sizes), layer_bytes=tuple(sizes), other_bytes=0
    )
    for is_whole in (True, False):
        other = resized(info, size_bytes, is_whole=is_whole)
        assert sum(other.layer_bytes) + other.other_bytes == other.size_bytes == size_bytes
        assert other.other_bytes >= 0


def _odd(*keys: bytes, architecture: str = "llama") -> bytes:
    """A file of 3 MB whose header says what it is."""
    return raw.gguf([raw.key("general.architecture", raw.STRING, architecture), *keys], []) + bytes(3 << 20)


@pytest.mark.parametrize("source", ["hub", "registry", "url"])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (_odd(raw.key("general.type", raw.STRING, "adapter")), "is a LoRA adapter"),
        (_odd(architecture="clip"), "is a projector"),
        (_odd(raw.key("general.type", raw.STRING, "imatrix")), "is an importance matrix"),
        (_odd(), "a vocabulary but no weights"),
        (b"GGUF\0\0\0\3" + bytes(3 << 20), "is a big-endian GGUF file"),
        ("unknown", "no llama.cpp that this localllm can use knows the architecture 'narwhal'"),
    ],
    ids=["adapter", "projector", "matrix", "vocabulary", "big-endian", "unknown"],
)
def test_what_the_header_shows_to_be_unusable_is_not_downloaded(
    settings: Settings, hub: HubServer, tmp_path: Path, source: str, content: bytes | str, says: str
) -> None:
    if isinstance(content, str):
        content = write_unknown(tmp_path / "new.gguf").read_bytes() + bytes(3 << 20)
    with OciServer() as registry:
        hub.repos["ann/odd-GGUF"] = Repo({"odd-Q8_0.gguf": content})
        hub.scripted["/files/odd.gguf"] = lambda asked: ranged(content, asked)
        registry.add("library/odd", [("model", content)])
        name = {
            "hub": "hf.co/ann/odd-GGUF",
            "registry": f"ollama:{registry.host}/library/odd",
            "url": f"{hub.url}/files/odd.gguf",
        }[source]
        with Puller(settings, measure=measure(LoadOptions())) as puller:
            with pytest.raises(InvalidModelFile, match=says):
                puller.pull(name, cancel=threading.Event())
            (offer,) = puller.offers(name, threading.Event())
        assert offer.why_not is not None
        assert says in offer.why_not
        ranges = [asked.headers["range"] for asked in (*hub.asked, *registry.asked) if "range" in asked.headers]
        spans = [list(map(int, each.removeprefix("bytes=").split("-"))) for each in ranges]
        assert sum(end - start + 1 for start, end in spans) <= 2 * (remote_header.FIRST_BYTES + 1), "twice the header"
        assert pull_models(settings, [name], force=False, dry_run=True, quiet=True, as_json=False) != 0
        if "architecture" in says:
            assert pull_models(settings, [name], force=True, dry_run=False, quiet=True, as_json=False) == 0
            resolve(name, settings.data_dir).release()


def test_a_model_that_is_there_is_asked_for_no_byte_of_its_file(settings: Settings, hub: HubServer) -> None:
    for name in (f"hf.co/{REPO}", f"hf.co/{REPO}:Q4_K_M"):
        Models(settings=settings).pull(name)
        hub.asked.clear()
        Models(settings=settings).pull(name)
        assert hub.asked
        assert not [asked for asked in hub.asked if "/resolve/" in asked.path]
