"""Arguments and options that several commands share, and that are no settings (`cli.options.settings`)."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

NAMES = "A name (see list and search), a path, or demo: the tiny bundled model"
MODEL = Argument(metavar="MODEL", help=NAMES)
MODELS = Argument(metavar="MODEL...", help="Loaded at startup; the first is the default for requests without a model")
Model = Annotated[str, MODEL]
AsJson = Annotated[bool, Option("--json", help="Print JSON")]
