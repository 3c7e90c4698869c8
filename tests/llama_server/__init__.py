"""llama-server's own test suite (tools/server/tests of llama.cpp), run against `localllm serve`.

`LOCALLLM_LLAMA_SERVER_TESTS` names its folder; `python -m tests.llama_server unit/test_basic.py -k props` runs some.
"""
