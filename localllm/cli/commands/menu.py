"""`localllm` alone in a terminal: a short list of what most people do, each entry a command that could be typed.

Finds out what is here, and asks nothing of a network or a model. `menu_screen` draws it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shlex

from localllm import __version__
from localllm.cli.chat.kept.save_commands import excerpt
from localllm.cli.chat.kept.sessions import Sessions
from localllm.cli.commands.menu_screen import Choice, choose
from localllm.cli.render.units import ago, size
from localllm.cli.shared import config, last_model, report
from localllm.errors import LocalLLMError
from localllm.settings.config import Settings
from localllm.system import cpu, memory


def chosen_words() -> list[str] | None:
    """Show the menu; the command that was chosen, or None if the user left."""
    settings = config.load()
    found = choose(f"localllm {__version__}", choices(settings))
    if found is None:
        return None
    report.say(f"$ localllm {shlex.join(found.words)}")
    return list(found.words)


def choices(settings: Settings) -> list[Choice]:
    """What can be done on this machine, the likeliest first."""
    found = [_chat(settings), *_last_chat(settings)]
    found.append(Choice("Models for this machine", "the best ones of the catalog", ("recommend",)))
    return [*found, _agent(), _page(), _check(settings), Choice("All commands", "", ("--help",))]


def _chat(settings: Settings) -> Choice:
    model = last_model.last(settings.data_dir)
    if model != last_model.DEFAULT:
        return Choice(f"Chat with {_short(model)}", "the model that was run last", ("run", model))
    from localllm.registry.listing import available

    free = memory.available_memory()
    here = [
        each
        for each in available(settings.data_dir)
        if each.id != last_model.DEFAULT and _chats(each.id) and (free is None or each.size_bytes < free)
    ]
    if here:  # the largest is the best, as far as anything is known of it
        best = max(here, key=lambda each: each.size_bytes)
        return Choice(f"Chat with {best.id}", f"on this machine, {size(best.size_bytes)}", ("run", best.id))
    return Choice("Chat with demo", "the tiny bundled model", ("run", last_model.DEFAULT))


def _chats(model: str) -> bool:
    """Unless the catalog knows it as one that embeds or ranks texts."""
    from localllm.registry import catalog

    name, _, tag = model.partition(":")
    entry = catalog.load().find(name, tag or None)
    return entry is None or entry.kind not in ("embedding", "reranker")


def _last_chat(settings: Settings) -> list[Choice]:
    sessions = Sessions(settings.data_dir)
    found = sessions.listed()
    if not found:
        return []
    begins = ""
    with contextlib.suppress(LocalLLMError):  # run says what is wrong with it
        chat = sessions.load(found[0].name)
        begins = next((f": {excerpt(turn.shown)}" for turn in chat.messages if turn.role == "user"), "")
    return [Choice("Go on with the last chat", f"{ago(int(found[0].changed_unix_s))}{begins}", ("run", "--continue"))]


def _agent() -> Choice:
    from localllm.cli.launching.agent import find
    from localllm.launch.known import AGENTS

    names = [agent.name for agent in AGENTS.values() if find(agent) is not None]
    words = ("launch", *names) if len(names) == 1 else ("launch",)
    return Choice("Start a coding agent", ", ".join(names) or "none is installed", words)


def _page() -> Choice:
    if importlib.util.find_spec("webview") is not None:
        return Choice("Open the page", "in a window", ("app",))
    return Choice("Serve the page", "for a browser; Ctrl-C ends it", ("serve",))


def _check(settings: Settings) -> Choice:
    free, total = memory.available_memory(), memory.total_memory()
    parts = [cpu.cpu_name(), f"{size(free)} of {size(total)} of memory free"]
    if not (settings.data_dir / "selftest.json").exists():
        parts = ["not tested yet", *parts]
    return Choice("Check this machine", ", ".join(parts), ("doctor",))


def _short(model: str) -> str:
    """The name; of a path, the file's."""
    return model.replace("\\", "/").rsplit("/", 1)[-1] if model.endswith(".gguf") else model
