"""Settings are declared once: what is made from their declarations agrees with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from typer import Option, Typer

import localllm
from localllm.cli.options.settings import declarations, takes, with_options
from localllm.errors import InvalidParameter
from localllm.settings.config import SETTINGS, Settings, load
from localllm.settings.load_settings import LOADING, LoadSettings
from localllm.settings.reference import reference
from localllm.settings.sections import DECLARED
from localllm.types.declared import declared
from localllm.types.load_options import LoadOptions

PORTS = ("port", "ollama_port")
NUMBERS = [field for field in {**SETTINGS, **DECLARED}.values() if field.kind in ("integer", "number")]


def test_the_reference_is_what_the_declarations_say() -> None:
    page = Path(localllm.__file__).parent / "docs" / "settings.md"
    assert page.read_text("utf-8") == reference(), "python -m localllm.settings.reference > localllm/docs/settings.md"


def test_every_setting_has_a_declaration_and_every_number_a_range() -> None:
    assert [field.name for field in msgspec.structs.fields(Settings)] == list(SETTINGS)
    for field in (*SETTINGS.values(), *DECLARED.values()):
        assert field.setting.text, field.name
        assert (field.setting.low is None) == (field.setting.high is None), field.name
    assert [field.name for field in NUMBERS if field.setting.low is None] == []


@pytest.mark.parametrize("name", [field.name for field in NUMBERS if field.name in SETTINGS])
def test_a_number_out_of_its_range_is_refused_with_its_name_its_source_and_the_range(name: str, tmp_path: Path) -> None:
    setting = SETTINGS[name].setting
    assert setting.low is not None
    assert setting.high is not None
    for value in (setting.low - 1, setting.high + 1):
        environ = {"LOCALLLM_HOME": str(tmp_path), f"LOCALLLM_{name.upper()}": str(value)}
        with pytest.raises(InvalidParameter, match=f"{name} must be from {setting.low} to {setting.high}") as caught:
            load(environ=environ).load_options()
        assert caught.value.param == name
        if name not in LOADING:
            assert f"LOCALLLM_{name.upper()}" in caught.value.message


@pytest.mark.parametrize("name", PORTS)
def test_a_port_has_16_bits(name: str) -> None:
    for port in (0, 65535):
        assert getattr(msgspec.structs.replace(Settings(), **{name: port}), name) == port
    for port in (-1, 65536, 80000):
        with pytest.raises(InvalidParameter, match=f"{name} must be from 0 to 65535, got {port}"):
            msgspec.structs.replace(Settings(), **{name: port})


def test_a_worker_gets_what_the_user_set(tmp_path: Path) -> None:
    environ = {"LOCALLLM_HOME": str(tmp_path), "LOCALLLM_STREAM_INTERVAL_MS": "7", "LOCALLLM_TENSOR_SPLIT": "3,1"}
    options = load({"device": "cuda0,cuda1", "slots": 2}, environ=environ).load_options()
    assert options == LoadOptions(stream_interval_ms=7, tensor_split=(3.0, 1.0), devices=("cuda0", "cuda1"), slots=2)
    shared = set(declared(LoadSettings)) & {field.name for field in msgspec.structs.fields(LoadOptions)}
    assert set(LOADING) - shared == {"device", "runtime", "rpc"}


def test_what_takes_several_values_takes_them_in_one_option_or_in_several() -> None:
    """As llama-server's `--lora A --lora B`; the last alone would be used without a word."""
    seen: dict[str, Any] = {}

    @takes("lora device ctx")
    def command(rpc: Annotated[str, Option("--rpc")] = "", **given: Any) -> None:
        seen.update(given, rpc=rpc)

    app = Typer()
    app.command()(with_options(command))
    for arguments, lora, device, own in (
        (["--lora", "a", "--lora", "b,c", "--device", "cpu"], "a,b,c", "cpu", ""),
        (["--rpc", "host:1"], None, None, "host:1"),  # an option of the command's own, by the name of such a setting
    ):
        app(arguments, standalone_mode=False)
        assert (seen["lora"], seen["device"], seen["rpc"]) == (lora, device, own)
    for field in declarations().values():
        text = f"{field.setting.text} {field.setting.more}".lower()
        assert field.setting.several or "comma-separated" not in text, field.name
