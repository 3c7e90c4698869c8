"""`python native/llama_headers.py TREE NAME [--like BUILD] [--old TREE]`: one llama.cpp, as localllm needs to know it.

TREE is that version's source, as in the source distributions of llama-cpp-python (`vendor/llama.cpp`) and xllamacpp
(`thirdparty/llama.cpp`). Writes NAME.json in `localllm/data/builds`: layouts of structs, tables of functions, types of
functions, numbers, architectures; with `--like` only what differs from that build. Prints what changed, and with the
source of that build in `--old`, which rows of `localllm/llama/facts.py` have to be looked at again. Needs the package
libclang, a tool of developers only. `localllm/types/libraries/builds.py` reads the files.
"""

from __future__ import annotations

import argparse
import json
import re
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT / "localllm" / "data" / "builds"
INCLUDES = ("include", "src", "ggml/include", "ggml/src", "tools/mtmd")
HEADERS = ("llama.h", "llama-ext.h", "ggml-backend-impl.h", "ggml-cpu.h", "ggml-rpc.h", "mtmd.h")
STRUCTS = re.compile(
    r"llama_(?!memory_|device_|quant_)\w+|ggml_backend_dev_(props|caps)|ggml_init_params"
    r"|mtmd_(context_params|input_part|decoder_pos)"
)
TABLES = re.compile(r"ggml_backend_(buffer_type|device)_i")
NUMBERS = re.compile(r"LLAMA_\w+|GGML_(TYPE|NUMA_STRATEGY|BACKEND_DEVICE_TYPE|LOG_LEVEL)_\w+|MTMD_INPUT_CHUNK_TYPE_\w+")
MACROS = {
    "LLAMA_DEFAULT_SEED": "include/llama.h",
    "LLAMA_SESSION_VERSION": "include/llama.h",
    "LLAMA_STATE_SEQ_VERSION": "include/llama.h",
    "GGML_MAX_NAME": "ggml/include/ggml.h",
    "GGML_RPC_MAX_SERVERS": "ggml/include/ggml-rpc.h",
    "RPC_PROTO_MAJOR_VERSION": "ggml/include/ggml-rpc.h",
    "RPC_PROTO_MINOR_VERSION": "ggml/include/ggml-rpc.h",
}
SECTIONS = ("structs", "tables", "functions", "numbers", "architectures")

Sections = dict[str, dict[str, Any]]


def read(tree: Path) -> Sections:
    """All of it. Raises `ValueError` for a header that clang does not understand."""
    found: Sections = {section: {} for section in SECTIONS}
    used = _used_functions()
    for cursor in _declarations(tree):
        kind, name = cursor.kind.name, cursor.spelling
        if kind == "STRUCT_DECL" and cursor.is_definition():
            if TABLES.fullmatch(name):
                found["tables"][name] = [each.spelling for each in cursor.type.get_fields()]
            elif STRUCTS.fullmatch(name):
                found["structs"][name] = _struct(cursor.type)
        elif kind == "ENUM_DECL":
            numbers = {each.spelling: each.enum_value for each in cursor.get_children()}
            found["numbers"] |= {key: value for key, value in numbers.items() if NUMBERS.fullmatch(key)}
        elif kind == "FUNCTION_DECL" and (name.startswith("llama_") or name in used):
            arguments = [_kind(each.type) for each in cursor.get_arguments()]
            found["functions"][cursor.mangled_name] = [_kind(cursor.result_type), *arguments]
    for name, file in MACROS.items():
        match = re.search(rf"define {name} +(0x[0-9A-Fa-f]+|\d+)", (tree / file).read_text("utf-8"))
        found["numbers"] |= {name: int(match[1], 0)} if match else {}
    text = (tree / "src" / "llama-arch.cpp").read_text("utf-8")
    table = text[text.index("LLM_ARCH_NAMES") :].partition("};")[0]
    names = re.findall(r'\{\s*LLM_ARCH_\w+,\s*"([^"]+)"', table)
    found["architectures"] = {name: True for name in names if not name.startswith("(")}
    return found


