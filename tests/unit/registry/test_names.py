"""Names of models: what people type is understood, prints as it parses, and never leads out of a folder."""

from __future__ import annotations

import shlex
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import InvalidParameter
from localllm.registry.names.model_names import (
    CatalogName,
    Demo,
    HubFile,
    HubRepo,
    ModelName,
    PathName,
    RegistryName,
    UrlName,
    VersionName,
    parse,
)
from localllm.registry.sources import web
from localllm.system.shell_words import shell_word

OLLAMA = "registry.ollama.ai"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("demo", Demo()),
        ("qwen3", CatalogName("qwen3")),
        ("qwen3:0.6b", CatalogName("qwen3", "0.6b")),
        ("nomic-embed-text", CatalogName("nomic-embed-text")),
        ("mine@v2", VersionName(CatalogName("mine"), "v2")),
        ("qwen3:0.6b@3f2a9c1d", VersionName(CatalogName("qwen3", "0.6b"), "3f2a9c1d")),
        ("mine:latest@v2", VersionName(CatalogName("mine"), "v2")),
        ("mine@latest", CatalogName("mine")),
        ("hf.co/Qwen/Qwen3-0.6B-GGUF", HubRepo("Qwen/Qwen3-0.6B-GGUF")),
        ("hf.co/Qwen/Qwen3-0.6B-GGUF:Q8_0", HubRepo("Qwen/Qwen3-0.6B-GGUF", "Q8_0")),
        ("HF.co/Qwen/Qwen3-0.6B-GGUF:Q8_0@main", HubRepo("Qwen/Qwen3-0.6B-GGUF", "Q8_0", "main")),
        ("huggingface.co/Qwen/Qwen3-0.6B-GGUF", HubRepo("Qwen/Qwen3-0.6B-GGUF")),
        ("https://huggingface.co/Qwen/Qwen3-0.6B-GGUF", HubRepo("Qwen/Qwen3-0.6B-GGUF")),
        ("https://huggingface.co/a/b/tree/main", HubRepo("a/b")),
        ("https://hf.co/a/b/tree/refs/pr/1", HubRepo("a/b", None, "refs/pr/1")),
        ("https://huggingface.co/a/b/tree/main?show_file_info=q8%2Fc.gguf", HubFile("a/b", "q8/c.gguf")),
        ("https://huggingface.co/a/b?show_file_info=c.gguf", HubFile("a/b", "c.gguf")),
        ("https://huggingface.co/a/b?library=llama-cpp-python#how", HubRepo("a/b")),
        ("hf://a/b/c.gguf", HubFile("a/b", "c.gguf")),
        ("hf:a/b", HubRepo("a/b")),
        ("hf:a/b/c.gguf", HubFile("a/b", "c.gguf")),
        ("hf:a/b/Q8/c-00001-of-00002.gguf@refs/pr/1", HubFile("a/b", "Q8/c-00001-of-00002.gguf", "refs/pr/1")),
        ("hf:a/b/Mein Modell (Größe #1), v2@q8 100%.gguf", HubFile("a/b", "Mein Modell (Größe #1), v2@q8 100%.gguf")),
        ("hf:a/b/模型/c..d.GGUF@main", HubFile("a/b", "模型/c..d.GGUF", "main")),
        ("hf:a/b@x/c.gguf", HubRepo("a/b", None, "x/c.gguf")),
        ("ollama:llama3.2", RegistryName(OLLAMA, "library", "llama3.2")),
        ("ollama:library/llama3.2:1b", RegistryName(OLLAMA, "library", "llama3.2", "1b")),
        ("ollama:me/mine:q4", RegistryName(OLLAMA, "me", "mine", "q4")),
        ("ollama:Localhost:5000/me/mine", RegistryName("localhost:5000", "me", "mine")),
        ("https://example.org/a%20b/m.gguf?download=true", UrlName("https://example.org/a%20b/m.gguf?download=true")),
        ("./demo", PathName("./demo")),
        ("model.gguf", PathName("model.gguf")),
        ("MODEL.GGUF", PathName("MODEL.GGUF")),
        ("dir/model.gguf", PathName("dir/model.gguf")),
        ("~/models", PathName("~/models")),
        ("/m/x", PathName("/m/x")),
        ("C:\\m\\x", PathName("C:\\m\\x")),
        ("D:/x", PathName("D:/x")),
        ("a\\b", PathName("a\\b")),
    ],
)
def test_what_people_type_is_understood_and_prints_as_something_that_means_the_same(text: str, name: ModelName) -> None:
    assert parse(text) == name
    assert parse(str(name)) == name


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "1 to 1024"),
        ("x" * 1025, "1 to 1024"),
        ("a\nb", "control"),
        ("Qwen3", "lower case"),
        ("qwen3:", "short name is lower case"),
        ("qwen3:0.6B", "lower case"),
        ("qwen 3", "short name is lower case"),
        ("qwén", "short name is lower case"),
        ("user/repo", r"\./user/repo.*hf\.co/user/repo"),
        ("hf.co/user", "USER/REPO"),
        ("hf.co/a/b/c", "USER/REPO"),
        ("hf.co/../b", "is not a valid part"),
        ("hf.co/a/..", "is not a valid part"),
        ("hf.co/a/b..c", "is not a valid part"),
        ("hf.co/a/.b", "is not a valid part"),
        ("hf.co/a/b.", "is not a valid part"),
        ("hf.co/a/b:", "quantization"),
        ("hf.co/a/b@", "revision"),
        ("hf.co/a/b@../x", "revision"),
        ("hf.co/a/aux", "device name on Windows"),
        ("hf:a/b/nul.gguf", "device name on Windows"),
        ("hf:a/b/COM1.x.gguf", "device name on Windows"),
        ("hf:a/b/../c.gguf", "folder or file"),
        ("hf:a/b//c.gguf", "folder or file"),
        ("hf:a/b/c.txt", "ends with .gguf"),
        ("hf:a/b/c\uff0fd.gguf", "folder or file"),
        ("hf:a/b/~c.gguf", "folder or file"),
        ("hf:a/b/c: d.gguf", "folder or file"),
        ("hf:a/b/ c.gguf", "folder or file"),
        ("hf:a/b/c\u202ed.gguf", "folder or file"),
        (f"hf:a/b/{'é' * 126}.gguf", "folder or file"),
        ("hf:a/b/c.gguf@", "revision"),
        ("ollama:", "is not a valid model"),
        ("ollama:a/b/c/d", "HOST/NAMESPACE"),
        ("ollama:../b/c", "is not a valid host"),
        ("ollama:a..b/n/m", "is not a valid host"),
        ("ollama:../m", "namespace"),
        ("ollama:m:", "tag"),
        ("ollama:m:a:b", "tag"),
        ("https://example.org/x.zip", r"end with \.gguf"),
        ("https:///x.gguf", "needs a host"),
        ("https://user:secret@example.org/x.gguf", "not have a user"),
        ("https://[::1/x.gguf", "is not a model name"),
        ("https://example.org:99999/x.gguf", "is not a model name"),
    ],
)
def test_what_is_no_name_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(InvalidParameter, match=says) as caught:
        parse(text)
    assert caught.value.param == "model"
    assert len(str(caught.value)) < 400


