"""The body of `localllm deploy`. Knows no format."""

from __future__ import annotations

from pathlib import Path

from localllm.cli.deploy.files import Wanted, files_of
from localllm.cli.shared import report
from localllm.errors import InvalidParameter


def deploy(kind: str, wanted: Wanted, folder: Path | None) -> int:
    """Print the files of this kind, or write them into the folder. Raises `InvalidParameter`."""
    files = files_of(kind, wanted)
    if folder is None:
        for name, text in files.items():
            if len(files) > 1:
                report.write(f"# ---- {name}")
            report.write(text.rstrip("\n"))
        return report.OK
    folder.mkdir(parents=True, exist_ok=True)
    for name in files:
        if (folder / name).exists():
            raise InvalidParameter(f"{folder / name} exists; move it away, or choose another --out", param="out")
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
        report.say(f"wrote {folder / name}")
    return report.OK
