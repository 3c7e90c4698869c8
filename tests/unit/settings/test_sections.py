"""What `config.toml` sets for single models: who wins, what is refused, and when it is read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localllm.errors import InvalidParameter
from localllm.runtime.changed_settings import typed_value
from localllm.settings import config
from localllm.settings.config import Settings
from localllm.types import ModelDefaults, SamplingParams

SECTIONS = """
ctx = 512
threads = 3

[models."qwen3:0.6b"]
ctx = 2048
keep_alive = "1h30m"
aliases = ["fast", "gpt-4o"]
temperature = 0.2

[models."qwen3:*"]
ctx = 1024
slots = 2
temperature = 0.9
top_k = 7

[models."*"]
slots = 1
system = "Be brief."
"""


def loaded(folder: Path, text: str = SECTIONS, **line: Any) -> Settings:
    (folder / "config.toml").write_text(text, encoding="utf-8")
    return config.load({"home": folder, **line}, environ={"LOCALLLM_CTX": "640"})


def test_the_command_line_beats_a_models_section_which_beats_the_environment_and_the_file(tmp_path: Path) -> None:
    settings = loaded(tmp_path)
    options = settings.for_model("qwen3:0.6b").load_options()
    assert (options.ctx, options.slots, options.threads) == (2048, 2, 3)
    assert settings.for_model("llama").ctx == 640
    assert loaded(tmp_path, ctx=99).for_model("qwen3:0.6b").ctx == 99


def test_each_key_is_the_closest_sections_its_own_id_before_the_longest_pattern(tmp_path: Path) -> None:
    settings = loaded(tmp_path)
    assert settings.for_model("qwen3:8b").ctx == 1024
    assert settings.for_model("qwen3:8b").slots == 2
    assert settings.for_model("demo").slots == 1
    assert settings.for_model("qwen3:0.6b").model_keep_alive_s == 5400
    assert settings.sections().of("qwen3:0.6b")["temperature"] == (0.2, "qwen3:0.6b")
    assert settings.sections().of("qwen3:0.6b")["top_k"] == (7, "qwen3:*")


def test_what_a_section_says_of_sampling_stands_above_the_models_own(tmp_path: Path) -> None:
    below = ModelDefaults(params=SamplingParams(temperature=0.5, top_p=0.4), system="Rhyme.")
    defaults = loaded(tmp_path).sections().defaults("qwen3:0.6b", below)
    assert defaults.params == SamplingParams(temperature=0.2, top_k=7, top_p=0.4)
    assert defaults.system == "Be brief."


def test_an_alias_stands_for_its_model(tmp_path: Path) -> None:
    models = loaded(tmp_path).sections()
    assert [models.model_named(name) for name in ("fast", "gpt-4o", "other")] == ["qwen3:0.6b", "qwen3:0.6b", "other"]


@pytest.mark.parametrize(
    ("line", "param", "words"),
    [
        ("ctx = 1", "ctx", "ctx must be"),
        ('ctx = "many"', "ctx", "'many' is not a valid ctx"),
        ("cxt = 1024", "cxt", "did you mean ctx"),
        ("port = 1", "port", "unknown key 'port'"),
        ("top_p = 1.5", "top_p", "top_p must be"),
        ('kv_type = "f17"', "kv_type", "it is one of f16, q8_0, q4_0"),
        ('keep_alive = "soon"', "keep_alive", "5m or 1h30m"),
        ('aliases = "one"', "aliases", "aliases"),
        ('aliases = ["a*"]', "aliases", "not a valid alias"),
        ("system = 1", "system", "system"),
        ("rope_scale = 2", "rope_scale", "needs rope_scaling"),
        ('rope_scaling = "yarn"', "rope_scaling", "needs a rope_scale"),
        ('rope_scaling = "linear"\nrope_scale = 2\nyarn_orig_ctx = 512', "yarn_orig_ctx", "rope_scaling yarn"),
        ('kv_type = "q8_0"\nflash_attn = "off"', "flash_attn", "needs flash attention"),
        ("min_tokens = 5\nmax_tokens = 2", "min_tokens", "min_tokens"),
    ],
)
def test_an_error_names_the_file_the_section_and_the_key(line: str, param: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter) as caught:
        loaded(tmp_path, f'[models."qwen3:0.6b"]\n{line}\n')
    message = caught.value.message
    assert message.startswith(f'{tmp_path / "config.toml"}, [models."qwen3:0.6b"]')
    assert words in message
    assert caught.value.param == param


def test_one_alias_of_two_models_and_one_of_a_pattern_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"'x' is an alias in \[models.\"a\"\] and in \[models.\"b\"\]"):
        loaded(tmp_path, '[models.a]\naliases=["x"]\n[models.b]\naliases=["x"]')
    with pytest.raises(InvalidParameter, match="a pattern has no aliases"):
        loaded(tmp_path, '[models."q*"]\naliases=["x"]')
    with pytest.raises(InvalidParameter, match="models contains sections"):
        loaded(tmp_path, "models = 3")


def test_what_is_set_while_a_server_runs_holds_for_its_next_loads_and_nonsense_changes_nothing(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "[models.demo]\nctx = 512\n")
    assert settings.for_model("demo").ctx == 512
    for text, ctx in (("[models.demo]\nctx = 1024\n", 1024), ("[models.demo]\nctx = nonsense\n", 1024), ("", 640)):
        (tmp_path / "config.toml").write_text(text)
        assert settings.for_model("demo").ctx == ctx
    (tmp_path / "config.toml").unlink()
    assert settings.for_model("demo").ctx == 640


def test_settings_made_in_python_know_no_sections() -> None:
    settings = Settings(ctx=256)
    assert settings.for_model("demo") is settings


@pytest.mark.parametrize("key", ["temperature", "rope_scale", "keep_alive"])
def test_a_typed_value_that_is_not_a_number_is_refused_by_name(key: str) -> None:
    """Or the file would seem to be one that cannot be edited, since NaN does not equal what is read back."""
    with pytest.raises(InvalidParameter, match=f"{key}.*(takes seconds|takes a number)") as refused:
        typed_value(key, "nan", "typed")
    assert refused.value.param == key


def test_a_section_may_name_a_model_under_adapters_and_says_what_else_it_may_not_have(tmp_path: Path) -> None:
    text = '[models."pirate"]\nbase = "demo"\nadapters = ["style:0.8", "other"]\naliases = ["arr"]\n'
    sections = loaded(tmp_path, text).sections()
    assert sections.variants() == {"pirate": ("demo", ("style:0.8", "other"))}
    assert sections.model_named("arr") == "pirate"
    for wrong, param in (
        ('[models."pirate"]\nbase = "demo"\n', "adapters"),
        ('[models."pirate"]\nadapters = ["style"]\n', "base"),
        ('[models."pirate"]\nbase = "pirate"\nadapters = ["style"]\n', "base"),
        ('[models."pirate*"]\nbase = "demo"\nadapters = ["style"]\n', "base"),
        ('[models."pirate"]\nbase = "demo"\nadapters = ["style"]\ntemperature = 0.5\n', "temperature"),
        (f'{text}[models."two"]\nbase = "pirate+x"\nadapters = ["style"]\n', "base"),
        ('[models."pirate"]\nbase = "demo"\nadapters = "style"\n', "adapters"),
    ):
        with pytest.raises(InvalidParameter) as caught:
            loaded(tmp_path, wrong)
        assert caught.value.param == param, wrong
