"""`GET /props` and llama-server's other endpoints about its model, with those about its adapters."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm import __version__
from localllm.errors import InvalidParameter, ModelNotFound
from localllm.server.answers import catalog
from localllm.server.edge.callers import caller_of
from localllm.server.errors import FeatureDisabled, NotServed
from localllm.server.requests.body import json_response, read_json
from localllm.server.requests.marked_prompts import MARKER
from localllm.server.requests.parse import utf_8
from localllm.server.state import ServerState
from localllm.types import DrySampling, LoadedModel, MediaKind, ModelInfo, NumberedAdapter

BUILD = f"b0-localllm-{__version__}"
"""llama-server's build info begins with `b` and a number."""


class Success(msgspec.Struct, frozen=True):
    success: bool = True


class Settings(msgspec.Struct, frozen=True):
    """The defaults for requests."""

    params: dict[str, Any]
    n_ctx: int


class Props(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /props` for one model."""

    default_generation_settings: Settings
    total_slots: int
    model_alias: str
    model_ftype: str | None
    model_path: str
    """Only the file name, not its path."""
    modalities: dict[str, bool]
    media_marker: str = MARKER
    """Stands in a prompt for each of its `multimodal_data`; another one each time the server is started."""
    endpoint_slots: bool = True
    endpoint_props: bool = False
    endpoint_metrics: bool = True
    ui: bool = False
    chat_template: str
    chat_template_tool_use: str | UnsetType = UNSET
    chat_template_caps: dict[str, bool]
    bos_token: str
    eos_token: str
    build_info: str = BUILD
    is_sleeping: bool = False
    """Whether it is not loaded; the next request loads it. Then what only a load decides is that of the last load of
    the same file; if there was none, it is 0 or empty, as in `RouterProps`."""
    cors_proxy_enabled: bool = False


class RouterProps(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /props` without a model name, unless exactly one is loaded."""

    role: str = "router"
    max_instances: int
    models_autoload: bool = True
    model_alias: str = "localllm"
    model_path: str = "none"
    default_generation_settings: Settings = Settings({}, 0)
    build_info: str = BUILD
    ui: bool = False
    cors_proxy_enabled: bool = False


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [
        Route("/props", get_props),
        Route("/props", set_props, methods=["POST"]),
        Route("/lora-adapters", get_adapters),
        Route("/lora-adapters", set_adapters, methods=["POST"]),
        Route("/cors-proxy", refuse_proxy, methods=["GET", "POST"]),
    ]


async def get_props(request: Request) -> Response:
    """`GET /props`: the model in `?model=`, or the only one loaded."""
    state: ServerState = request.app.state.server
    asked = request.query_params.get("model")
    state.check_ready()
    try:
        id = await state.model_id(asked)
    except ModelNotFound:
        return json_response(RouterProps(max_instances=state.settings.max_loaded_models))
    loaded = state.loaded(id)
    if loaded is not None:
        return json_response(props_of(loaded.id, loaded.info, loaded, loaded.reads, is_sleeping=False))
    found = await catalog.entry(state, id)
    if found is None:
        raise await catalog.missing(state, id)
    if found.info is None:
        raise ModelNotFound(f"{found.id} is not loaded, and its file cannot be read now", param="model")
    last = state.metrics.known.get(found.id)  # without names of tensors
    is_same = last is not None and last.info == msgspec.structs.replace(found.info, tensors=last.info.tensors)
    return json_response(props_of(found.id, found.info, last if is_same else None, found.reads, is_sleeping=True))


def props_of(
    id: str, info: ModelInfo, loaded: LoadedModel | None, reads: Collection[MediaKind], *, is_sleeping: bool
) -> Props:
    """The properties of a model, by its file as it is now and by its load, or the last one."""
    templates, chats = info.chat_templates, "default" in info.chat_templates
    return Props(
        default_generation_settings=Settings({}, 0) if loaded is None else Settings(_params(loaded), loaded.ctx),
        total_slots=0 if loaded is None else loaded.slots,
        model_alias=id,
        model_ftype=info.file_type,
        model_path=f"{id.replace('/', '_').replace(':', '_')}.gguf",
        modalities={"vision": "image" in reads, "video": "video" in reads, "audio": "audio" in reads},
        chat_template=templates.get("default", ""),
        chat_template_tool_use=templates.get("tool_use", UNSET),
        # Messages are adapted to each template, so all of this works with any.
        chat_template_caps=dict.fromkeys(
            ("supports_tools", "supports_tool_calls", "supports_parallel_tool_calls", "supports_system_role"), chats
        ),
        bos_token="" if loaded is None else loaded.bos_text,
        eos_token="" if loaded is None else loaded.eos_text,
        is_sleeping=is_sleeping,
    )


def _params(model: LoadedModel) -> dict[str, Any]:
    sampling, defaults = model.sampling, model.defaults
    dry = sampling.dry or DrySampling(multiplier=0.0)
    limit = -1 if defaults.max_tokens is None else defaults.max_tokens
    names = [name for name in sampling.__struct_fields__ if name not in ("dry", "logit_bias", "seed")]
    return {
        "seed": -1 if defaults.seed is None else defaults.seed,
        **{name: getattr(sampling, name) for name in names},
        **{f"dry_{name}": getattr(dry, name) for name in dry.__struct_fields__ if name != "sequence_breakers"},
        "max_tokens": limit,
        "n_predict": limit,
        "stop": list(defaults.stop),
        "ignore_eos": defaults.ignore_eos,
        "stream": False,
        "n_probs": 0,
        "lora": [],
    }


async def set_props(_: Request) -> Response:
    """`POST /props`: refused, as by a llama-server without `--props`."""
    raise NotServed("set a model's default parameters with localllm set, or in a Modelfile with localllm create")


class AdapterEntry(msgspec.Struct, frozen=True):
    """One adapter of a model, in llama-server's format."""

    id: int
    path: str
    """Its name: where files lie is nobody's business."""
    scale: float
    """Its strength in requests that name no adapters; 0: it is not applied."""
    task_name: str = ""
    prompt_prefix: str = ""
    alora_invocation_tokens: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """Of an activated adapter: the tokens from which on it works."""


async def get_adapters(request: Request) -> Response:
    """`GET /lora-adapters`: those of the model in `?model=`, or of the only one loaded."""
    state: ServerState = request.app.state.server
    base, names = await _base(request), state.runtime.adapters
    known = [] if base is None else names.of(base)
    entries = [
        AdapterEntry(
            number,
            each.name,
            names.default_scale(base or "", each),
            alora_invocation_tokens=each.invocation or msgspec.UNSET,
        )
        for number, each in enumerate(known)
    ]
    return Response(msgspec.json.encode(entries), media_type="application/json")


async def set_adapters(request: Request) -> Response:
    """`POST /lora-adapters`: strengths for requests that name no adapters, of all users; those left out get 0."""
    state: ServerState = request.app.state.server
    body = utf_8(await read_json(request, state.settings.max_body_bytes))
    try:
        asked = msgspec.json.decode(body, type=list[NumberedAdapter])
    except msgspec.DecodeError as error:
        raise InvalidParameter(f"the body must be an array of adapters, each with id and scale: {error}") from error
    caller_of(request).check_may("set the adapters of a model")
    base = await _base(request)
    if base is None and asked:
        raise ModelNotFound("no model is loaded; name one with ?model=", param="model")
    if base is not None:
        state.runtime.adapters.set_defaults(base, asked)
    return json_response(Success())


async def _base(request: Request) -> str | None:
    """The model that is meant, without adapters; None: none is loaded."""
    state: ServerState = request.app.state.server
    try:
        model = await state.model_id(request.query_params.get("model"))
    except ModelNotFound:
        return None
    loaded = state.loaded(model)
    return state.runtime.adapters.base(model) if loaded is None else loaded.id


async def refuse_proxy(_: Request) -> Response:
    """`/cors-proxy`: refused, since it would fetch any URL from inside this network."""
    raise FeatureDisabled("this server does not fetch URLs for web pages")
