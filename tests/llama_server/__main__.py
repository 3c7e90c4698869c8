"""`python -m tests.llama_server [pytest's arguments]`: run some of the suite, and say what is not as expected."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.llama_server.suite import LOCATION, expected, run


def main() -> int:
    """0: every test ended as expected."""
    folder = Path(os.environ.get("LOCALLLM_SUITE_FOLDER") or tempfile.mkdtemp())
    results = run(Path(os.environ[LOCATION]), folder, sys.argv[1:])
    reasons = expected()
    failed = {test: found["words"] for test, found in results.items() if found["outcome"] == "failed"}
    passed = [test for test, found in results.items() if found["outcome"] == "passed"]
    unexpected = {test: words for test, words in failed.items() if test not in reasons}
    for test, words in unexpected.items():
        print(f"NOT PASSING {test}\n    {' '.join(words.split())[:300]}")
    for test in passed:
        if test in reasons:
            print(f"PASSES BY NOW, LISTED IN expected.toml: {test}")
    skipped = len(results) - len(passed) - len(failed)
    print(f"{len(passed)} pass, {len(failed)} do not ({len(failed) - len(unexpected)} listed), {skipped} skipped")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
