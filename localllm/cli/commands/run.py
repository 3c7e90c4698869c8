"""`localllm run`: answers a prompt on stdout, or chats. Knows no HTTP and no llama.cpp.

Ordered for speed: the server starts first, and our own imports run while it loads the model.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from localllm.cli.chat import mcp_tools, tools
from localllm.cli.chat.answer import AnswerStyle, PrintedAnswer, Talk, describe, prepare, stats_line, why_incomplete
from localllm.cli.chat.attachments import Attachment, Attachments, Bounds, user_message
from localllm.cli.chat.conversation import Conversation
from localllm.cli.chat.kept import keeping
from localllm.cli.chat.kept.keeping import Keeper
from localllm.cli.chat.kept.saved import Turn
from localllm.cli.chat.kept.sessions import Sessions
from localllm.cli.chat.mcp_tools import McpOptions, McpTools
from localllm.cli.chat.media_look import is_media
from localllm.cli.chat.schema import DocumentFormat
from localllm.cli.chat.thinking import Think
from localllm.cli.chat.tools import Tools
from localllm.cli.shared import config, last_model, report, sidecar
from localllm.cli.shared.given_text import decoded
from localllm.cli.shared.model_names import is_here
from localllm.errors import InvalidParameter, NoChatTemplate
from localllm.registry.adapters.names import with_given
from localllm.system import terminals
from localllm.types import Finish, Message, SamplingParams

if TYPE_CHECKING:
    from localllm.client.api import Client
    from localllm.settings.config import Settings


class RunOptions(NamedTuple):
    """What the command line asked for."""

    model: str | None
    """None: the one that was run last."""
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
    """The format of answers; None: text."""
    tools: Tools | None = None
    """The tools that may be called; None: none."""
    mcp: McpOptions | None = None
    """The MCP servers whose tools may be called; None: none."""
    images: Sequence[str] = ()
    audios: Sequence[str] = ()
    files: Sequence[str] = ()
    """Paths and addresses of pictures, sounds and documents."""
    session: str | None = None
    """The name of the session that this chat is; None: none of its own."""
    continues: bool = False
    """Whether the last chat goes on."""
    private: bool = False
    """Whether neither the chat nor what is typed is kept."""

    @property
    def look(self) -> AnswerStyle:
        """How a single answer is shown. Thoughts are left out by default where a program reads calls from stdout."""
        has_tools = self.tools is not None or self.mcp is not None
        is_for_program = has_tools and not sys.stdout.isatty() and self.think.wanted is None
        return AnswerStyle(self.markdown, "off" if is_for_program else self.think.shown)


def run_model(options: RunOptions) -> int:
    """Answer or chat; returns the exit code. Raises `LocalLLMError`s, `KeyboardInterrupt`, `BrokenPipeError`."""
    if options.raw:
        _check_raw(options)
    settings = config.load(options.load)
    interactive = options.prompt is None and sys.stdin.isatty()
    keeper = _keeper(options, settings, interactive=interactive)
    model = (keeper.model if keeper else "") if options.model is None else options.model
    model = settings.sections().model_named(model or last_model.last(settings.data_dir))
    if options.model is None:
        is_chosen = keeper is not None and keeper.found is not None
        report.say(f"localllm: {model}{'' if is_chosen else _advice(model, settings)}")
    attachments = Attachments(Bounds.of(settings))
    attached = [attachments.open(each, "image") for each in options.images]
    attached += [attachments.open(each, "audio") for each in options.audios]
    attached += [attachments.open(each, "document") for each in options.files]
    if not is_here(model, settings) and not sidecar.fetch(model, settings):
        return report.INTERRUPTED
    # Input typed while the model loads or answers is kept for the next prompt, and not echoed into the output.
    keys = terminals.quiet_keys(sys.stdin.fileno()) if interactive else contextlib.nullcontext()
    with (
        keys,
        sidecar.begin(model, options.load, settings, logs_to_file=interactive and not settings.verbose) as server,
        mcp_tools.opened(options.mcp, settings) as found,
    ):
        if not interactive:
            prompt, piped = read_prompt(options.prompt, attachments, has_media=bool(attached))
            attached += piped
        prepare(options.look)
        if interactive:
            from localllm.cli.chat import editor, loop  # noqa: F401 (the editor's imports take longer than all others)
        if server.is_sidecar and sys.stderr.isatty():
            _suggest_runtime(settings)
        last_model.remember(model, settings.data_dir)
        if keeper is not None:
            keeper.model = last_model.lasting(model)
        with server.client() as client:
            model_id = with_given(server.model_id, settings.lora, settings.control_vector)
            talk = _talk(client, model_id, options, found, attachments)
            talk.check_reads([each.kind for each in attached])
            if (
                interactive and settings.ctx is not None and talk.ctx not in (None, settings.ctx)
            ):  # else its log says it
                report.say(f"localllm: the context is {talk.ctx} tokens, not {settings.ctx}: llama.cpp's step is 256")
            if talk.raw:
                _check_raw(options)
            if interactive:
                return loop.chat(
                    talk,
                    options.system,
                    verbose=settings.verbose,
                    stats=options.stats,
                    markdown=options.markdown,
                    home=None if options.private else settings.data_dir,
                    switch=lambda name: _switched(client, name, options, found, attachments, keeper),
                    attached=attached,
                    keeper=keeper,
                )
            return _answer(talk, prompt, options, attached=attached, verbose=settings.verbose, keeper=keeper)


def _keeper(options: RunOptions, settings: Settings, *, interactive: bool) -> Keeper | None:
    """What keeps this chat; None: nothing does. Raises `InvalidParameter`."""
    is_wanted = options.session is not None or options.continues
    if options.private and is_wanted:
        raise InvalidParameter("--private keeps nothing: leave out --session and --continue", param="private")
    if options.session is not None and options.continues:
        raise InvalidParameter("--session names a chat and --continue the last one; leave one of them out")
    if not interactive and is_wanted and (options.tools is not None or options.mcp is not None):
        raise InvalidParameter("a prompt on the command line cannot go on with a session and have --tools or --mcp")
    if options.private or options.raw or not (interactive or is_wanted):
        return None
    return keeping.opened(Sessions(settings.data_dir), options.session, continues=options.continues)


def _switched(
    client: Client,
    name: str,
    options: RunOptions,
    found: McpTools | None,
    attachments: Attachments,
    keeper: Keeper | None,
) -> Talk:
    talk = _talk(client, sidecar.load_now(client, name), options, found, attachments)
    if keeper is not None:
        keeper.model = talk.model_id
    return talk


def _advice(model: str, settings: Settings) -> str:
    """Where to find a real model, if there is none on this machine."""
    from localllm.registry.listing import store_of

    if model != last_model.DEFAULT or store_of(settings.data_dir).scan()[0]:
        return ""
    return ", the tiny bundled model; `localllm recommend` names better ones for this machine"


def _suggest_runtime(settings: Settings) -> None:
    """Say, once per machine, that another llama.cpp build would be faster."""
    from localllm.llama.runtimes.gains import advice_once

    advice = advice_once(settings.data_dir)
    if advice is not None:
        report.say(f"localllm: {advice} (`localllm doctor` repeats this advice)")


def _talk(client: Client, model_id: str, options: RunOptions, found: McpTools | None, attachments: Attachments) -> Talk:
    model = client.model(model_id)
    if model.loaded and not model.slots:
        raise InvalidParameter(f"{model_id} does not generate text; use localllm embed", param="model")
    raw = options.raw or not model.chat_template
    talk = Talk(client, model_id, options.params, raw=raw, ctx=model.ctx or None, document=options.document)
    talk.attachments, talk.text_only_reason = attachments, model.text_only_reason
    talk.reads = model.reads
    talk.template_note = model.chat_template_note
    talk.think, talk.tools = options.think, options.tools if found is None else found
    return talk


def _check_raw(options: RunOptions) -> None:
    """Reject options that need a chat template. Raises `NoChatTemplate`."""
    given = {
        "--system": options.system is not None,
        "--tools": options.tools is not None,
        "--mcp": options.mcp is not None,
        "--image": bool(options.images),
        "--audio": bool(options.audios),
        "--file": bool(options.files),
        "--session": options.session is not None,
        "--continue": options.continues,
        "--think N": options.think.budget_tokens is not None,
    }
    for option in (name for name, is_given in given.items() if is_given):
        raise NoChatTemplate(f"{option} needs a model with a chat template, and cannot be combined with --raw")


def _answer(
    talk: Talk,
    prompt: str,
    options: RunOptions,
    *,
    attached: Sequence[Attachment] = (),
    verbose: bool,
    keeper: Keeper | None = None,
) -> int:
    """Print the answer; returns the exit code: an incomplete document or call is a failure, since programs read it.
    `keeper`: of the session that this goes on with."""
    if not options.raw and talk.template_note:
        continues = " (the prompt is continued)" if talk.raw else ""
        report.say(f"localllm: {talk.model_id}: {talk.template_note}{continues}")
    printed = PrintedAnswer(options.look, plain_text=talk.is_plain)
    if isinstance(talk.tools, McpTools):
        printed = _answer_with(talk.tools, talk, user_message(prompt, attached, talk.attachments.files), options)
    elif keeper is not None:
        _answer_in(keeper, talk, Turn("user", prompt, attached=tuple(attached)), options.system, printed)
    else:
        printed.print(talk.ask(prompt, options.system, attached))
    if printed.finish is None:
        return report.OK
    for note in printed.notes:
        report.say(f"localllm: {note}")
    if options.stats:
        report.say(stats_line(printed.finish, printed.first_token_s, talk.ctx))
    if verbose:
        report.say(describe(printed.finish))
    if talk.document is not None and printed.finish.reason != "stop":
        report.say(f"localllm: the document is incomplete: {why_incomplete(printed.finish, talk)}")
        return report.FAILURE
    if _is_cut_unasked(printed.finish, talk):
        remedy = "; --max-tokens N lifts the limit of the model's settings" if printed.finish.reason == "length" else ""
        if printed.finish.is_context_full:
            remedy = "; --ctx sets a larger one"
        report.say(f"localllm: the answer is incomplete: {why_incomplete(printed.finish, talk)}{remedy}")
    return _print_calls(printed, talk)


def _answer_in(keeper: Keeper, talk: Talk, question: Turn, system: str | None, printed: PrintedAnswer) -> None:
    """Print the answer to one more message of a session, and keep both."""
    chat = Conversation(talk, system)
    keeper.take_up(chat)
    printed.print(talk.answer(chat.messages(question)))
    chat.turns += [question, Turn("assistant", printed.text, thinking=printed.thoughts)]
    if keeper.found is not None:  # the options are for this question
        chat.system, talk.params = keeper.found.system, keeper.found.parameters
    keeper.keep(chat)


def _is_cut_unasked(finish: Finish, talk: Talk) -> bool:
    """Whether something else than the user's own limit ended the answer early."""
    if finish.reason == "length":
        return finish.is_context_full or talk.params.max_tokens is None
    return finish.reason == "timeout"


