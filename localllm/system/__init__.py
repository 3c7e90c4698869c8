"""The operating system: processes, memory, CPU, files, folders, terminals, threads.

Every branch on the platform stands here and nowhere else; mypy checks this room for linux, darwin and win32.
Knows nothing of models. Begin with `processes`."""
