"""Names, options and help of `localllm embed`. Its body is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from localllm.cli import options as opt


def embed(
    model: opt.Model,
    texts: Annotated[list[str] | None, Argument(metavar="TEXT...", help="None: one a line, from stdin")] = None,
    file: Annotated[
        Path | None, Option("--file", "-f", metavar="FILE", help="One text a line, instead of arguments; - reads stdin")
    ] = None,
    query: Annotated[
        str | None,
        Option(
            "--query",
            metavar="TEXT",
            help="Rank the texts by how well they answer this; with a model that only embeds, by cosine",
        ),
    ] = None,
    dimensions: Annotated[
        int | None, Option("--dimensions", metavar="N", help="Only the first N of each vector")
    ] = None,
    no_normalize: Annotated[bool, Option("--no-normalize", help="Vectors of any length, not of length 1")] = False,
    truncate: Annotated[bool, Option("--truncate", help="Cut what is too long, and say so")] = False,
    as_json: opt.AsJson = False,
    npy: Annotated[Path | None, Option("--npy", metavar="FILE", help="Write a NumPy array, a row a text")] = None,
    pooling: opt.Pooling = None,
    embedding_ctx: opt.EmbeddingCtx = None,
    threads: opt.Threads = None,
    gpu_layers: opt.GpuLayers = None,
    device: opt.Device = None,
    runtime: opt.Runtime = None,
    rpc: opt.Rpc = None,
    plugin_dir: opt.PluginDir = None,
    home: opt.Home = None,
    verbose: opt.Verbose = None,
) -> None:
    """Turn texts into vectors, a JSON array a line, or rank them by a query."""
    given = dict(locals())
    loading = (
        "pooling",
        "embedding_ctx",
        "threads",
        "gpu_layers",
        "device",
        "runtime",
        "rpc",
        "plugin_dir",
        "home",
        "verbose",
    )
    load = {name: given.pop(name) for name in loading}
    from localllm.cli.embed import EmbedOptions, embed_texts

    raise Exit(embed_texts(EmbedOptions(**given, load=load)))
