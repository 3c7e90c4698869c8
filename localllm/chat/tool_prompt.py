"""Describes tools and the format of calls in a system message, for templates that do not show tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from localllm.chat.formats.known import HERMES
from localllm.chat.formats.writer import written_calls
from localllm.types import ToolCall
from localllm.types.formats import Calls

_TOOLS = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

"""
_HERMES = """For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""
_BY_EXAMPLE = "A function call looks like this, with the function's name and arguments of its own:\n"
_EXAMPLE = ToolCall("example_function", json.dumps({"example_parameter": "value", "another_parameter": 2}))


def described(tools: Sequence[Any], calls: Calls) -> str:
    """The description, in the words that Hermes and Qwen were trained on if the calls have their format."""
    listed = "\n".join(json.dumps(each, ensure_ascii=False) for each in tools)
    called = _HERMES if calls == HERMES else _BY_EXAMPLE + written_calls(calls, (_EXAMPLE,)).strip()
    return _TOOLS.replace("{tools}", listed) + called
