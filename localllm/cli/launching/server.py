"""The server of an agent's model: a running one, or our own for as long as the agent runs.

`plan` decides without starting anything; `serving` loads. Knows nothing of an agent's files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from localllm.cli.options.settings import as_arguments
from localllm.cli.render.progress import LoadProgress
from localllm.cli.shared import formats, report
from localllm.cli.shared import sidecar as models
from localllm.cli.shared.model_names import is_here, is_name
from localllm.client.discovery import address_of, find_server, is_anybody_there
from localllm.client.server_process import SidecarExit
from localllm.client.sidecar import Sidecar
from localllm.errors import LocalLLMError, ModelNotFound
from localllm.launch import choosing
from localllm.launch.choosing import Candidate, Size
from localllm.launch.setup import Agent, Target
from localllm.settings.config import Settings
from localllm.system import memory

if TYPE_CHECKING:
    from localllm.client.api import Client
    from localllm.client.replies import ModelEntry
    from localllm.types.load_options import LoadOptions
from localllm.types import MediaKind, ModelInfo

MEMORY_SHARE = 0.75
"""Share of the free memory that a model may take: the agent, its language servers and tests need some."""
FOR_EVER = -1
DEMO = "demo"
DEMO_CAVEAT = "demo is a tiny model for trying things out: it is not capable of agent work"


class Plan(NamedTuple):
    """The model to serve, and where."""

    model: str
    size: Size
    target: Target
    """Preliminary: our own server has its address and key only once it runs."""
    running: Client | None
    keep_alive_s: float | None
    """The model's keep-alive on the running server, restored afterwards; None: loaded already, leave it as it is."""
    serve_command: tuple[str, ...]
    """The command that starts such a server; empty if the model is loaded already."""
    warnings: tuple[str, ...] = ()
    """What the user should know before launching."""

    @property
    def has_to_be_loaded(self) -> bool:
        """Whether the running server has it only on disk."""
        return self.running is not None and bool(self.serve_command)


class ServedModel(NamedTuple):
    """A loaded model."""

    target: Target
    certificate: Path | None
    exits: list[SidecarExit]
    """Unexpected exits of our own server."""

    def ended(self) -> list[str]:
        """Messages about `exits`."""
        return [
            f"the server ended while the agent was running ({each.reason}); its last output: {each.stderr}"
            for each in self.exits
        ]


def plan(asked: str | None, load: Mapping[str, Any], settings: Settings, agent: Agent, *, may_fetch: bool) -> Plan:
    """Choose model, context and server. Raises `ModelNotFound` if there is no suitable model."""
    running = _running(asked, load, settings)
    loaded = None if running is None else _loaded(running, asked, load.get("ctx"))
    host, port = address_of(settings)
    scheme = "http" if settings.tls_cert_file is None or running is None else "https"
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    key = _key(settings)
    if running is not None and loaded is not None:
        target = _target(url, key, loaded, ())
        warnings = _warnings(target, agent, can_chat=loaded.chat_template, format=_format_of(loaded))
        size = Size(loaded.ctx, loaded.slots)
        return Plan(loaded.id, size, target, running, _keep_alive(running, loaded.id), (), warnings)
    name, info, path = _chosen(asked, settings, may_fetch=may_fetch)
    if running is not None and _is_loaded(running, name):  # with a smaller context than requested
        running.close()
        running = None
    free_bytes = memory.available_memory()
    budget_bytes = None if free_bytes is None else int(free_bytes * MEMORY_SHARE)
    ctx = load.get("ctx") or _own_ctx(name, settings)
    size = choosing.size_for(_candidate(name, info, settings), budget_bytes, ctx)
    target = Target(url, name if is_name(name) else _id(name), size.ctx, key, reads=_reads(name, load, settings))
    command = ("localllm", "serve", name, f"--ctx={size.ctx}", f"--slots={size.slots}")
    format = formats.format_of(path, info)
    unknown = None if format is None or format.origin != "generic" else format.note
    warnings = _warnings(target, agent, can_chat=format is not None, format=unknown, trained=info.context_length)
    return Plan(name, size, target, running, settings.model_keep_alive_s, command, warnings)


def _keep_alive(client: Client, model: str) -> float | None:
    """The keep-alive in seconds; None if it never expires, or is unknown because the model is busy."""
    for process in client.processes():
        if process.model == model and process.expires_in_s is not None:
            return process.idle_s + process.expires_in_s
    return None


