"""Lives of worker processes: which models are loaded, on which device, and which must make room.

Knows no HTTP and no contents of requests. `supervisor` chooses what to load and unload (`eviction`), `managed` keeps
one model loaded, `session` is one life of one worker, `pending` one request. `planning/` decides what a load needs.
Begin with `session`.

A request here: the supervisor loads its model if needed; requests wait meanwhile. A session sends `Submit`, unless
too many wait: then the request is refused in the parent. Frames from the worker go to one mailbox per request, merged
for slow readers. A worker that dies, hangs or is deaf is ended with its reason, its requests without output are
retried once, alone (`retries`), and it is started again: immediately, then with pauses.
"""
