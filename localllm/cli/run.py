"""`localllm run`: a server, a prompt, an answer on stdout. Knows no HTTP and no llama.cpp.

The order is for speed: the server starts first, and what we need ourselves is imported while it loads the model.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from localllm import osdep
from localllm.cli import mcp_tools, report, serving, tools
from localllm.cli.answer import Look, PrintedAnswer, Talk, cut, describe, prepare, stats_line
from localllm.cli.mcp_tools import McpOptions, McpTools
from localllm.cli.model_names import is_here
from localllm.cli.schema import DocumentFormat
from localllm.cli.thinking import Think
from localllm.cli.tools import Tools
from localllm.errors import InvalidParameter, NoChatTemplate
from localllm.settings import config
from localllm.types import Message, SamplingParams

if TYPE_CHECKING:
    from localllm.client.api import Client
    from localllm.settings.config import Settings


class RunOptions(NamedTuple):
    """What the command line asked for."""

    model: str
    prompt: str | None
    system: str | None
    raw: bool
    params: SamplingParams
    load: Mapping[str, Any]
    """Settings by name; None: not given."""
    markdown: bool = True
    think: Think = Think()
    stats: bool = False
    document: DocumentFormat | None = None
    """What answers are; None: text."""
    tools: Tools | None = None
    """What may be called; None: nothing."""
    mcp: McpOptions | None = None
    """Whose tools may be called; None: nobody's."""

    @property
    def look(self) -> Look:
        """How a single answer is shown. Where a program reads calls, thoughts are left out unless they are wanted."""
        has_tools = self.tools is not None or self.mcp is not None
        is_for_program = has_tools and not sys.stdout.isatty() and self.think.wanted is None
        return Look(self.markdown, "off" if is_for_program else self.think.shown)


def run_model(options: RunOptions) -> int:
    """Answer or chat; returns the exit code. Raises `LocalLLMError`s, `KeyboardInterrupt`, `BrokenPipeError`."""
    settings = config.load(options.load)
    options = options._replace(model=settings.sections().model_named(options.model))
    interactive = options.prompt is None and sys.stdin.isatty()
    if not is_here(options.model, settings) and not serving.fetch(options.model, settings):
        return report.INTERRUPTED
    # What is typed while the model loads or answers waits for the next prompt, and is not written over what is shown.
    keys = osdep.quiet_keys(sys.stdin.fileno()) if interactive else contextlib.nullcontext()
    with (
        keys,
        serving.begin(
            options.model, options.load, settings, logs_to_file=interactive and not settings.verbose
        ) as server,
        mcp_tools.opened(options.mcp, settings) as found,
    ):
        prompt = None if interactive else read_prompt(options.prompt)
        prepare(options.look)
        if interactive:
            from localllm.cli import chat, editor  # noqa: F401 (the editor's imports take longer than all others)
        if server.is_sidecar and sys.stderr.isatty():
            _tell_of_gain(settings)
        with server.client() as client:
            talk = _talk(client, server.model_id, options, found)
            if talk.raw:
                _check_plain(options)
            if prompt is None:
                return chat.chat(
                    talk,
                    options.system,
                    verbose=settings.verbose,
                    stats=options.stats,
                    markdown=options.markdown,
                    home=settings.data_dir,
                    switch=lambda name: _talk(client, serving.load_now(client, name), options, found),
                )
            return _answer(talk, prompt, options, verbose=settings.verbose)


def _tell_of_gain(settings: Settings) -> None:
    """Once: that another llama.cpp would be faster here."""
    from localllm.llama.gains import advice_once

    advice = advice_once(settings.data_dir)
    if advice is not None:
        report.say(f"localllm: {advice} (`localllm doctor` says it again)")


