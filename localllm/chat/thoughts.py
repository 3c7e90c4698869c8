"""Decides whether an answer begins with reasoning or with text, and sets the template variables that switch thinking.

Pure text: knows nothing of tokens or grammars.
"""

from __future__ import annotations

import json

from msgspec.structs import replace

from localllm.types import Beginning, ChatFormat, Message, Rendering, ThinkingDefault

SWITCHES = ("enable_thinking", "thinking")
"""Names of the switch: in templates of Qwen, GLM and most others; of DeepSeek, Granite and Kimi."""


def beginning_of(format: ChatFormat, ending: str, continued: Message | None = None) -> Beginning:
    """Where an answer to a rendered prompt begins, judging by how the prompt ends.

    If the prompt ends with closed reasoning, as templates write it to disable thinking, the answer begins with text.
    `continued`: the message that the answer continues.
    """
    if format.thought is None:
        return "text"
    opening, closing = format.thought.opening.strip(), format.thought.closing.strip()
    if continued is not None and continued.content:
        is_inside = bool(opening) and continued.content.rfind(opening) > continued.content.rfind(closing)
        return "thought" if is_inside else "text"
    if continued is not None and continued.thought:
        return "thought"
    end = ending.rstrip()
    if opening and end.endswith(opening):
        return "thought"
    had = [closing, "" if format.text is None else format.text.opening.strip()]
    if any(each and end.endswith(each) for each in had):
        return "text"
    return "text" if format.begins_thought else "either"


def switched(rendering: Rendering, format: ChatFormat, default: ThinkingDefault = "auto") -> Rendering:
    """Set the template variables that switch thinking, if the request or the server's default says whether to think."""
    if default == "auto" and not any(format.switch):
        return rendering
    given = json.loads(rendering.variables or "{}")
    if default != "auto" and not any(name in given for name in SWITCHES):
        given = {**dict.fromkeys(SWITCHES, default == "on"), **given}
        rendering = replace(rendering, variables=json.dumps(given))
    wanted = given.get("enable_thinking", given.get("thinking"))
    if not isinstance(wanted, bool) or not any(format.switch):
        return rendering
    return replace(rendering, variables=json.dumps({**json.loads(format.switch[0 if wanted else 1]), **given}))
