"""The options for placing a model on devices and for reading its file: names, types and help."""

from __future__ import annotations

from typing import Annotated

from typer import Option

Split = Annotated[
    str | None,
    Option("--split", metavar="layer|row|tensor|none", help="How to split a model over devices [default: layer]"),
]
MainGpu = Annotated[
    str | None, Option("--main-gpu", metavar="N|NAME", help="Device for --split none, and for the unsplit parts of row")
]
TensorSplit = Annotated[
    str | None, Option("--tensor-split", metavar="N,N", help="Share of each device [default: by free memory]")
]
OverrideTensor = Annotated[
    str | None,
    Option("--override-tensor", metavar="PATTERN=DEVICE", help="Devices for matching tensors, comma-separated"),
]
Mmap = Annotated[
    bool | None, Option("--mmap/--no-mmap", help="Memory-map the file, or read it [default: map where devices can]")
]
Mlock = Annotated[bool | None, Option("--mlock", help="Lock the weights in RAM; fails if the system forbids it")]
DirectIo = Annotated[bool | None, Option("--direct-io", help="Read the file bypassing the page cache (Linux)")]
Numa = Annotated[
    str | None, Option("--numa", metavar="distribute|isolate|numactl", help="Thread placement on NUMA machines")
]
