"""Prints `docs/settings.md`: every setting, from its declaration. Knows no setting.

python -m localllm.settings.reference > localllm/docs/settings.md
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

from localllm.settings.config import SETTINGS
from localllm.settings.sections import DECLARED
from localllm.types.declared import GROUPS, Declared

HEAD = """\
# Settings

Made from the declarations by `python -m localllm.settings.reference`; not edited by hand.

A setting `x_y` is `x_y = ...` in `config.toml` (in the user's configuration directory, or in the folder that
`LOCALLLM_HOME` names), `LOCALLLM_X_Y` in the environment, and `--x-y` on the command line; the last wins.
`localllm serve --help` shows the usual ones, `--help-all` all of them; other commands take those that concern them.

A setting for one model is written by `localllm set MODEL KEY=VALUE`, by the page (Models, Settings), or by hand into a
section such as `[models."qwen3:0.6b"]` or `[models."qwen3:*"]` of `config.toml`. It wins over everything but the
command line. The last column says whether there is one: *yes*; *no file over HTTP*: clients may give a name or a text,
not a path; *not over HTTP*: only on the server's own machine; *only*: there is no such setting for all models.
"""
_FOR_ONE_MODEL = {"clients": "yes", "names": "yes, no file over HTTP", "machine": "yes, not over HTTP"}


def reference() -> str:
    """The whole page."""
    every = {**SETTINGS, **DECLARED}
    groups = ((group, [field for field in every.values() if field.setting.group == group]) for group in GROUPS)
    return HEAD + "".join(f"\n## {group}\n\n" + "".join(_table(fields)) for group, fields in groups)


def _table(fields: list[Declared]) -> Iterator[str]:
    yield "| setting | takes | default | | for one model |\n|---|---|---|---|---|\n"
    for field in fields:
        cells = f"`{field.name}`", _takes(field), _default(field), _text(field), _for_one_model(field)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _takes(field: Declared) -> str:
    if field.kind == "boolean":
        return "true, false"
    return ", ".join(filter(None, (*field.choices, "" if field.choices else field.unit, field.range)))


def _default(field: Declared) -> str:
    is_word = field.setting.default or not isinstance(field.value, bool)
    return field.default if is_word else str(field.value).lower()


def _text(field: Declared) -> str:
    setting = field.setting
    where = "Not on the command line, where others could see it." if setting.who == "environment" else ""
    return " ".join(filter(None, (f"{setting.text}.", setting.more, where)))


def _for_one_model(field: Declared) -> str:
    if field.name not in DECLARED:
        return ""
    return _FOR_ONE_MODEL[field.setting.who] if field.name in SETTINGS else "only"


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.write(reference())
