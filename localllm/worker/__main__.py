"""`python -m localllm.worker`: see `process.py`."""

from localllm.worker.process import main

main()
