"""The way to the network that this user's settings allow. Knows nothing of what is fetched."""

from __future__ import annotations

import os

from localllm.errors import PullFailed
from localllm.registry.fetch.net import Net, NetOptions
from localllm.settings.config import Settings


def net_of(settings: Settings) -> Net:
    """Close it at the end."""
    return Net(
        NetOptions(
            proxy=settings.proxy,
            ca_file=settings.ca_file,
            max_bytes_per_s=settings.max_download_kb_per_s * 1000 or None,
            allow_private_hosts=settings.allow_private_downloads,
            patience_s=settings.download_patience_s,
        )
    )


def check_online() -> None:
    """Raises `PullFailed` if HF_HUB_OFFLINE, which Hugging Face's own tools obey too, forbids requests."""
    if os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in ("1", "ON", "YES", "TRUE"):
        raise PullFailed("HF_HUB_OFFLINE is set, so Hugging Face is not contacted; unset it to download from there")
