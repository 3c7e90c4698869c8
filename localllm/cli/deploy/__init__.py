"""`localllm deploy`: files that run servers under service managers, in containers and behind gateways.

Here they are filled in and printed; the templates are in `localllm/data/deploy`. Nothing is started or installed. Begin
with `files`.
"""