def _talk(client: Client, model_id: str, options: RunOptions, found: McpTools | None) -> Talk:
    model = client.model(model_id)
    if model.loaded and not model.slots:
        raise InvalidParameter(f"{model_id} generates no text; localllm embed asks it for what it does", param="model")
    raw = options.raw or not model.chat_template
    talk = Talk(client, model_id, options.params, raw=raw, ctx=model.ctx or None, document=options.document)
    talk.think, talk.tools = options.think, options.tools if found is None else found
    return talk


def _check_plain(options: RunOptions) -> None:
    """Of what no text that is continued can have. Raises `NoChatTemplate`."""
    given = {
        "--system": options.system is not None,
        "--tools": options.tools is not None,
        "--mcp": options.mcp is not None,
        "--think N": options.think.budget_tokens is not None,
    }
    for option in (name for name, is_given in given.items() if is_given):
        raise NoChatTemplate(f"{option} needs a model with a chat template, and cannot go with --raw")


def _answer(talk: Talk, prompt: str, options: RunOptions, *, verbose: bool) -> int:
    """The exit code: half a document and half a call are failures, since programs read them."""
    if talk.raw and not options.raw:
        report.say(f"localllm: {talk.model_id} has no chat template, so it continues the prompt")
    printed = PrintedAnswer(options.look, plain_text=talk.is_plain)
    if isinstance(talk.tools, McpTools):
        printed = _answer_with(talk.tools, talk, prompt, options)
    else:
        printed.print(talk.ask(prompt, options.system))
    if printed.finish is None:
        return report.OK
    for note in printed.notes:
        report.say(f"localllm: {note}")
    if options.stats:
        report.say(stats_line(printed.finish, printed.first_token_s, talk.ctx))
    if verbose:
        report.say(describe(printed.finish))
    if talk.document is not None and printed.finish.reason != "stop":
        report.say(f"localllm: the document is not complete: {cut(printed.finish, talk)}")
        return report.FAILURE
    return _print_calls(printed, talk)


def _answer_with(given: McpTools, talk: Talk, prompt: str, options: RunOptions) -> PrintedAnswer:
    """The last of the answers: those before it called tools, whose results are in the conversation."""
    messages = [Message("system", options.system)] if options.system is not None else []
    messages.append(Message("user", prompt))
    ask = mcp_tools.somebody()
    for round in range(given.max_rounds + 1):
        printed = PrintedAnswer(options.look, plain_text=talk.is_plain)
        is_last = round == given.max_rounds
        printed.print(talk.answer(messages, may_call=False) if is_last else talk.answer(messages))
        whole = all(tools.parsed(call) is not None for call in printed.calls)
        if not printed.calls or not whole or is_last:
            break
        messages.append(Message("assistant", printed.text, thought=printed.thoughts, tool_calls=printed.calls))
        for call in printed.calls:
            result = given.result(call, ask)
            messages.append(Message("tool", result, tool_call_id=call.id, name=call.name))
        if round + 1 == given.max_rounds:
            report.say(f"localllm: {given.max_rounds} rounds of calls are the most; it answers with what it has")
    return printed


def _print_calls(printed: PrintedAnswer, talk: Talk) -> int:
    """On stdout, a line for each; the exit code."""
    code = report.OK
    for call in printed.calls:
        if tools.parsed(call) is None and printed.finish is not None:
            report.say(f"localllm: the call of {call.name} is not whole: {cut(printed.finish, talk)}")
            code = report.FAILURE
        else:
            line = tools.as_json_line(call)
            report.write_text(f"{line}\n")
    sys.stdout.flush()
    return code


def read_prompt(argument: str | None) -> str:
    """The prompt of the command line, of stdin, or of both with an empty line between. Raises `InvalidParameter`."""
    piped = ""
    if argument == "-" or not sys.stdin.isatty():
        piped = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\r\n")
    prompt = "\n\n".join(part for part in (argument if argument != "-" else None, piped) if part)
    if not prompt:
        raise InvalidParameter("no prompt: give one as an argument, or on stdin", param="prompt")
    return prompt
