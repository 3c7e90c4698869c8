"""Asks for a document of each of many public schemas, and says which are valid, invalid, unfinished or refused.

    python -m benchmarks.structure_corpus FOLDER RESULTS [--model demo] [--each 50] [--seed 7] [--max-tokens 1500]

FOLDER has a folder of schemas (`*.json`) for each part of the corpus, of which `--each` are chosen by the seed. The
parts behind benchmarks/log/structure.md are those of JSONSchemaBench (`data/` of guidance-ai/jsonschemabench) and the
schemas that check-jsonschema ships. RESULTS gets a line of JSON for each schema; what is in it is not asked again, so
that a run can be continued, and single schemas repeated by deleting their lines.

Documents are drawn at temperature 0.8 and closed at the limit. They are read with decimal numbers, since `jsonschema`
finds no double to be a multiple of 0.01.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple

import httpx
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from localllm.client.sidecar import Sidecar

Verdict = Literal["valid", "invalid", "repeated", "unfinished", "refused", "failed"]
"""`refused`: before the first token; `failed`: after it, or with an error that blames nobody's schema."""
SLOTS, CTX = 4, 2048
TIMEOUT_S = 900
_HIDDEN = {"_format": str, "_uniqueItems": bool}
"""Keywords that JSONSchemaBench hides behind a line, since many tools refuse them; and the type of their values."""
_PATH = re.compile(r"response_format\S*")


class Case(NamedTuple):
    """A schema of the corpus."""

    part: str
    name: str
    schema: Any

    @property
    def id(self) -> str:
        return f"{self.part}/{self.name}"


class Outcome(NamedTuple):
    """What came of it."""

    verdict: Verdict
    why: str = ""
    document: str = ""
    num_tokens: int = 0


class Repeated(Exception):
    """A name comes twice in an object."""


def cases(folder: Path, each: int, seed: int) -> Iterator[Case]:
    for part in sorted(one for one in folder.iterdir() if one.is_dir()):
        files = sorted(part.glob("*.json"))
        for file in sorted(random.Random(seed).sample(files, min(each, len(files)))):
            yield Case(part.name, file.stem, shown(json.loads(file.read_bytes())))


def shown(schema: Any) -> Any:
    """The schema with the keywords that the corpus hides."""
    if isinstance(schema, list):
        return [shown(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name.removeprefix("_") if isinstance(value, _HIDDEN.get(name, ())) else name: shown(value)
        for name, value in schema.items()
    }


def ask(server: Sidecar, case: Case, max_tokens: int, seed: int) -> Outcome:
    body = {
        "model": server.ready.model,
        "messages": [{"role": "user", "content": "Write a JSON document about anything you like."}],
        "max_tokens": max_tokens,
        "temperature": 0.8,
        "seed": seed,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "document", "schema": case.schema, "close_at_limit": True},
        },
    }
    key = {"Authorization": f"Bearer {server.token}"}
    reply = httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=key, timeout=TIMEOUT_S)
    answer = reply.json()
    if reply.status_code != httpx.codes.OK:
        is_refused = reply.status_code == httpx.codes.BAD_REQUEST
        return Outcome("refused" if is_refused else "failed", answer["error"]["message"])
    choice, num_tokens = answer["choices"][0], answer["usage"]["completion_tokens"]
    document = choice["message"]["content"]
    return Outcome(*verdict(case.schema, document), document, num_tokens)


def verdict(schema: Any, document: str) -> tuple[Verdict, str]:
    exact = json.loads(json.dumps(schema), parse_float=Decimal)
    kind = validator_for(exact, default=Draft202012Validator)
    try:
        value = json.loads(document, parse_float=Decimal, object_pairs_hook=distinct)
    except Repeated as error:
        return "repeated", str(error)
    except ValueError:
        return "unfinished", ""
    fault = next(kind(exact, format_checker=kind.FORMAT_CHECKER).iter_errors(value), None)
    return ("valid", "") if fault is None else ("invalid", f"{fault.json_path}: {fault.message[:300]}")


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise Repeated(str([name for name, _ in pairs])[:300])
    return dict(pairs)


def read(results: Path) -> dict[str, dict[str, Any]]:
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    return {one["id"]: one for one in map(json.loads, lines)}


def summary(done: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each part, one for all, and how often each reason occurs, without the places."""
    for part in [*sorted({one["id"].partition("/")[0] for one in done}), ""]:
        counts = Counter(one["verdict"] for one in done if one["id"].startswith(part))
        yield f"{part or 'all':18} {sum(counts.values()):4}: " + ", ".join(
            f"{n} {what}" for what, n in counts.most_common()
        )
    reasons = Counter((one["verdict"], _PATH.sub("...", one["why"])) for one in done if one["verdict"] != "valid")
    yield from (f"{count:4} {what}: {why}" for (what, why), count in reasons.most_common())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--each", type=int, default=50, help="schemas of each part")
    parser.add_argument("--seed", type=int, default=7, help="of the choice of schemas, and of the documents")
    parser.add_argument("--max-tokens", type=int, default=1500)
    asked = parser.parse_args()
    results: Path = asked.results
    chosen = list(cases(asked.folder, asked.each, asked.seed))
    waiting = [case for case in chosen if case.id not in read(results)]
    options = [asked.model, f"--slots={SLOTS}", f"--ctx={CTX}", "--log-level=warning"]
    with Sidecar.start(options) as server, results.open("a", encoding="utf-8") as file:

        def run(case: Case) -> None:
            began_s = time.perf_counter()
            outcome = ask(server, case, asked.max_tokens, asked.seed)
            took_s = round(time.perf_counter() - began_s, 2)
            file.write(json.dumps({"id": case.id, **outcome._asdict(), "seconds": took_s}) + "\n")
            file.flush()

        with ThreadPoolExecutor(SLOTS) as pool:
            list(pool.map(run, waiting))
    done = read(results)
    print("\n".join(summary([done[case.id] for case in chosen])))


if __name__ == "__main__":
    main()
