"""`localllm launch`: runs a coding agent on a local model, and undoes its changes afterwards. The page in a window.

How each agent is configured is in `localllm/launch`; this room finds the server and owns the agent's process. Begin
with `agent`.
"""
