"""`localllm launch`: a coding agent on a local model: says what is set, runs the agent, takes everything back.

What an agent needs is in `localllm.launch`; who serves its model in `launch_server`. Knows no HTTP.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from localllm.cli import launch_server, report
from localllm.cli.launch_process import run_agent
from localllm.cli.launch_server import Plan, Served
from localllm.errors import InvalidParameter, LocalLLMError
from localllm.launch import exports, journal
from localllm.launch.journal import Journal, Planned
from localllm.launch.known import AGENTS, agent_named
from localllm.launch.setup import Agent, Place, Setup, Target
from localllm.settings import config
from localllm.settings.config import Settings

PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


class LaunchOptions(NamedTuple):
    """What the command line asked for."""

    model: str | None
    arguments: Sequence[str]
    """Of the agent."""
    only_print: bool
    yes: bool
    load: Mapping[str, Any]
    """Settings by name; None: not given."""
    where: Mapping[str, Any]
    """host, port, home, verbose."""

    @property
    def settings(self) -> Settings:
        return config.load({**self.load, **self.where})


def list_agents() -> int:
    """Which there are, which of them are on this machine, and how each is told."""
    rows = []
    for agent in AGENTS.values():
        found = find(agent)
        state = "prints settings" if not agent.program else found or "not installed"
        rows.append((agent.name, agent.title, state, agent.uses))
    report.write_table(("AGENT", "WHAT", "PROGRAM", "USES"), rows)
    report.say("localllm launch AGENT starts one; with --print it only says what would be set")
    return report.OK


def undo(settings: Settings) -> int:
    """What launches left that were killed."""
    said = journal.recover(settings.data_dir)
    report.say("\n".join(f"localllm: {each}" for each in said) or "localllm: there is nothing to undo")
    return report.OK


def launch(name: str, options: LaunchOptions) -> int:
    """The agent's own exit code. Raises `LocalLLMError`s, `KeyboardInterrupt`."""
    agent, settings = agent_named(name), options.settings
    for said in journal.recover(settings.data_dir):
        report.say(f"localllm: {said}")
    program = find(agent)
    if agent.program and program is None and not options.only_print:
        raise LocalLLMError(f"{agent.title} is not installed ({agent.program} is not in PATH): {agent.install}")
    plan = launch_server.plan(options.model, options.load, settings, agent, may_fetch=not options.only_print)
    for doubt in plan.doubts:
        report.say(f"localllm: {doubt}")
    if options.only_print:
        return _print(agent, plan, options)
    if plan.doubts and not _agreed("Go on?", options):
        return report.FAILURE
    if not agent.program:
        return _serve_panel(agent, plan, options)
    assert program is not None
    with launch_server.serving(plan, options.load, settings) as served, Journal(settings.data_dir) as launched:
        place = Place(Path.home(), os.environ, launched.files)
        setup = _with_surroundings(agent.set_up(served.target, place), served, os.environ)
        planned = None if setup.change is None else journal.plan(setup.change)
        _tell(agent, program, served.target, setup)
        if planned is not None and planned.diff and not _agreed_to(planned, options):
            return report.FAILURE
        environment = {name: value for name, value in os.environ.items() if name not in setup.unset}
        command = [program, *setup.arguments, *options.arguments]

        def prepare() -> None:
            launched.write(setup.files)
            if planned is not None and planned.diff:
                launched.change(planned)

        code = run_agent(command, {**environment, **setup.environment}, prepare)
        for said in [*launched.undo(), *served.ended()]:
            report.say(f"localllm: {said}")
    return code


def find(agent: Agent) -> str | None:
    """Its program: in PATH, or where its installer puts it."""
    if not agent.program:
        return None
    folders = os.pathsep.join(str(Path.home() / place) for place in agent.places)
    return shutil.which(agent.program) or (shutil.which(agent.program, path=folders) if folders else None)


def _print(agent: Agent, plan: Plan, options: LaunchOptions) -> int:
    """Exports on stdout, or what has to be typed; nothing is started and nothing is written."""
    folder = options.settings.data_dir / "launch-print" / agent.name
    setup = agent.set_up(plan.target, Place(Path.home(), os.environ, folder))
    if plan.running is None:
        report.say(f"localllm: no server runs there; this starts one: {shlex.join(plan.serve_command)}")
    elif plan.has_to_be_loaded:
        report.say(
            f"localllm: the server that runs has not loaded {plan.model}, and would load it with its own context: "
            "launch without --print loads it with this one"
        )
    if setup.panel:
        report.write_text(setup.panel)
        return report.OK
    command = [agent.program, *setup.arguments, *options.arguments]
    powershell = exports.uses_powershell(os.environ)
    lines = exports.lines(setup, folder, command, powershell=powershell)
    report.write_text("".join(f"{line}\n" for line in lines))
    if setup.change is not None:
        planned = journal.plan(setup.change)
        report.write_text("".join(f"# {line}\n" for line in planned.diff.splitlines()))
    return report.OK


def _serve_panel(agent: Agent, plan: Plan, options: LaunchOptions) -> int:
    """Settings that a person types, and the server for them, until Ctrl-C."""
    if options.arguments:
        raise InvalidParameter(f"{agent.title} takes no arguments: nothing of it is started", param="args")
    report.write_text(agent.set_up(plan.target, Place(Path.home(), os.environ, Path())).panel)
    sys.stdout.flush()
    if plan.running is not None:
        if plan.has_to_be_loaded:
            launch_server.load_to_stay(plan)
            report.say(f"localllm: the server that runs has loaded {plan.model}, until localllm stop {plan.model}")
        return report.OK
    from localllm.cli.serve import serve_model

    load = {**options.load, "ctx": plan.size.ctx, "slots": plan.size.slots}
    return serve_model(config.load({**load, **options.where}), [plan.model], ready=None)


def _tell(agent: Agent, program: str, target: Target, setup: Setup) -> None:
    report.say(
        f"localllm: {agent.title} ({program}) uses {target.model} with {target.ctx:,} tokens of context at {target.url}"
    )
    if setup.environment:
        report.say(f"localllm: set for it: {', '.join(setup.environment)} (--print shows them)")
    if setup.arguments:
        report.say(f"localllm: its options: {shlex.join(setup.arguments)}")
    for note in setup.notes:
        report.say(f"localllm: {note}")


def _with_surroundings(setup: Setup, served: Served, environ: Mapping[str, str]) -> Setup:
    """What does not depend on the agent: no proxy before this machine, and the certificate of a server of ours."""
    more: dict[str, str] = {}
    if any(environ.get(name) for name in PROXIES):
        known = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
        more["NO_PROXY"] = more["no_proxy"] = ",".join(filter(None, (known, "127.0.0.1", "localhost", "::1")))
    if served.certificate is not None:
        more["NODE_EXTRA_CA_CERTS"] = str(served.certificate)
    return setup._replace(environment={**setup.environment, **more})


def _agreed_to(planned: Planned, options: LaunchOptions) -> bool:
    report.draw(planned.diff)
    return _agreed(f"Change {planned.file} until the agent ends?", options)


def _agreed(question: str, options: LaunchOptions) -> bool:
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidParameter("nobody can be asked whether to go on; add --yes", param="yes")
    return report.ask(f"{question} [y/N] ").lower() in ("y", "yes")
