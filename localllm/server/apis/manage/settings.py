"""`POST /localllm/settings`: shows and changes the settings of one model in `config.toml`, as `localllm set` does.

Replies never contain paths of the server, and requests cannot set any.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import InvalidParameter, ModelNotFound
from localllm.runtime import changed_settings, effective_settings
from localllm.server.edge.callers import caller_of
from localllm.server.requests.body import json_response
from localllm.server.requests.field_rules import known
from localllm.server.requests.reading import read
from localllm.settings import config, sections
from localllm.settings.config import Settings
from localllm.settings.load_settings import LOADING
from localllm.settings.sections import DECLARED
from localllm.types import wire as body

WITHOUT_RELOAD = ("aliases",)
"""Settings that take effect immediately; all others are read when a model is loaded."""
MAX_VALUE_CHARS = 200_000
"""Maximum length of a value, such as a system message or a template."""


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [Route("/localllm/settings", settings, methods=["POST"])]


async def settings(request: Request) -> Response:
    """`POST /localllm/settings`."""
    caller_of(request).check_may("see or change the settings of models")
    state, asked, headers = await read(request, known(body.SettingsRequest))
    model = state.aliased(asked.model)
    if not effective_settings.is_name(model) or sections.is_pattern(model):
        raise ModelNotFound(
            f"{asked.model[:200]!r} is not the name of a model; to change the settings of a pattern, use localllm set",
            param="model",
        )
    changes = {key.replace("-", "_"): value for key, value in asked.settings.items()}
    has_changed = await state.listing.run(_change, state.settings, model, changes) if changes else False
    id = await state.listing.run(effective_settings.section_name, state.settings, model)
    is_loaded = state.loaded(id) is not None
    answer = body.ModelSettings(
        model=id,
        settings=await state.listing.run(_rows, state.settings, id, model),
        needs_reload=has_changed and is_loaded and bool({*changes} - {*WITHOUT_RELOAD}),
    )
    return json_response(answer, headers)


def _change(settings: Settings, model: str, asked: dict[str, Any]) -> bool:
    """Apply all changes or none; returns whether any value differs now. Raises `InvalidParameter`."""
    id = effective_settings.section_name(settings, model)
    changes = {key: _value(key, value) for key, value in asked.items()}
    path = config.config_file(settings.home)
    return changed_settings.change_file(path, id, changes, path.name)


def _value(key: str, value: Any) -> Any:
    """The value to write to the file; None removes the setting. Raises `InvalidParameter`."""
    changed_settings.check_key(key)
    size = sum(len(str(each)) for each in (value if isinstance(value, list) else [value]))
    if size > MAX_VALUE_CHARS:
        raise InvalidParameter(f"{key} has {size:,} characters; at most {MAX_VALUE_CHARS:,} are allowed", param=key)
    if value is not None:
        changed_settings.check_from_network(key, value)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return changed_settings.typed_value(key, value, "settings")
    is_list = isinstance(value, list) and all(isinstance(each, str | int | float) for each in value)
    if not is_list and not isinstance(value, bool | int | float):
        raise InvalidParameter(f"{key} must be a string, a number, a boolean, or an array of these", param=key)
    return value


def _rows(settings: Settings, id: str, model: str) -> list[body.ModelSetting]:
    held = {row.key: row for row in effective_settings.shown(settings, id, model)}
    defaults = effective_settings.defaults(settings, id, model)
    where = str(config.config_file(settings.home))
    rows = []
    for key, field in DECLARED.items():
        row = held.get(key, effective_settings.EffectiveValue(key, None, "default"))
        rows.append(
            body.ModelSetting(
                key=key,
                text=field.setting.text,
                kind=field.kind,
                choices=list(field.choices),
                minimum=field.setting.low,
                maximum=field.setting.high,
                value=_public_value(key, row.value),
                default=_public_value(key, defaults.get(key)),
                source="config.toml" if row.source == where else row.source,
                own=row.is_own,
                loading=key in LOADING or key == "keep_alive",
                fixed=_why_fixed(settings, key, row.value),
            )
        )
    return rows


def _why_fixed(settings: Settings, key: str, value: Any) -> str | None:
    if settings.is_given(effective_settings.field_of(key)):
        return f"the server was started with {settings.source(effective_settings.field_of(key))}"
    try:
        changed_settings.check_from_network(key, value)
    except InvalidParameter as error:
        return error.message
    return None


def _public_value(key: str, value: Any) -> Any:
    """The value without the path of a file on the server: only its name."""
    if key in ("chat_template", "draft", "mmproj") and isinstance(value, str):
        try:
            changed_settings.check_from_network(key, value)
        except InvalidParameter:
            return Path(value).name
    return value
