"""Whatever a metadata key holds, `show`, `fit` and a load tell the truth or refuse the file in words about it: no
traceback, and no blame for an option that nobody set.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path

import pytest

from localllm import LLM
from localllm.cli.commands.fit import show_fit
from localllm.cli.commands.store.show import show_model
from localllm.errors import InvalidModelFile, LoadFailed, LocalLLMError
from localllm.planning import prediction
from localllm.planning.speeds import ProbeAnswer
from localllm.settings import config
from localllm.settings.config import Settings
from localllm.types import SamplingParams
from tests.models import raw
from tests.models.maker import write_llama
from tests.models.rekeyed import Rekeyed
from tests.models.tokenizers import CHATML

GENERAL = (
    "architecture name type alignment file_type quantization_version size_label license tags basename finetune "
    "sampling.temp sampling.top_k sampling.top_p sampling.penalty_repeat"
)
LLAMA = (
    "block_count context_length embedding_length feed_forward_length attention.head_count attention.head_count_kv "
    "attention.key_length attention.value_length attention.layer_norm_rms_epsilon rope.dimension_count rope.freq_base "
    "rope.scaling.type rope.scaling.factor rope.scaling.original_context_length vocab_size expert_count "
    "expert_used_count attention.sliding_window pooling_type attention.causal nextn_predict_layers logit_scale "
    "embedding_scale"
)
TOKENIZER = (
    "ggml.model ggml.pre ggml.tokens ggml.token_type ggml.merges ggml.bos_token_id ggml.eos_token_id "
    "ggml.eot_token_id ggml.unknown_token_id ggml.add_bos_token ggml.add_space_prefix chat_template "
    "chat_template.tool_use"
)
KEYS = [
    f"{space}.{key}"
    for space, keys in (("general", GENERAL), ("llama", LLAMA), ("tokenizer", TOKENIZER))
    for key in keys.split()
]
VALUES: dict[str, Callable[[str], bytes | None]] = {
    "missing": lambda _: None,
    "0": lambda key: raw.key(key, raw.U32, 0),
    "1": lambda key: raw.key(key, raw.U32, 1),
    "-1": lambda key: raw.key(key, raw.I32, -1),
    "2^31": lambda key: raw.key(key, raw.U32, 2**31),
    "2^32-1": lambda key: raw.key(key, raw.U32, 2**32 - 1),
    "2^64-1": lambda key: raw.key(key, raw.U64, 2**64 - 1),
    "nan": lambda key: raw.key(key, raw.F32, float("nan")),
    "inf": lambda key: raw.key(key, raw.F32, float("inf")),
    "0.5": lambda key: raw.key(key, raw.F32, 0.5),
    "true": lambda key: raw.key(key, raw.BOOL, True),
    "empty text": lambda key: raw.key(key, raw.STRING, ""),
    "odd bytes": lambda key: raw.key(key, raw.STRING, b"\xff\xfe\x1b[31m"),
    "empty list": lambda key: raw.array(key, raw.U32, []),
    "list": lambda key: raw.array(key, raw.U32, [2**32 - 1, 0]),
}


FEW = ("0", "2^32-1", "odd bytes")


def files(folder: Path, values: Collection[str], keys: Collection[str]) -> Iterator[tuple[str, str, Path]]:
    """Each key with each value, in a file that is removed before the next one."""
    whole = Rekeyed(write_llama(folder / "whole.gguf", chat_template=CHATML).read_bytes())
    for number, (key, value) in enumerate(itertools.product(keys, values)):
        path = folder / f"{number}.gguf"
        path.write_bytes(whole.having(key, VALUES[value](key)))
        yield key, value, path
        path.unlink()


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    """Settings with which nothing is measured and no child process is started."""
    monkeypatch.setattr(prediction, "ask", lambda _: ProbeAnswer(error="nothing is measured here"))
    return config.load({"gpu_layers": 0, "home": tmp_path / "home"})


@pytest.mark.parametrize("values", [FEW, pytest.param(tuple(VALUES), marks=pytest.mark.exhaustive)])
def test_odd_values_of_51_keys_are_shown_or_refused_by_name(
    values: Collection[str],
    on_cpu: Settings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (len(KEYS), len(VALUES)) == (51, 15)
    monkeypatch.setattr("localllm.cli.shared.formats.format_of", lambda *_: None)  # it starts a process for each
    wrong = []
    for key, value, path in files(tmp_path, values, KEYS):
        for command in (partial(show_model, modelfile=False), show_fit):
            try:
                command(on_cpu, str(path), as_json=False)
            except LocalLLMError as error:
                wrong += [f"{key} {value}: {error.message}"] if not is_about(error, key) else []
            except Exception as error:  # noqa: BLE001  which is what this test looks for
                wrong.append(f"{key} {value}: {error!r}")
        if "\x1b" in capsys.readouterr().out:
            wrong.append(f"{key} {value}: a control character is shown")
    assert wrong == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("of", KEYS)
def test_odd_values_of_a_key_run_or_are_refused_by_name(on_cpu: Settings, tmp_path: Path, of: str) -> None:
    wrong = []
    for key, value, path in files(tmp_path, VALUES, (of,)):
        try:
            with LLM(path, settings=on_cpu) as llm:
                llm.complete("a", params=SamplingParams(max_tokens=1))
        except LocalLLMError as error:
            wrong += [f"{key} {value}: {error.message}"] if not is_about(error, key) else []
        except Exception as error:  # noqa: BLE001
            wrong.append(f"{key} {value}: {error!r}")
    assert wrong == []


def is_about(error: LocalLLMError, key: str) -> bool:
    """Whether it blames the file."""
    if isinstance(error, InvalidModelFile):
        named = rf"{re.escape(key)}|tokenizer|tensor|layers|{re.escape(key.rpartition('.')[2])} "
        return re.search(named, error.message) is not None
    return isinstance(error, LoadFailed) and ("the file" in error.message or ".gguf" in error.message)
