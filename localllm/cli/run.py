"""`localllm run`: a sidecar server, a prompt, an answer on stdout. Knows no HTTP and no llama.cpp.

The order is for speed: the server starts first, and what we need ourselves is imported while it loads the model.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from localllm import config
from localllm.cli import report
from localllm.cli.answer import PrintedAnswer, Talk, describe
from localllm.cli.options import as_arguments
from localllm.cli.progress import LoadProgress
from localllm.client.sidecar import Sidecar
from localllm.errors import InvalidParameter, NoChatTemplate
from localllm.types import SamplingParams


class RunOptions(NamedTuple):
    """What the command line asked for."""

    model: str
    prompt: str | None
    system: str | None
    raw: bool
    params: SamplingParams
    load: Mapping[str, Any]
    """Settings by name; None: not given."""


def run_model(options: RunOptions) -> int:
    """Answer or chat; returns the exit code. Raises `LocalLLMError`s, `KeyboardInterrupt`, `BrokenPipeError`."""
    settings = config.load(options.load)
    interactive = options.prompt is None and sys.stdin.isatty()
    # One person asks one thing at a time; a second slot would only cost memory.
    arguments = [options.model, "--slots=1", *as_arguments(options.load)]
    arguments += [] if settings.verbose else ["--log-level=warning"]
    with Sidecar.spawn(arguments) as sidecar:
        prompt = None if interactive else read_prompt(options.prompt)
        from localllm.client.api import Client

        if interactive:
            from localllm.cli import chat
        progress = LoadProgress()
        try:
            ready = sidecar.wait_ready(progress)
        finally:
            progress.clear()
        with Client(ready.url, ready.token) as client:
            (model,) = client.models()
            talk = Talk(client, model.id, options.params, raw=options.raw or not model.chat_template)
            if talk.raw and options.system is not None:
                raise NoChatTemplate("--system needs a model with a chat template, and cannot go with --raw")
            if prompt is None:
                return chat.chat(talk, options.system, verbose=settings.verbose)
            if talk.raw and not options.raw:
                report.say(f"localllm: {model.id} has no chat template, so it continues the prompt")
            printed = PrintedAnswer()
            printed.print(talk.ask(prompt, options.system))
            if settings.verbose and printed.finish is not None:
                report.say(describe(printed.finish))
    return report.OK


def read_prompt(argument: str | None) -> str:
    """The prompt of the command line, of stdin, or of both with an empty line between. Raises `InvalidParameter`."""
    piped = ""
    if argument == "-" or not sys.stdin.isatty():
        piped = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\r\n")
    prompt = "\n\n".join(part for part in (argument if argument != "-" else None, piped) if part)
    if not prompt:
        raise InvalidParameter("no prompt: give one as an argument, or on stdin", param="prompt")
    return prompt
