"""Real stores of other programs, built file by file as those programs lay them out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.models.builder import Builder

MEDIA = "application/vnd.ollama.image."


class OllamaStore:
    """`~/.ollama/models`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "blobs").mkdir(parents=True)
        (root / "manifests").mkdir()

    def blob(self, content: bytes) -> str:
        """Stores a content and gives its digest."""
        digest = hashlib.sha256(content).hexdigest()
        self.blob_path(f"sha256:{digest}").write_bytes(content)
        return f"sha256:{digest}"

    def blob_path(self, digest: str) -> Path:
        return self.root / "blobs" / digest.replace(":", "-")

    def layer(self, kind: str, content: bytes) -> dict[str, Any]:
        return {"mediaType": MEDIA + kind, "digest": self.blob(content), "size": len(content)}

    def manifest(self, name: str, content: object) -> Path:
        """`name` is HOST/NAMESPACE/MODEL/TAG; `content` is written as JSON, or as it is if it is bytes."""
        path = self.root / "manifests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    def add(self, name: str, model: Path, **texts: Any) -> str:
        """A model with its small layers; gives the digest of the model's file."""
        layer = self.layer("model", model.read_bytes())
        layers = [layer]
        for kind, text in texts.items():
            content = (
                text
                if isinstance(text, bytes)
                else text.encode()
                if isinstance(text, str)
                else json.dumps(text).encode()
            )
            layers.append(self.layer(kind, content))
        self.manifest(name, {"schemaVersion": 2, "config": self.layer("config", b"{}"), "layers": layers})
        return str(layer["digest"])


class HubCache:
    """`~/.cache/huggingface/hub`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)

    def add(self, repo: str, commit: str, files: dict[str, Path], *, main: bool = True, link: bool = True) -> Path:
        """Files of one snapshot by their paths in the repository; gives the snapshot's folder."""
        folder = self.root / f"models--{repo.replace('/', '--')}"
        snapshot = folder / "snapshots" / commit
        blobs = folder / "blobs"
        blobs.mkdir(parents=True, exist_ok=True)
        for name, source in files.items():
            content = source.read_bytes()
            place = snapshot / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if link:
                blob = blobs / hashlib.sha256(content).hexdigest()
                blob.write_bytes(content)
                place.symlink_to(blob)
            else:
                place.write_bytes(content)
        if main:
            (folder / "refs").mkdir(exist_ok=True)
            (folder / "refs" / "main").write_text(commit)
        return snapshot


def write_projector(path: Path) -> Path:
    """A header that says that it is a projector, and one tensor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Builder(path, "clip") as model:
        model.key("general.type", "mmproj")
        model.matrix("mm.0.weight", 32, 32)
    return path


def write_adapter(path: Path) -> Path:
    """A LoRA adapter."""
    with Builder(path, "llama") as model:
        model.key("general.type", "adapter")
        model.key("adapter.type", "lora")
        model.matrix("blk.0.attn_q.weight.lora_a", 32, 32)
    return path


def write_fused(path: Path) -> Path:
    """A model with its projector's tensors in the same file, as Ollama converts them."""
    with Builder(path, "gemma3") as model:
        model.matrix("token_embd.weight", 32, 32)
        model.matrix("v.blk.0.attn_q.weight", 32, 32)
    return path


def write_unknown(path: Path) -> Path:
    """A model of an architecture that llama.cpp does not know."""
    with Builder(path, "narwhal") as model:
        for key, value in (("block_count", 1), ("context_length", 64), ("embedding_length", 32)):
            model.key(f"narwhal.{key}", value)
        model.key("narwhal.attention.head_count", 2)
        model.matrix("token_embd.weight", 32, 32)
        model.matrix("blk.0.attn_q.weight", 32, 32)
    return path
