"""The options of commands that download: their names, types and help. Each is the setting of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

HubEndpoint = Annotated[
    str | None, Option("--hub-endpoint", metavar="URL", help="A mirror of Hugging Face [default: HF_ENDPOINT, or it]")
]
InsecureRegistries = Annotated[
    str | None, Option("--insecure-registries", metavar="HOSTS", help="Registries without TLS, comma-separated")
]
Proxy = Annotated[str | None, Option("--proxy", metavar="URL", help="For downloads [default: HTTPS_PROXY and its kin]")]
CaFile = Annotated[Path | None, Option("--ca-file", metavar="FILE", help="PEM: more authorities for downloads")]
DownloadConnections = Annotated[
    int | None, Option("--download-connections", metavar="N", help="At a time, for one pull [default: 8]")
]
DownloadPatience = Annotated[
    float | None,
    Option("--download-patience-s", metavar="S", help="Give up a download that gets nothing so long [default: 600]"),
]
MaxDownload = Annotated[
    int | None, Option("--max-download-kb-per-s", metavar="KIB", help="Bandwidth of one pull; 0: all [default: 0]")
]
AllowPrivate = Annotated[
    bool | None,
    Option("--allow-private-downloads", help="Redirects may lead to private addresses"),
]
