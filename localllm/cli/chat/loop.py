"""The interactive chat: the user sends a message, the model answers, until Ctrl-D. Knows no HTTP.

Ctrl-C stops an answer; the part that has arrived stays in the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from localllm.cli.chat import attach_commands, dropped, slash_commands
from localllm.cli.chat.answer import Talk
from localllm.cli.chat.attachments import Attachment
from localllm.cli.chat.conversation import Conversation, Leave, Switch
from localllm.cli.chat.kept.keeping import Keeper
from localllm.cli.chat.questions import LineDropped, ReadLine, read_message
from localllm.cli.shared import report
from localllm.cli.shared.given_text import typed
from localllm.client.api import ServerGone
from localllm.errors import ContextLengthExceeded, LocalLLMError

HOW_TO_LEAVE = "to leave, press Ctrl-D or type /bye"


def chat(
    talk: Talk,
    system: str | None,
    *,
    verbose: bool,
    stats: bool = False,
    markdown: bool = True,
    home: Path | None = None,
    switch: Switch | None = None,
    attached: Sequence[Attachment] = (),
    keeper: Keeper | None = None,
) -> int:
    """Chat on the terminal; returns the exit code. `home`: where the input history is kept; None: nowhere.
    `attached`: what goes with the first message. `keeper`: keeps the chat, and has what it continues."""
    from localllm.cli.chat.editor import Editor

    conversation = Chat(talk, system, verbose=verbose, stats=stats, markdown=markdown, switch=switch)
    editor = Editor(home, models=lambda: conversation.talk.model_names())
    if talk.raw:
        report.say(f"{talk.model_id} has no chat template, or --raw was given: it continues each line. /help for help")
    else:
        report.say(f"{talk.model_id}: /help for help, Ctrl-D to leave")
    if talk.template_note:
        report.say(f"{talk.model_id}: {talk.template_note}")
    conversation.pending = [*attached]
    if keeper is not None:
        keeper.take_up(conversation, shows=True)
        conversation.keep = keeper.keep
    return conversation.run(editor.read)


class Chat(Conversation):
    """A conversation driven by lines from the keyboard."""

    keep: Callable[[Conversation], None] | None = None
    """Called after each message and command."""

    def run(self, read_line: ReadLine) -> int:
        """Read and answer until the user leaves; returns the exit code."""
        self.read_line = read_line
        while True:
            try:
                text = typed(read_message(read_line))
            except EOFError:
                return self.exit_code
            except LineDropped:
                continue
            except KeyboardInterrupt:
                report.say(HOW_TO_LEAVE)
                continue
            try:
                self.take(text)
            except Leave:
                return self.exit_code
            except KeyboardInterrupt:
                continue
            except LocalLLMError as error:
                self._complain(error)
            finally:
                if self.keep is not None:
                    self.keep(self)

    def take(self, text: str) -> None:
        """Handle one message or command. Raises `LocalLLMError`s, `Leave`."""
        if slash_commands.is_command(text) and dropped.media_file(text.split(maxsplit=1)[0]) is None:
            slash_commands.execute(self, text.strip())
        elif text.strip() or self.pending:
            attach_commands.send(self, text)

    def _complain(self, error: LocalLLMError) -> None:
        """Report the error and what the user can do; the conversation is as it was."""
        code = report.complain(error)
        if isinstance(error, ContextLengthExceeded):
            ctx = f" of {self.talk.ctx} tokens" if self.talk.ctx else ""
            report.say(
                f"The context{ctx} is full. Nothing is lost: /undo takes back the last exchange, /clear all of them,"
            )
            report.say("/save keeps them in a file; then /regen sends your message again. --ctx sets a larger context.")
        elif isinstance(error, ServerGone):
            self.exit_code = code
            report.say("The conversation is still here: /save keeps it in a file, /regen sends your message again.")
        elif self.unanswered is not None:
            report.say("/regen sends your message again.")
        elif self.turns and self.turns[-1].interrupted:
            report.say("The part of the answer that arrived is kept; /regen asks for another.")
        elif self.turns and self.turns[-1].role == "tool":
            report.say("The result is kept; /regen sends it again.")
