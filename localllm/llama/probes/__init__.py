"""Examines this machine and its libraries: self-test, flash attention, speed of the CPU, `doctor`.

What may crash runs in child processes (`*_child`). Begin with `selftest`."""
