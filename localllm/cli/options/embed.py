"""Options and help of `localllm embed`. The body is imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from localllm.cli.options import common as opt
from localllm.cli.options.settings import COMMON, takes


@takes(f"pooling embedding_ctx threads gpu_layers device {COMMON}", "runtime rpc plugin_dir")
def embed(
    model: opt.Model,
    texts: Annotated[list[str] | None, Argument(metavar="TEXT...", help="Without them: stdin, one per line")] = None,
    file: Annotated[
        Path | None, Option("--file", "-f", metavar="FILE", help="Read texts from FILE, one per line; - reads stdin")
    ] = None,
    query: Annotated[
        str | None,
        Option(
            "--query",
            metavar="TEXT",
            help="Rank the texts by relevance to this query; models without reranking use cosine similarity",
        ),
    ] = None,
    dimensions: Annotated[
        int | None, Option("--dimensions", metavar="N", help="Keep only the first N dimensions")
    ] = None,
    no_normalize: Annotated[bool, Option("--no-normalize", help="Do not scale vectors to length 1")] = False,
    truncate: Annotated[bool, Option("--truncate", help="Truncate texts that are too long, with a warning")] = False,
    as_json: opt.AsJson = False,
    npy: Annotated[Path | None, Option("--npy", metavar="FILE", help="Write a NumPy array, one row per text")] = None,
    **settings: Any,
) -> None:
    """Embed texts (one JSON array per line), or rank them by a query."""
    own = {name: value for name, value in locals().items() if name != "settings"}
    from localllm.cli.commands.embed import EmbedOptions, embed_texts

    raise Exit(embed_texts(EmbedOptions(**own, load=settings)))