def difference(old: Sections, new: Sections) -> Sections:
    """What to merge into `old` to get `new`; None stands for what is gone."""
    changed: Sections = {}
    for section in SECTIONS:
        before, after = old[section], new[section]
        entries = {name: value for name, value in after.items() if before.get(name) != value}
        entries |= {name: None for name in before if name not in after}
        changed[section] = entries
    return changed


def rows(old: Sections, changed: Sections) -> Iterator[str]:
    """A Markdown table: what is new, gone, or different."""
    yield "| section | name | before | after |"
    yield "|---|---|---|---|"
    for section in SECTIONS:
        for name, value in changed[section].items():
            yield f"| {section} | `{name}` | {_short(old[section].get(name), value)} | {_short(value, None)} |"


def _short(value: Any, beside: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list) and isinstance(beside, list):
        value = [each for each in value if each not in beside] or "others in another order"
    text = json.dumps(value)
    return text if len(text) < 200 else text[:200] + " ..."


def fact_rows(old: Path, new: Path) -> Iterator[str]:
    """A Markdown table of the facts whose source changed, most changed first; texts of the log that are gone."""
    facts = runpy.run_path(str(ROOT / "localllm" / "llama" / "facts.py"))["FACTS"]
    before, after = ("\n".join(_text(path) for path in _sources(tree, "src ggml/src")) for tree in (old, new))
    found = []
    for fact in facts:
        changed = {path: count for path, count in _changes(old, new, fact.source).items() if count}
        gone = [text for text in fact.texts if text in before and text not in after]
        if changed or gone:
            files = ", ".join(
                f"{path} ({count})" for path, count in sorted(changed.items(), key=lambda each: -each[1])[:4]
            )
            more = f" and {len(changed) - 4} more" if len(changed) > 4 else ""
            found.append((sum(changed.values()), fact, files + more, ", ".join(gone)))
    yield "| fact | test that fails | changed lines | text gone |"
    yield "|---|---|---|---|"
    for _, fact, files, gone_texts in sorted(found, key=lambda each: -each[0]):
        yield f"| {fact.what} | {', '.join(fact.tests)} | {files} | {gone_texts} |"


def _changes(old: Path, new: Path, source: str) -> dict[str, int]:
    """File of either tree that `Fact.source` names -> how many lines differ."""
    names = {path.relative_to(tree).as_posix() for tree in (old, new) for path in _sources(tree, source)}
    counts = {}
    for name in names:
        before, after = (Counter(_text(tree / name).splitlines()) for tree in (old, new))
        counts[name] = ((before - after) + (after - before)).total()
    return counts


def _sources(tree: Path, named: str) -> Iterator[Path]:
    """The files and folders that a text names, patterns too."""
    for word in re.findall(r"[\w./*-]+", named):
        if "/" in word or word.endswith((".cpp", ".h", ".c")):
            for path in sorted(tree.glob(word)) or sorted(tree.rglob(word)):
                inside = path.rglob("*") if path.is_dir() else (path,)
                yield from (each for each in inside if each.suffix in (".c", ".cpp", ".cu", ".cuh", ".h", ".txt"))


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def write(path: Path, about: dict[str, str], sections: Sections) -> None:
    """One entry a line, so that a difference reads well."""
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in about.items()]
    for section, entries in sections.items():
        if section == "architectures" and None not in entries.values():
            lines = [", ".join(f"{json.dumps(name)}: true" for name in entries)] if entries else []
        else:
            lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items()]
        parts.append(f'"{section}": {{' + ",".join(f"\n  {line}" for line in lines) + "}")
    path.write_text("{" + ",\n".join(parts) + "}\n", "utf-8")


