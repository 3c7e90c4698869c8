import sys

sys.dont_write_bytecode = False  # else each process of each test run compiles all tests and localllm again
