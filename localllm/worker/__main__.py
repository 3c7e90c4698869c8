"""`python -m localllm.worker`: see `process.py`."""

import gc

gc.set_threshold(50_000, 20, 20)  # imports leave no garbage

from localllm.worker.process import main  # noqa: E402

main()
