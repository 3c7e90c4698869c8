"""The options that say what of a model goes where, and how it is read: their names, types and help."""

from __future__ import annotations

from typing import Annotated

from typer import Option

Split = Annotated[
    str | None, Option("--split", metavar="layer|row|tensor|none", help="Over several devices [default: layer]")
]
MainGpu = Annotated[
    str | None, Option("--main-gpu", metavar="N|NAME", help="The device for --split none, or row's undivided parts")
]
TensorSplit = Annotated[
    str | None, Option("--tensor-split", metavar="N,N", help="Shares of the devices [default: by their free memory]")
]
OverrideTensor = Annotated[
    str | None, Option("--override-tensor", metavar="PATTERN=DEVICE", help="Where tensors go, comma-separated")
]
Mmap = Annotated[
    bool | None, Option("--mmap/--no-mmap", help="Map the file, or read it [default: map it where devices can]")
]
Mlock = Annotated[bool | None, Option("--mlock", help="Never swap the weights out; an error where that is forbidden")]
DirectIo = Annotated[bool | None, Option("--direct-io", help="Read the file past the system's cache (Linux)")]
Numa = Annotated[
    str | None, Option("--numa", metavar="distribute|isolate|numactl", help="Threads over several memory nodes")
]
