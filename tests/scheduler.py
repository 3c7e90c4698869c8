"""Which process of `pytest -n 2` runs what."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist is not typed
    """A file's tests share servers and models, so they stay in one process. The order is that of the names: by default,
    files of few tests come last, which are the longest, and one process would wait for the other."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def remove_node(self, node: Any) -> str | None:
        """A test that ends its process fails once. xdist's own method, which this replaces, lets the next process begin
        with the same test, and end as well, and so on: one that hung took nine times `faulthandler_timeout`."""
        files = self.assigned_work.pop(node)
        left = [(file, test) for file, tests in files.items() for test, is_over in tests.items() if not is_over]
        if not left:
            return None
        file, ended_in = left[0]
        files[file][ended_in] = True
        self.workqueue.update({file: tests for file, tests in files.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return str(ended_in)