@contextlib.contextmanager
def serving(planned: Plan, load: Mapping[str, Any], settings: Settings) -> Iterator[ServedModel]:
    """The loaded model, until the agent ends. Raises what loading raises."""
    if planned.running is not None:
        with planned.running as client:
            yield from _by_running(planned, client, settings)
        return
    exits: list[SidecarExit] = []
    options = {name: value for name, value in load.items() if name not in ("ctx", "slots")}
    arguments = [planned.model, f"--ctx={planned.size.ctx}", f"--slots={planned.size.slots}"]
    arguments += [*as_arguments(options), *as_arguments({"home": settings.home})]
    arguments += [] if settings.verbose else ["--log-level=warning"]
    folder = settings.data_dir / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    progress = LoadProgress()
    with (
        (folder / "launch.log").open("wb") as log,
        Sidecar.spawn(arguments, stderr=log, on_exit=exits.append) as sidecar,
    ):
        try:
            ready = sidecar.wait_ready(progress)
        finally:
            progress.clear()
        from localllm.client.api import Client

        with Client(ready.url, ready.token) as client:
            entry = client.model(ready.model or planned.target.model)
            target = _target(ready.url, ready.token, entry, client.models())
        yield ServedModel(target, None, exits)


def load_to_stay(planned: Plan) -> str:
    """Load it on the running server without expiry; returns its id. Raises what loading raises."""
    assert planned.running is not None
    progress = LoadProgress()
    try:
        ctx, slots = planned.size
        return planned.running.load(planned.model, progress, ctx=ctx, slots=slots, keep_alive=FOR_EVER)
    finally:
        progress.clear()


def _by_running(planned: Plan, client: Client, settings: Settings) -> Iterator[ServedModel]:
    """Keep it loaded while the agent runs: a reload on demand would change the context size."""
    ctx, slots = planned.size
    model = planned.model
    if planned.keep_alive_s is not None:
        model = load_to_stay(planned)
    try:
        entry = client.model(model)
        target = _target(planned.target.url, planned.target.key, entry, client.models())
        yield ServedModel(target, settings.tls_cert_file, [])
    finally:
        if planned.keep_alive_s is not None:
            with contextlib.suppress(LocalLLMError):  # the model or the server may be gone
                client.load(model, ctx=ctx, slots=slots, keep_alive=planned.keep_alive_s)


def _running(asked: str | None, load: Mapping[str, Any], settings: Settings) -> Client | None:
    """The running server, unless a path or an option for loading needs our own."""
    others = {name: value for name, value in load.items() if name != "ctx"}
    if (asked is not None and not is_name(asked)) or as_arguments(others) or not is_anybody_there(settings):
        return None
    return find_server(settings, lambda why: report.say(f"localllm: {why}; starting another one"))


def _loaded(client: Client, asked: str | None, ctx: int | None) -> ModelEntry | None:
    """A suitable loaded model: the requested one, else the chat model with the largest context."""
    ready = [client.model(process.model) for process in client.processes() if process.status == "ready"]
    fitting = [entry for entry in ready if entry.loaded and entry.slots and (ctx is None or entry.ctx >= ctx)]
    if asked is not None:
        from localllm.registry.resolve import among

        found = {entry.id: entry for entry in fitting}
        id = among(found, asked)
        return None if id is None else found[id]
    chatting = [entry for entry in fitting if entry.chat_template and entry.id != DEMO]
    return max(chatting, key=lambda entry: entry.ctx, default=None)


def _is_loaded(client: Client, model: str) -> bool:
    from localllm.registry.resolve import among

    return among([process.model for process in client.processes()], model) is not None


