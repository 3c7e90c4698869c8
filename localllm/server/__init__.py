"""HTTP and nothing else: one package per API, the gate before them, errors, log. Never imports llama_cpp.

APIs do not know each other; what they share is in `common/`. `described/` lists all endpoints, for documents and
tests. Begin with `app` and one API, such as `apis/openai/`.

A request here: `edge/` limits connections; `edge/gate` checks Host, Origin and key, `edge/limits` and `edge/callers`
apply the key's limits. `common/parse` turns JSON into the types of an API's `requests`; each field is honoured,
refused by name or listed as having no effect (`common/field_rules`). A request that can never fit is refused here.
`n` answers become `n` requests that share their prefill; `common/choices` merges them. `common/generation` identifies
the caller, finds the model and later ends the answer; `common/story` streams it in the API's events, with comments
while there is nothing to send. If the client disconnects or stops reading, a cancel frees the slot by the next step.
`errors` is the one place that picks a status; `watching/metrics` counts how requests ended.
"""
