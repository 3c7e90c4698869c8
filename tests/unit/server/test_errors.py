"""Errors in the words of who reads them."""

from __future__ import annotations

import pytest

from localllm.errors import InvalidParameter, QueueFull
from localllm.server.errors import is_command_line, is_told_in_part, public_message
from localllm.settings.config import SETTINGS

BY_REQUEST = {name: field for name, field in SETTINGS.items() if field.setting.who in ("clients", "names")}


@pytest.mark.parametrize("name", ["ctx", "gpu_layers", "kv_type", "rope_scale"])
def test_an_option_that_a_request_may_have_is_named_as_its_field(name: str) -> None:
    assert name in BY_REQUEST
    error = InvalidParameter(f"it does not fit; ask for less with {BY_REQUEST[name].option} 5, or `localllm fit`")
    assert public_message(error) == f"it does not fit; ask for less with {name} 5, or `localllm fit`"
    assert not is_told_in_part(error), "the log would say nothing more"
    at_command_line = is_command_line.set(True)
    try:
        assert public_message(error) == error.message
    finally:
        is_command_line.reset(at_command_line)


def test_what_only_the_operator_sets_keeps_its_option() -> None:
    error = QueueFull("no more downloads are taken (--max-pulls, --max-waiting-pulls)")
    assert public_message(error) == error.message