ANY = st.text(st.sampled_from("abzAZ019._-:/@\\~ %\u00e9\uff0f\x00\n") | st.characters(), max_size=40)


@given(st.sampled_from(["", "hf.co/", "hf:", "ollama:", "https://", "https://huggingface.co/", "a/b", "hf:a/b/"]), ANY)
def test_every_text_is_a_name_that_prints_as_it_parses_or_is_refused(prefix: str, text: str) -> None:
    try:
        name = parse(prefix + text)
    except InvalidParameter:
        return
    assert parse(str(name)) == name
    for part in _parts(name):
        assert part not in (".", "..")
        assert not set(part) & set('/\\:*?"<>|\0')
        assert not part.startswith((".", "~"))
        assert not part.endswith((".", " "))


FILES = st.text(st.sampled_from("aZ0 #&'\"$`!%@+,;()[]{}=~.é\u0301模") | st.characters(), min_size=1, max_size=12)


@given(FILES, st.sampled_from([None, "main", "refs/pr/1"]))
def test_a_name_that_is_printed_can_be_typed_back_in_a_shell_and_in_an_address(file: str, revision: str | None) -> None:
    """Whatever file of a repository has a name."""
    name = HubFile("a/b", f"{file}.gguf", revision)
    try:
        same = parse(str(name))
    except InvalidParameter:
        return
    assert same == name
    assert shlex.split(shell_word(name)) == [str(name)]
    page = f"https://huggingface.co/a/b/resolve/{revision or 'main'}/{quote(name.path)}"
    url = parse(page)
    assert isinstance(url, UrlName)
    if revision != "refs/pr/1":  # in an address nobody can tell where such a revision ends
        assert web.hub_file(url) == HubFile("a/b", name.path, None if revision == "main" else revision)


def _parts(name: ModelName) -> list[str]:
    """What may become the name of a file or folder."""
    if isinstance(name, HubRepo):
        return [*name.repo.split("/"), *filter(None, [name.quant]), *(name.revision or "main").split("/")]
    if isinstance(name, HubFile):
        return [*name.repo.split("/"), *name.path.split("/"), *(name.revision or "main").split("/")]
    if isinstance(name, RegistryName):
        return [name.namespace, name.model, name.tag]
    if isinstance(name, CatalogName):
        return [name.name, name.tag or "latest"]
    return []
