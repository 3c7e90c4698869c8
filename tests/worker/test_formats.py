"""How a model writes its answers is found out as it is loaded, in its worker, and told once."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from localllm.runtime.runtime import Runtime
from localllm.settings.config import Settings
from localllm.types import ChatFormat, LoadedModel
from localllm.types.structures import THOUGHTS
from tests.models.maker import write_llama
from tests.worker.test_template_child import HERMES

THINKER = (
    "{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n"
    "{% endif %}{{ m.content }}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


def loaded(home: Path, path: Path) -> LoadedModel:
    async def scenario() -> LoadedModel:
        runtime = Runtime(Settings(home=home, slots=1))
        try:
            return await runtime.load(path)
        finally:
            await runtime.aclose()

    return asyncio.run(scenario())


def test_calls_are_those_of_the_template_that_requests_with_tools_are_rendered_by(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    extra = {"tokenizer.chat_templates": ["tool_use"], "tokenizer.chat_template.tool_use": HERMES}
    path = write_llama(tmp_path / "both.gguf", chat_template=THINKER, extra=extra)
    with caplog.at_level(logging.INFO, "localllm"):
        found = loaded(home, path).format
    assert found.thought == THOUGHTS[0]
    assert found.calls is not None
    assert found.calls.opening.startswith("<tool_call>")
    assert (found.origin, found.shows_tools) == ("known", True)
    told = [record for record in caplog.records if record.message == "chat_format"]
    assert [(record.fields["format"], record.fields["origin"]) for record in told] == [("hermes", "known")]  # type: ignore[attr-defined]


def test_a_model_without_a_template_has_no_format_of_its_own(
    home: Path, tiny_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "localllm"):
        assert loaded(home, tiny_model).format == ChatFormat()
    assert "chat_format" not in caplog.text
