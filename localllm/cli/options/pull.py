"""The options of commands that download: names, types and help. Each is named like its setting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

HubEndpoint = Annotated[
    str | None,
    Option("--hub-endpoint", metavar="URL", help="Mirror of Hugging Face [default: HF_ENDPOINT, or huggingface.co]"),
]
InsecureRegistries = Annotated[
    str | None, Option("--insecure-registries", metavar="HOSTS", help="Registries without TLS, comma-separated")
]
Proxy = Annotated[str | None, Option("--proxy", metavar="URL", help="Proxy for downloads [default: HTTPS_PROXY etc.]")]
CaFile = Annotated[Path | None, Option("--ca-file", metavar="FILE", help="PEM file with additional CA certificates")]
DownloadConnections = Annotated[
    int | None, Option("--download-connections", metavar="N", help="Parallel connections per pull [default: 8]")
]
DownloadPatience = Annotated[
    float | None,
    Option("--download-patience-s", metavar="S", help="Give up after so long without progress [default: 600]"),
]
MaxDownload = Annotated[
    int | None, Option("--max-download-kb-per-s", metavar="kB", help="Bandwidth limit per pull; 0: none [default: 0]")
]
AllowPrivate = Annotated[
    bool | None,
    Option("--allow-private-downloads", help="Allow redirects to private addresses"),
]
