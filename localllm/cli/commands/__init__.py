"""The body of each command, imported when the command runs; those about the models of this machine in `store/`.

Declares no options (`cli/options`) and implements nothing itself: calls a client, the registry or a child process,
and writes data to stdout, messages to stderr. Begin with `run`.
"""
