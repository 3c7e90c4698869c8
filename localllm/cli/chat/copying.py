"""`/copy`: the last answer goes to the clipboard by a control sequence (OSC 52), which also works over SSH.

Most terminals obey it; none answers, so nobody knows whether it did. Knows no HTTP.
"""

from __future__ import annotations

import base64
import os
import re
import sys

from localllm.cli.chat.conversation import Conversation
from localllm.cli.render.units import counted
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, LocalLLMError

MAX_BYTES = 74_994
"""Of text: what terminals take, 100,000 characters in base64 with the sequence around it."""
DETAILS = """\
The terminal copies it (OSC 52), so it works over SSH, too. If nothing arrives, the terminal forbids
or does not know that: in tmux, `set -g set-clipboard on`; in iTerm2, allow clipboard access."""
_CODE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def copy(chat: Conversation, argument: str) -> None:
    """`/copy [code]`. Raises `InvalidParameter`, `LocalLLMError`."""
    if argument not in ("", "code"):
        raise InvalidParameter("/copy takes no argument, or the word code", param="copy")
    answer = next((turn.content for turn in reversed(chat.turns) if turn.role == "assistant" and turn.content), None)
    if answer is None:
        report.say("there is no answer to copy yet")
        return
    text = answer if argument == "" else last_code(answer)
    if text is None:
        report.say("the last answer has no block of code")
        return
    if len(text.encode()) > MAX_BYTES:
        raise LocalLLMError(f"it has more than {MAX_BYTES:,} bytes, which terminals do not copy; /save it")
    _send(sequence(text, is_in_tmux="TMUX" in os.environ))
    report.say(f"sent to the clipboard: {counted(len(text), 'character')}")


def last_code(answer: str) -> str | None:
    """The content of its last fenced block; None without one."""
    found = _CODE.findall(answer)
    return found[-1][1] if found else None


def sequence(text: str, *, is_in_tmux: bool = False) -> str:
    """The control sequence that copies it; tmux passes on what is wrapped for it."""
    plain = f"\x1b]52;c;{base64.b64encode(text.encode('utf-8', 'replace')).decode()}\x07"
    return plain + (f"\x1bPtmux;\x1b{plain}\x1b\\" if is_in_tmux else "")


def _send(control: str) -> None:
    """To the terminal. Raises `LocalLLMError` if neither output is one."""
    for stream in (sys.stderr, sys.stdout):
        if stream.isatty():
            stream.write(control)
            stream.flush()
            return
    raise LocalLLMError("only a terminal can copy, and neither the output nor the messages go to one")