def _chosen(asked: str | None, settings: Settings, *, may_fetch: bool) -> tuple[str, ModelInfo, Path]:
    """The requested model, downloaded if needed, or the best one on this machine."""
    if asked is not None:
        if may_fetch and not is_here(asked, settings) and not models.fetch(asked, settings):
            raise KeyboardInterrupt
        return asked, *_info(asked, settings)
    from localllm.registry import listing

    found: dict[str, tuple[ModelInfo, Path]] = {}
    for model in listing.available(settings.data_dir):
        if model.id == DEMO:
            continue
        try:
            info, path = _info(model.id, settings)
        except LocalLLMError as error:
            report.say(f"localllm: skipping {model.id}: {error.message}")
            continue
        if info.causal and info.pooling is None and "default" in info.chat_templates:
            found[model.id] = info, path
    free_bytes = memory.available_memory()
    candidates = [_candidate(name, info, settings) for name, (info, _) in found.items()]
    chosen = choosing.best(candidates, None if free_bytes is None else int(free_bytes * MEMORY_SHARE))
    if chosen is None:
        raise ModelNotFound(
            "no model on this machine suits an agent: --model qwen3:4b downloads one (localllm search lists more), "
            "--model demo is only for trying things out",
            param="model",
        )
    return chosen.name, *found[chosen.name]


def _info(model: str, settings: Settings) -> tuple[ModelInfo, Path]:
    from localllm.registry.header_reading import read_info
    from localllm.registry.resolve import resolve

    file = resolve(model, settings.data_dir)
    try:
        return read_info(file), file.path
    finally:
        file.release()


def _reads(model: str, load: Mapping[str, Any], settings: Settings) -> frozenset[MediaKind]:
    """What a model on this machine reads beside text once it is loaded with these options."""
    from msgspec.structs import replace

    from localllm.llama.probes.selftest import lacks_media
    from localllm.registry.header_reading import read_info
    from localllm.registry.projector_choice import useful_projector
    from localllm.registry.resolve import resolve

    file = resolve(model, settings.data_dir)
    try:
        given = {name: value for name, value in load.items() if name in ("mmproj", "projector")}
        options = replace(settings.for_model(file.id).load_options(), **given)
        projector = useful_projector(file, read_info(file), options).projector
    finally:
        file.release()
    if projector is None or lacks_media(settings.data_dir, settings.runtime):
        return frozenset()
    return frozenset(projector.info.reads)


def _id(path: str) -> str:
    from localllm.registry.resolve import model_id

    return model_id(Path(path))


def _candidate(name: str, info: ModelInfo, settings: Settings) -> Candidate:
    from msgspec.structs import replace

    from localllm.planning.plan import cpu_compute_bytes, cpu_memory_bytes

    options = settings.for_model(name).load_options()

    def needs(ctx: int, slots: int) -> int:
        asked: LoadOptions = replace(options, ctx=ctx, slots=slots, kv_cells=None)
        return info.size_bytes + cpu_memory_bytes(info, asked) + cpu_compute_bytes(info, asked)

    return Candidate(name, info.num_parameters, info.context_length, needs)


def _own_ctx(name: str, settings: Settings) -> int | None:
    """The context that `config.toml` sets for this model."""
    found = settings.sections().of(name).get("ctx")
    return None if found is None else int(found.value)


def _target(url: str, key: str | None, entry: ModelEntry, others: Sequence[ModelEntry]) -> Target:
    embedder, reranker = (
        next((each.id for each in others if capability in each.capabilities), None)
        for capability in ("embedding", "rerank")
    )
    thinks = "thinking" in entry.capabilities
    return Target(url, entry.id, entry.ctx, key, thinks, embedder, reranker, entry.reads or frozenset())


def _key(settings: Settings) -> str | None:
    """An API key for the agent, preferably not an admin's."""
    keys = sorted(settings.keys(), key=lambda key: key.role == "admin")
    return keys[0].secret if keys else None


def _format_of(entry: ModelEntry) -> str | None:
    return None if entry.chat_format is None or entry.chat_format.origin != "generic" else entry.chat_format.note


def _warnings(
    target: Target, agent: Agent, *, can_chat: bool, format: str | None, trained: int | None = None
) -> tuple[str, ...]:
    found = [DEMO_CAVEAT] if target.model == DEMO else []
    if not can_chat:
        found.append(f"{target.model} has no chat template, so it cannot call tools, which agents depend on")
    elif format is not None:
        found.append(f"the format of {target.model}'s tool calls is unknown ({format}): calls may arrive as text")
    if target.ctx < agent.least_ctx:
        remedy = "--ctx sets a larger context; a smaller model or --kv-type q8_0 makes room for it"
        if trained is not None and target.ctx >= trained:
            remedy = "the model was not trained for more"
        found.append(
            f"{agent.title} needs {agent.least_ctx:,} tokens of context, but this model has {target.ctx:,}: {remedy}"
        )
    return tuple(found)