def _answer_with(mcp: McpTools, talk: Talk, question: Message, options: RunOptions) -> PrintedAnswer:
    """Answer, running the calls to MCP servers in between; returns the last answer."""
    messages = [Message("system", options.system)] if options.system is not None else []
    messages.append(question)
    ask = mcp_tools.terminal_user()
    for round in range(mcp.max_rounds + 1):
        printed = PrintedAnswer(options.look, plain_text=talk.is_plain)
        is_last = round == mcp.max_rounds
        printed.print(talk.answer(messages, may_call=False) if is_last else talk.answer(messages))
        whole = all(tools.parsed(call) is not None for call in printed.calls)
        if not printed.calls or not whole or is_last:
            break
        messages.append(Message("assistant", printed.text, thought=printed.thoughts, tool_calls=printed.calls))
        for call in printed.calls:
            result = mcp.result(call, ask)
            messages.append(Message("tool", result, tool_call_id=call.id, name=call.name))
        if round + 1 == mcp.max_rounds:
            report.say(f"localllm: limit of {mcp.max_rounds} rounds of calls reached; answering without further calls")
    return printed


def _print_calls(printed: PrintedAnswer, talk: Talk) -> int:
    """One line per call on stdout; returns the exit code."""
    code = report.OK
    for call in printed.calls:
        if tools.parsed(call) is None and printed.finish is not None:
            report.say(f"localllm: the call to {call.name} is incomplete: {why_incomplete(printed.finish, talk)}")
            code = report.FAILURE
        else:
            line = tools.as_json_line(call)
            report.write_text(f"{line}\n")
    sys.stdout.flush()
    return code


def read_prompt(argument: str | None, attachments: Attachments, *, has_media: bool) -> tuple[str, list[Attachment]]:
    """The prompt from the argument, from stdin, or from both with an empty line between; and a picture, sound or
    document piped in place of text. `has_media`: whether one was given already, so that no text is needed.

    Raises `InvalidParameter`.
    """
    piped, found = "", list[Attachment]()
    if argument == "-" or not sys.stdin.isatty():
        data = sys.stdin.buffer.read()
        if is_media(data):
            found = [attachments.take(data, "the standard input")]
        else:
            piped = decoded(data, "the standard input").rstrip("\r\n")
    prompt = "\n\n".join(part for part in (argument if argument != "-" else None, piped) if part)
    if not prompt and not found and not has_media:
        raise InvalidParameter("no prompt: give one as an argument or on stdin", param="prompt")
    return prompt, found
