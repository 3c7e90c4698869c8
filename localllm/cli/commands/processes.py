"""`localllm ps` and `localllm stop`: list and unload the models of the running server."""

from __future__ import annotations

import msgspec

from localllm.cli.render.units import counted, duration, size
from localllm.cli.shared import report
from localllm.client.discovery import server_of
from localllm.settings.config import Settings
from localllm.types.states import AdapterStatus, BatchWork, MediaStatus
from localllm.types.wire import Process


def list_processes(settings: Settings, *, as_json: bool) -> int:
    """List the loaded models. Raises `ServerGone` if no server is running."""
    with server_of(settings) as client:
        work = client.work()
        models = work.models
        damaged = [] if as_json else [model for model in client.available() if model.problem is not None]
    if as_json:
        report.write_json(msgspec.json.encode(models))
        return report.OK
    rows = []
    for model in models:
        until = "stays" if model.expires_in_s is None else f"in {duration(model.expires_in_s)}"
        layers = ", ".join(f"{device} {count}" for device, count in (model.layers_per_device or {}).items())
        if model.cpu_experts:
            layers += f", experts of {model.cpu_experts} on CPU"
        slots = "" if model.ctx is None else f"{model.slots} x {model.ctx}"
        rows.append(
            (
                model.model,
                model.status,
                size(model.memory_bytes),
                slots,
                layers,
                requests_of(model),
                until,
                _set(model),
                "" if isinstance(model.tuned, msgspec.UnsetType) else model.tuned,
            )
        )
    notes = [f"{model.model}: {model.placement_note}" for model in models if model.placement_note]
    notes += [media_note(model) for model in models if model.media_bytes]
    notes += [adapter_note(model, model.adapters) for model in models if model.adapters]
    notes += [batch_note(work.batches)] if work.batches else []
    report.write_table(("NAME", "STATUS", "MEMORY", "SLOTS", "LAYERS", "REQUESTS", "UNLOADED", "SET", "TUNED"), rows)
    for note in notes:
        report.say(f"localllm: {note}")
    for each in damaged:
        report.say(f"localllm: {each.id} cannot be used: {each.problem}")
    return report.OK


def requests_of(model: Process) -> str:
    """How many it has, how many of them are of the batch class, and how many gave their slots to more urgent ones."""
    kinds = ((model.batch_requests, "of batches"), (model.parked, "parked"))
    parts = [f"{count} {what}" for count, what in kinds if count]
    return f"{model.requests} ({', '.join(parts)})" if parts else str(model.requests)


def batch_note(work: BatchWork) -> str:
    """What became of the lines of batches since the server started."""
    ends = [f"{count:,} {what}" for count, what in ((work.failed, "failed"), (work.unsent, "not sent")) if count]
    batches = f"{work.running} batch{'' if work.running == 1 else 'es'} under way"
    return f"{batches}; lines: {', '.join([f'{work.answered:,} answered', *ends])}"


def media_note(model: Process) -> str:
    """What it reads, the memory for that, and what was encoded so far."""
    memory, done = size(model.media_bytes or 0), model.media or MediaStatus()
    said = [f"{memory} are {'in use' if done.is_running else 'reserved for that, and used from the first one on'}"]
    encoded = [counted(each, name) for each, name in ((done.pictures, "picture"), (done.sounds, "sound")) if each]
    if encoded:
        seconds = f"{done.encode_s:.3g} s" if done.encode_s < 60 else duration(done.encode_s)
        said.append(f"{' and '.join(encoded)} encoded in {seconds} ({counted(done.encoded_rows, 'token')})")
    if cached := done.memory_rows + done.disk_rows:
        said.append(f"{counted(cached, 'token')} from the cache")
    if done.restarts:
        said.append(f"encoder restarted: {done.restarts}")
    return f"{model.model} reads {', '.join(model.reads or ['pictures'])}: {'; '.join(said)}"


def adapter_note(model: Process, adapters: AdapterStatus) -> str:
    """How many adapters are loaded, their memory and its limit, and how often the set in force changed."""
    said = f"{counted(adapters.loaded, 'adapter')} loaded ({size(adapters.loaded_bytes)} of at most "
    said += f"{size(adapters.limit_bytes)}), {counted(adapters.switches, 'change')} of the set in force"
    return f"{model.model}: {said}" + (f", {adapters.evictions} freed for others" if adapters.evictions else "")


def _set(model: Process) -> str:
    """The names of the settings that apply to this model only."""
    return "" if isinstance(model.settings, msgspec.UnsetType) else ", ".join(model.settings)


def stop_models(settings: Settings, names: list[str], *, every: bool) -> int:
    """Unload models. Raises `ServerGone`, `ModelNotFound`."""
    with server_of(settings) as client:
        for name in [model.model for model in client.processes()] if every else names:
            client.unload(name)
            report.say(f"localllm: unloaded {name}")
    return report.OK
