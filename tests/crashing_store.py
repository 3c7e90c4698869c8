"""A process whose children die by SIGKILL in the middle of what they do to a store; it prints what was wrong then.

`python -m tests.crashing_store steps FOLDER EVERY`: one child after another does the same work in a folder of its own,
and each dies so many steps later than the one before. A step is whatever Python tells its audit hooks of files, and
each flush. `python -m tests.crashing_store together FOLDER SEED`: several at a time in one folder, each killed at some
step, while one that lives looks at what is listed. Nothing is flushed: the machine goes on.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from localllm.errors import ModelNotFound
from localllm.registry.disk.store import Store
from localllm.registry.names.model_names import CatalogName, parse
from tests.stores import contents_of, digest_of, fetch, files_below, manifest_of, put

ROUNDS = 20
WORKERS = 3
STEPS_TO_LIVE = 400
LOOKS = 40
CONTENTS = [b"content %d " % number * 50 for number in range(5)]
EVENTS = ("open", "os.", "fcntl.", "shutil.")


def die_at_step(number: int) -> None:
    """From here on, this process has so many steps to live."""
    left = number

    def step(event: str, _: tuple[object, ...] = ()) -> None:
        nonlocal left
        if event.startswith(EVENTS) and event != "os.kill" and (left := left - 1) < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = lambda fd: step("os.fsync", (fd,))
    sys.addaudithook(step)


def no_flush(fd: object) -> None:
    """Takes no time."""


def in_child(work: Callable[[], None]) -> int:
    """Its process id."""
    if pid := os.fork():
        return pid
    status = 1
    try:
        work()
        status = 0
    finally:  # nothing of the parent's may run here
        if status:
            traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        os._exit(status)


def scenario(folder: Path) -> None:
    """Everything that writes. It may be done again from the start, wherever it ended."""
    store = Store(folder / "models")
    outside = folder / "outside.gguf"
    put(store, "first", CONTENTS[0])
    put(store, "big", *CONTENTS[:3])
    put(store, "first", CONTENTS[1])
    linked = store.add_file(outside, how="hardlink")
    store.put(manifest_of("linked", linked))
    store.put(manifest_of("copied", store.add_file(outside, how="copy"), store.add_bytes(b"p", role="projector")))
    with store.open_model(store.copy(CatalogName("big"), CatalogName("bigger"))) as opened:
        store.remove(CatalogName("big"))
        store.gc(keep_partials_s=0)
        assert contents_of(opened.path, 3) == CONTENTS[:3]
    fetch(store, CONTENTS[4])
    store.remove(CatalogName("bigger"))
    store.gc(keep_partials_s=0)


def complain(about: str) -> None:
    print(about, flush=True)


def check(store: Store, when: str) -> None:
    """What must be so whenever somebody looks at a store in which nobody works."""
    models, damaged = store.scan()
    if damaged:
        complain(f"{when}: {damaged}")
    for model in models:
        for wrong in store.verify(model):
            complain(f"{when}: {model.name}: {wrong.path} {wrong.reason}")
        store.open_model(model).close()
    blobs = store.root / "blobs"
    for name in os.listdir(blobs) if blobs.exists() else []:
        if (
            name.startswith("sha256-")
            and "." not in name
            and str(digest_of((blobs / name).read_bytes()))[7:] != name[7:]
        ):
            complain(f"{when}: the blob {name} is half written")


def check_tidy(store: Store, when: str) -> None:
    """After `gc` only what is needed is there."""
    store.gc(keep_partials_s=0)
    needed = {str(store.blob_path(file.digest)) for model in store.list() for file in model.files}
    kept = {str(store.root / name) for name in files_below(store.root)}
    manifests = {name for name in kept if "/manifests/" in name and "/.tmp-" not in name}
    rest = {name for name in kept - needed - manifests if "/views/" not in name and not name.endswith(".shared")}
    if not rest <= {str(store.root / "locks" / "gate")}:
        complain(f"{when}: gc left {rest}")


def at_steps(folder: Path, every: int) -> None:
    """Prints the number of steps at last."""
    for number in itertools.count(step=every):
        place = folder / str(number)
        place.mkdir(parents=True)
        (place / "outside.gguf").write_bytes(CONTENTS[3])

        def work(place: Path = place, number: int = number) -> None:
            die_at_step(number)
            scenario(place)

        _, status = os.waitpid(in_child(work), 0)
        when = f"killed at step {number}"
        store = Store(place / "models")
        check(store, when)
        if number // every % 2:  # half of them are tidied first, the others are gone on with
            check_tidy(store, when)
        scenario(place)
        check(store, f"{when}, and done again")
        check_tidy(store, f"{when}, and done again")
        if [model.name for model in store.list()] != ["copied", "first", "linked"]:
            complain(f"{when}, and done again: {[model.name for model in store.list()]}")
        shutil.rmtree(place)
        if status == 0:
            complain(f"{number} steps")
            return


def work_at_random(folder: Path, seed: int) -> None:
    """Until it is killed."""
    chance = random.Random(seed)
    store = Store(folder / "models")
    die_at_step(chance.randrange(STEPS_TO_LIVE))
    names = ["a", "b", "hf.co/x/y:q4"]
    while True:
        name = chance.choice(names)
        what = chance.randrange(5)
        if what < 2:
            put(store, name, *chance.sample(CONTENTS, chance.randrange(1, 4)))
        elif what == 2:
            store.gc(keep_partials_s=0)
        else:
            try:
                if what == 3:
                    store.remove(parse(name))
                else:
                    store.copy(parse(name), parse(chance.choice(names)))
            except ModelNotFound:
                continue


def look(folder: Path) -> None:
    """A model that is listed opens and has its contents, unless it was removed or replaced meanwhile."""
    store = Store(folder / "models")
    for _ in range(LOOKS):
        models, damaged = store.scan()
        if damaged:
            complain(f"seen at work: {damaged}")
        for model in models:
            try:
                opened = store.open_model(model)
            except ModelNotFound as error:
                if store.find(parse(model.name)) == model and store.find(parse(model.name)) == model:
                    again = store.verify(model)
                    if again and store.find(parse(model.name)) == model:
                        complain(f"seen at work: {error}")
                continue
            with opened:
                found = contents_of(opened.path, len(model.files))
                if [digest_of(content) for content in found] != [file.digest for file in model.files]:
                    complain(f"seen at work: {model.name} has other contents")


def together(folder: Path, seed: int) -> None:
    """Prints the number of models that were there in the end of each round."""
    chance = random.Random(seed)
    folder.mkdir(parents=True)
    seen = 0
    for number in range(ROUNDS):
        seeds = [chance.random() for _ in range(WORKERS)]
        works = [functools.partial(work_at_random, folder, hash(one)) for one in seeds]
        children = [in_child(work) for work in works]
        looker = in_child(functools.partial(look, folder))
        for child in children:
            _, status = os.waitpid(child, 0)
            if status != signal.SIGKILL:
                complain(f"round {number} of seed {seed}: a child ended with {status}")
        os.waitpid(looker, 0)
        store = Store(folder / "models")
        check(store, f"round {number} of seed {seed}")
        seen += len(store.list())
    check_tidy(store, f"seed {seed}")
    complain(f"{seen} models")


if __name__ == "__main__":
    os.fsync = no_flush
    if sys.argv[1] == "steps":
        at_steps(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        together(Path(sys.argv[2]), int(sys.argv[3]))