def merged(name: str) -> Sections:
    """The sections of a written build."""
    data = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    base: Sections = merged(data["like"]) if data["like"] else {section: {} for section in SECTIONS}
    for section in SECTIONS:
        base[section] |= data[section]
        base[section] = {name: value for name, value in base[section].items() if value is not None}
    return base


def _declarations(tree: Path) -> Iterator[Any]:
    from clang import cindex

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "all.cpp"
        file.write_text("".join(f'#include "{header}"\n' for header in HEADERS), "utf-8")
        flags = ["-std=c++17", *(f"-I{tree / each}" for each in INCLUDES), *_system_includes()]
        unit = cindex.Index.create().parse(str(file), flags)
        errors = [str(each) for each in unit.diagnostics if each.severity >= cindex.Diagnostic.Error]
        if errors:
            raise ValueError("\n".join(errors))
        pending = list(unit.cursor.get_children())
        for cursor in pending:
            if cursor.kind.name in ("LINKAGE_SPEC", "UNEXPOSED_DECL"):  # extern "C"
                pending += cursor.get_children()
            yield cursor


def _system_includes() -> list[str]:
    """Those of the C++ compiler of this machine, since libclang brings none."""
    said = subprocess.run(["c++", "-E", "-x", "c++", "-v", "/dev/null"], capture_output=True, text=True, check=True)
    listed = said.stderr.partition("search starts here:")[2].partition("End of search")[0]
    return [f"-isystem{line.strip()}" for line in listed.splitlines() if line.startswith(" ")]


def _used_functions() -> set[str]:
    """Names of ggml and libmtmd in the sources of localllm."""
    texts = (path.read_text("utf-8") for path in (ROOT / "localllm" / "llama").rglob("*.py"))
    return {name for text in texts for name in re.findall(r"\b(?:ggml|mtmd)_\w+", text)}


def _struct(given: Any) -> list[Any]:
    """Its size on x86-64, then its fields' names and types."""
    named = ((field.spelling if "(" not in field.spelling else "", _kind(field.type)) for field in given.get_fields())
    return [given.get_size(), *([name, kind] for name, kind in named)]


def _kind(given: Any) -> str:
    """`int32`, `float`, `bool`, `pointer`, `struct llama_batch`, `int8[128]` ..."""
    canonical = given.get_canonical()
    name = canonical.kind.name
    if name in ("POINTER", "FUNCTIONPROTO"):
        return "pointer"
    if name == "CONSTANTARRAY":
        return f"{_kind(canonical.element_type)}[{canonical.element_count}]"
    if name == "ENUM":
        return _kind(canonical.get_declaration().enum_type)
    if name == "RECORD":
        spelling = canonical.get_declaration().spelling
        return f"struct {spelling}" if "(" not in spelling and spelling else f"bytes[{canonical.get_size()}]"
    if name in ("VOID", "BOOL", "FLOAT", "DOUBLE"):
        return str(name.lower())
    unsigned = name.startswith("U") or name == "CHAR_U"
    return f"{'u' if unsigned else ''}int{canonical.get_size() * 8}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path)
    parser.add_argument("name")
    parser.add_argument("--like", default="", help="a build that is known; only differences are written")
    parser.add_argument("--old", type=Path, help="that build's source")
    given = parser.parse_args()
    sections = read(given.tree)
    old = merged(given.like) if given.like else {section: {} for section in SECTIONS}
    changed = difference(old, sections)
    path = DATA / f"{given.name}.json"
    about = {"like": given.like}
    if path.exists():  # what no header says stays
        about = {
            key: value for key, value in json.loads(path.read_text("utf-8")).items() if key not in SECTIONS
        } | about
    write(path, about, changed)
    if given.like:
        sys.stdout.writelines(f"{row}\n" for row in rows(old, changed))
    if given.old:
        sys.stdout.writelines(f"{row}\n" for row in ("", *fact_rows(given.old, given.tree)))


if __name__ == "__main__":
    main()
