"""`python -m localllm.worker`: see `process.py`."""

import gc
import os

gc.set_threshold(50_000, 20, 20)  # imports leave no garbage
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start a thread for each core, and nothing uses them

from localllm.worker.process import main  # noqa: E402

main()
