"""A self-test child that really misbehaves: `python bad_selftest_child.py PLAN.json`. No test; test_selftest runs it.

The plan says what the survey answers and, by the label of the choice, what each candidate does. Every question is
counted by a line in PLAN.json.log.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    plan_path = Path(sys.argv[1])
    plan = json.loads(plan_path.read_text())
    request = json.loads(sys.stdin.buffer.read())
    choice = request.get("choice")
    label = "survey"
    if choice is not None:
        label = (choice["variant"] or "linked-in") + ("" if choice["extra_bufts"] else "-safe")
    with open(f"{plan_path}.log", "a") as file:
        file.write(f"{label} {os.getpid()}\n")
    deed = plan["deeds"].get(label, "ok" if choice else "survey")
    if deed.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[deed])
    elif deed == "hang":
        time.sleep(600)
    elif deed == "garbage":
        print("ggml: hello, stdout!")
    elif deed == "exit 3":
        print("no such library", file=sys.stderr)
        sys.exit(3)
    elif deed == "survey":
        print(json.dumps(plan["survey"]))
    elif deed == "error":
        print(json.dumps({"error": "llama_decode returned -3"}))
    else:
        speed = float(deed.partition(" ")[2] or 100)
        greedy = plan["greedy"]
        if deed == "wrong":
            greedy = [greedy[0] + 1, *greedy[1:]]
        print(json.dumps({"greedy": greedy, "prefill_tokens_per_s": speed, "decode_tokens_per_s": speed}))


if __name__ == "__main__":
    main()
