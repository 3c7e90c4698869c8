"""`localllm launch`: runs a coding agent on a local model, and undoes its changes when the agent ends.

`localllm.launch` knows what an agent needs, `launch_server` which server has its model. Knows no HTTP.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from localllm.cli.launching import server
from localllm.cli.launching.process import run_agent
from localllm.cli.launching.server import Plan, ServedModel
from localllm.cli.shared import config, report
from localllm.errors import InvalidParameter, LocalLLMError
from localllm.launch import exports, journal
from localllm.launch.journal import Journal, PlannedChange
from localllm.launch.known import AGENTS, agent_named
from localllm.launch.setup import Agent, AgentFolders, Setup, Target
from localllm.settings.config import Settings
from localllm.system.shell_words import shell_word

PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


class LaunchOptions(NamedTuple):
    """The options of the command line."""

    model: str | None
    arguments: Sequence[str]
    """The agent's own arguments."""
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
    """List the known agents, whether they are installed, and how each is configured."""
    rows = []
    for agent in AGENTS.values():
        found = find(agent)
        state = "prints settings" if not agent.program else found or "not installed"
        rows.append((agent.name, agent.title, state, agent.uses))
    report.write_table(("AGENT", "NAME", "PROGRAM", "USES"), rows)
    report.say("localllm launch AGENT starts one; with --print it only prints what would be set")
    return report.OK


def undo(settings: Settings) -> int:
    """Undo the changes of launches that were killed."""
    messages = journal.recover(settings.data_dir)
    report.say("\n".join(f"localllm: {each}" for each in messages) or "localllm: nothing to undo")
    return report.OK


def launch(name: str, options: LaunchOptions) -> int:
    """Run an agent; returns its exit code. Raises `LocalLLMError`s, `KeyboardInterrupt`."""
    agent, settings = agent_named(name), options.settings
    for message in journal.recover(settings.data_dir):
        report.say(f"localllm: {message}")
    program = find(agent)
    if agent.program and program is None and not options.only_print:
        raise LocalLLMError(f"{agent.title} is not installed ({agent.program} is not in PATH): {agent.install}")
    plan = server.plan(options.model, options.load, settings, agent, may_fetch=not options.only_print)
    for warning in plan.warnings:
        report.say(f"localllm: {warning}")
    if options.only_print:
        return _print(agent, plan, options)
    if plan.warnings and not _is_confirmed("Continue?", options):
        return report.FAILURE
    if not agent.program:
        return _serve_panel(agent, plan, options)
    assert program is not None
    with server.serving(plan, options.load, settings) as served, Journal(settings.data_dir) as launched:
        place = AgentFolders(Path.home(), os.environ, launched.files)
        setup = _with_network_variables(agent.set_up(served.target, place), served, os.environ)
        planned = None if setup.change is None else journal.plan(setup.change)
        _announce(agent, program, served.target, setup)
        if planned is not None and planned.diff and not _is_change_confirmed(planned, options):
            return report.FAILURE
        environment = {name: value for name, value in os.environ.items() if name not in setup.unset}
        command = [program, *setup.arguments, *options.arguments]

        def prepare() -> None:
            launched.write(setup.files)
            if planned is not None and planned.diff:
                launched.change(planned)

        code = run_agent(command, {**environment, **setup.environment}, prepare)
        for message in [*launched.undo(), *served.ended()]:
            report.say(f"localllm: {message}")
    return code


def find(agent: Agent) -> str | None:
    """The path of its program: in PATH, or where its installer puts it."""
    if not agent.program:
        return None
    folders = os.pathsep.join(str(Path.home() / place) for place in agent.places)
    return shutil.which(agent.program) or (shutil.which(agent.program, path=folders) if folders else None)


def _print(agent: Agent, plan: Plan, options: LaunchOptions) -> int:
    """Print exports, or what has to be entered by hand; starts and writes nothing."""
    folder = options.settings.data_dir / "launch-print" / agent.name
    setup = agent.set_up(plan.target, AgentFolders(Path.home(), os.environ, folder))
    if plan.running is None:
        report.say(f"localllm: no server is running; to start one: {shlex.join(plan.serve_command)}")
    elif plan.has_to_be_loaded:
        report.say(
            f"localllm: the running server has not loaded {plan.model}, and would load it with its own context size; "
            "launch without --print loads it with the one shown here"
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
    """Print settings to enter by hand, and serve the model for them until Ctrl-C."""
    if options.arguments:
        raise InvalidParameter(f"{agent.title} takes no arguments: launch does not start it", param="args")
    report.write_text(agent.set_up(plan.target, AgentFolders(Path.home(), os.environ, Path())).panel)
    sys.stdout.flush()
    if plan.running is not None:
        if plan.has_to_be_loaded:
            server.load_to_stay(plan)
            report.say(
                f"localllm: the running server keeps {plan.model} loaded until localllm stop {shell_word(plan.model)}"
            )
        return report.OK
    from localllm.cli.commands.serve import serve_model

    load = {**options.load, "ctx": plan.size.ctx, "slots": plan.size.slots}
    return serve_model(config.load({**load, **options.where}), [plan.model], ready=None)


def _announce(agent: Agent, program: str, target: Target, setup: Setup) -> None:
    report.say(
        f"localllm: {agent.title} ({program}) uses {target.model} with {target.ctx:,} tokens of context at {target.url}"
    )
    if setup.environment:
        report.say(f"localllm: environment: {', '.join(setup.environment)} (--print shows the values)")
    if setup.arguments:
        report.say(f"localllm: options: {shlex.join(setup.arguments)}")
    for note in setup.notes:
        report.say(f"localllm: {note}")


def _with_network_variables(setup: Setup, served: ServedModel, environ: Mapping[str, str]) -> Setup:
    """Adds variables for any agent: no proxy for this machine, and the certificate of our server."""
    more: dict[str, str] = {}
    if any(environ.get(name) for name in PROXIES):
        known = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
        more["NO_PROXY"] = more["no_proxy"] = ",".join(filter(None, (known, "127.0.0.1", "localhost", "::1")))
    if served.certificate is not None:
        more["NODE_EXTRA_CA_CERTS"] = str(served.certificate)
    return setup._replace(environment={**setup.environment, **more})


def _is_change_confirmed(planned: PlannedChange, options: LaunchOptions) -> bool:
    report.draw(planned.diff)
    return _is_confirmed(f"Change {planned.file} until the agent ends?", options)


def _is_confirmed(question: str, options: LaunchOptions) -> bool:
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidParameter("cannot ask for confirmation without a terminal; add --yes", param="yes")
    return report.ask(f"{question} [y/N] ").lower() in ("y", "yes")
