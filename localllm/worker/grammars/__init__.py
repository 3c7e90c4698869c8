"""From a request's structure to a compiled constraint; reading it happens in a process that can be killed.

How a structure becomes a grammar is in `localllm/grammar`; masks are computed in `engine/constraint`. Begin with
`constraints`.
"""
