"""Files and batches of OpenAI's API, and Anthropic's message batches, in front of `localllm.batches`.

Here: the endpoints, multipart uploads, the queue of batches, and requests to the own application without a socket. Not
here: what is on disk and how a batch is gone on with (`localllm.batches`). Begin with `service.py`.
"""
