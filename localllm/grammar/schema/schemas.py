"""Converts a client's JSON Schema (Draft 2020-12, or older spellings) to one that llguidance enforces exactly.

Everything is rewritten: the result contains only keywords known to be enforced, references point into its own `$defs`,
patterns and formats are Rust regular expressions, and bounds are exact. Keywords that cannot be enforced are rejected
with their path; unknown ones are annotations, and noted. Knows nothing of grammars; `endless` and `disjoint` examine
the whole result.
"""

from __future__ import annotations

from typing import Any

from localllm.errors import InvalidParameter
from localllm.grammar.refusals import NeverValid, Unsupported, refused, under, unsupported
from localllm.grammar.schema.cases import Cases
from localllm.grammar.schema.circular import unrolled
from localllm.grammar.schema.combining import Combiner
from localllm.grammar.schema.disjoint import Disjointness
from localllm.grammar.schema.endless import check_depth, prune
from localllm.grammar.schema.keywords import (
    ANNOTATIONS,
    APPLIED,
    AS_CASES,
    CHECKED,
    KEPT,
    OF_TYPE,
    REFERENCES,
    REFUSED,
    asks_for_nothing,
    note_of,
)
from localllm.grammar.schema.located import Located
from localllm.grammar.schema.negation import Negation
from localllm.grammar.schema.notes import Notes
from localllm.grammar.schema.one_of import OneOf, OneOfs
from localllm.grammar.schema.references import References, base_of
from localllm.grammar.schema.rewriting import Schema
from localllm.grammar.schema.typed import arrays, constants, numbers, objects, strings
from localllm.grammar.schema.unevaluated import Unevaluated

MAX_OPPOSITES = 1_500
"""Limit for the parts of what other options of `oneOf` do not allow, in one document."""

_EVALUATING = frozenset({*REFERENCES, "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})
"""Keywords whose schemas evaluate properties and items, too."""

Part = tuple[Any, str, str]
"""A schema, its path, and the base URI of references in it."""

_LISTS = ("allOf", "anyOf", "oneOf")


def checked(schema: Any, param: str, notes: Notes | None = None) -> dict[str, Any]:
    """The schema in llguidance's form, with `$defs`. Raises `InvalidParameter` with the path of a rejected part."""
    return DocumentRewriter(schema, param, notes).result()


class DocumentRewriter:
    """Rewrites one document."""

    def __init__(self, root: Any, path: str, notes: Notes | None = None) -> None:
        self._notes = Notes() if notes is None else notes
        self._root = root
        self._path = path
        self._references = References(root, path)
        self._negation = Negation(self._references)
        self._cases = Cases(self._negation)
        self._unevaluated = Unevaluated(self._references, self._negation)
        self._names: dict[tuple[int, str, bool], str] = {}
        """(Identity of a reference's target, base URI and `is_part` there) -> its name in `definitions`. Not its path,
        in which long names are cut."""
        self._paths: dict[str, str] = {}
        """Name in `definitions` -> path."""
        self._waiting: list[tuple[str, Any, str, str, bool]] = []
        self.is_part = False
        """Whether a document must also match other schemas than the one being rewritten. Properties that this one does
        not list may then be theirs."""
        self._is_opposite = False
        self._opposites_left = MAX_OPPOSITES
        self._contradiction: NeverValid | None = None
        """The first part that no document matches."""
        self._one_ofs: list[OneOf] = []
        self.definitions: dict[str, Schema] = {}

    def result(self, part: Part | None = None) -> dict[str, Any]:
        """The rewritten document, or a part of it with the definitions that it needs."""
        schema, path, base = part or (self._root, self._path, "")
        root = self.schema(schema, path, base)
        while self._waiting or self._one_ofs:
            while self._waiting:
                name, target, its_path, its_base, self.is_part = self._waiting.pop()
                self.definitions[name] = self.schema(target, its_path, its_base)
            self._prove_one_ofs()
        for name in self.definitions.keys() & {*self._notes.concessions.empty_definitions}:
            self.definitions[name] = False
            self._notes.never(self._paths[name])
        check_depth(root, self.definitions, path, self._paths)
        try:
            root = prune(root, self.definitions, path, self._paths)
        except InvalidParameter as refusal:
            raise self._contradiction or refusal from None
        root = unrolled(self._combined(root), self.definitions)
        whole = dict(root) if isinstance(root, dict) else {"allOf": [root]}
        return whole | {"$defs": self.definitions} if self.definitions else whole

    def _combined(self, root: Schema) -> Schema:
        combiner = Combiner(self.definitions, narrows=self._notes.concessions.narrows)
        for name, one in [*self.definitions.items()]:
            self.definitions[name] = combiner.schema(one)
        root = combiner.schema(root)
        if combiner.has_narrowed:
            self._notes.add("narrowed", f"cases-narrowed: {self._path}")
        return root

    def schema(self, schema: Any, path: str, base: str) -> Schema:
        """Rewrite a schema and its subschemas."""
        if isinstance(schema, Located):
            schema, path, base = schema
        if isinstance(schema, bool):
            return schema
        if self._is_opposite:
            self._opposites_left -= 1
            if self._opposites_left < 0:
                raise unsupported(path, "what it does not allow is too large; write what is allowed instead")
        if path in self._notes.concessions.dropped:
            self._notes.leave_out(path)
            return True
        if not isinstance(schema, dict):
            raise refused(path, "must be a schema: an object, true or false")
        if schema.get("not") == {} or schema.get("not") is True:
            return False
        was_part = self.is_part
        try:
            return self._rewritten(schema, path, base_of(schema, base))
        except NeverValid as error:
            if self._notes.is_loose:
                raise
            self._notes.never(error.param or path)
            self._contradiction = self._contradiction or error
            return False
        finally:
            self.is_part = was_part

    def _rewritten(self, schema: dict[str, Any], path: str, base: str) -> Schema:
        types = _types(schema, path)
        named = {name: value for name, value in schema.items() if self._is_kept(name, value, path)}
        parts = self._parts(named, path, base)
        closes = bool(parts) and not self.is_part and not _combines(named) and objects.lists_all(named, parts)
        self.is_part = self.is_part or bool(parts) or _combines(named)
        simple = self._simple(named | ({"additionalProperties": False} if closes else {}), types, path, base)
        applied = self._applied(named, types, path, base)
        extra = [*(self.schema(one, path, base) for one in parts), *simple.pop("allOf", [])]
        if extra:
            applied["allOf"] = [*applied.get("allOf", []), *extra]
        if types is not None and (simple or not ({"enum", "const"} & applied.keys())):
            simple = {"type": types[0] if len(types) == 1 else types} | simple
        out = _in_order(named, simple, applied)
        if self._notes.is_checked and schema.get(CHECKED) is True and (types is None or "array" in types):
            out[CHECKED] = True
        if "oneOf" in out:
            options = [Located(one, under(path, "oneOf", index), base) for index, one in enumerate(named["oneOf"])]
            self._one_ofs.append(OneOf(out, under(path, "oneOf"), options))
        return out

    def part(self, schema: Any, path: str, base: str, *, is_opposite: bool = False) -> Schema:
        """Rewrite a schema that a document matches together with others. The opposites of a document's schemas must not
        be too large together."""
        was_part, self.is_part = self.is_part, True
        was_opposite, self._is_opposite = self._is_opposite, is_opposite
        try:
            return self.schema(schema, path, base)
        finally:
            self.is_part, self._is_opposite = was_part, was_opposite

    @property
    def names_are_distinct(self) -> bool:
        """Whether documents are checked for names that come twice in an object."""
        return self._notes.is_checked

    def reference(self, reference: Any, path: str, base: str, *, is_dynamic: bool = False) -> str:
        """The `$ref` to its definition, which is queued for rewriting."""
        find = self._references.dynamic_target if is_dynamic else self._references.target
        target = find(reference, path, base)
        key = id(target.schema), target.base, self.is_part
        if key not in self._names:
            self._names[key] = name = f"d{len(self._names)}"
            self._paths[name] = target.path
            self._waiting.append((name, target.schema, target.path, target.base, self.is_part))
        return f"#/$defs/{self._names[key]}"

    def target(self, reference: Any, path: str, base: str) -> Part:
        """The target of a reference."""
        return tuple(self._references.target(reference, path, base))

    def resolved(self, schema: Any, path: str, base: str) -> tuple[Any, str]:
        """The schema, or what it merely refers to."""
        for _ in range(20):
            if not (isinstance(schema, dict) and "$ref" in schema and schema.keys() - ANNOTATIONS == {"$ref"}):
                break
            target = self._references.target(schema["$ref"], under(path, "$ref"), base_of(schema, base))
            schema, path, base = target
        return schema, path

    def _parts(self, named: dict[str, Any], path: str, base: str) -> list[Any]:
        """Schemas in place of keywords that are cases in disguise; removes those that it replaces."""
        found: list[Any] = []
        for name in ("unevaluatedProperties", "unevaluatedItems", *(name for name in named if name in AS_CASES)):
            is_unevaluated = name in named and name not in AS_CASES
            if name not in named or (is_unevaluated and not named.keys() & _EVALUATING):
                continue
            try:
                if is_unevaluated:
                    found.append(self._unevaluated.part(name, named, path, base))
                else:
                    found += self._cases.parts(name, named, path, base)
            except InvalidParameter:
                if not self._notes.is_loose:
                    raise
                self._notes.leave_out(under(path, name))
            if is_unevaluated:
                del named[name]
        return [one for one in found if one is not True]

    def _is_kept(self, name: str, value: Any, path: str) -> bool:
        if name in KEPT:
            dropped = self._notes.concessions.dropped
            is_dropped = bool(dropped) and under(path, name) in dropped
            if is_dropped:
                self._notes.leave_out(under(path, name))
            return not is_dropped and not asks_for_nothing(name, value)
        if name == CHECKED and self._notes.is_checked:
            if not isinstance(value, bool):
                raise refused(under(path, name), "must be true or false")
        elif name in REFUSED:
            if not asks_for_nothing(name, value):
                if not self._notes.is_loose:
                    raise unsupported(under(path, name), REFUSED[name])
                self._notes.leave_out(under(path, name))
        elif name not in ANNOTATIONS and not name.startswith("x-"):
            self._notes.add(name, note_of(name, under(path, name)))
        return False

    def _simple(self, named: dict[str, Any], types: list[str] | None, path: str, base: str) -> dict[str, Any]:
        """Rewrite the keywords that belong to single types, for the types that may occur."""
        meant = frozenset().union(*(OF_TYPE[one] for one in types)) if types is not None else KEPT - APPLIED
        of_types = {name: value for name, value in named.items() if name in meant and name != "type"}
        is_integer = types is not None and "integer" in types
        found: dict[str, Any] = {}
        more: list[Schema] = []
        for each in (
            objects.rewritten(self, of_types, path, base),
            arrays.rewritten(self, of_types, path, base),
            strings.rewritten(of_types, path, self._notes, may_be_text=types is None or "string" in types),
            numbers.rewritten(of_types, path, integers_only=is_integer),
        ):
            more += each.pop("allOf", [])
            found |= each
        return found | {"allOf": more} if more else found

    def _applied(self, named: dict[str, Any], types: list[str] | None, path: str, base: str) -> dict[str, Any]:
        applied: dict[str, Any] = {}
        for name, value in named.items():
            here = under(path, name)
            if name in REFERENCES:
                reference = self.reference(value, here, base, is_dynamic=name != "$ref")
                if "$ref" in applied:
                    applied["allOf"] = [*applied.get("allOf", []), {"$ref": reference}]
                else:
                    applied["$ref"] = reference
            elif name == "const":
                applied[name] = constants.of_types([value], types, here)[0]
            elif name == "enum":
                if not isinstance(value, list) or not value:
                    raise refused(here, "must be a nonempty list")
                applied[name] = constants.of_types(value, types, here)
            elif name in _LISTS:
                if not isinstance(value, list) or not value:
                    raise refused(here, "must be a nonempty list of schemas")
                parts = [Located(one, under(here, index), base) for index, one in enumerate(value)]
                if name == "anyOf":
                    applied[name] = self._any_of(parts)
                else:
                    applied[name] = [*applied.get(name, []), *(self.schema(*one) for one in parts)]
        return applied

    def _any_of(self, options: list[Located]) -> list[Schema]:
        """Those of the options that can be expressed. Raises `InvalidParameter` if none can."""
        found, refusal = list[Schema](), None
        for one in options:
            try:
                found.append(self.schema(*one))
            except Unsupported as error:
                if self._notes.is_loose or self._opposites_left < 0:
                    raise
                refusal = refusal or error
                if not self._is_opposite:
                    self._notes.add(f"never {one.path}", f"anyOf-narrowed: {one.path}")
        if refusal is not None and not any(found):
            raise refusal
        return found

    def _prove_one_ofs(self) -> None:
        disjointness = Disjointness(self.definitions)
        one_ofs, self._one_ofs = self._one_ofs, []
        for one in one_ofs:
            OneOfs(self, self._negation, self._notes).replace(one, disjointness)


def _combines(named: dict[str, Any]) -> bool:
    """Whether documents must match several schemas here, or must not match one."""
    applied = [name for name in (*REFERENCES, "allOf", "anyOf", "oneOf") if name in named]
    if not applied:
        return False
    num_all = len(named["allOf"]) if isinstance(named.get("allOf"), list) else 0
    return len(named.keys() - {"type"}) > 1 or applied == ["oneOf"] or num_all > 1


def _types(schema: dict[str, Any], path: str) -> list[str] | None:
    """The types that a schema allows; None if it does not say. `number` includes `integer`."""
    if "type" not in schema:
        return None
    found = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    for one in found:
        if not isinstance(one, str) or one not in OF_TYPE:
            raise refused(under(path, "type"), f"must be among {', '.join(OF_TYPE)}")
    if not found:
        raise refused(under(path, "type"), "must name a type")
    found = list(dict.fromkeys(found))
    return [one for one in found if one != "integer"] if "number" in found else found


def _in_order(named: dict[str, Any], simple: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    """Merge the keywords, with the simple ones at the position of `properties` among the others, since the order of
    keywords decides the order of properties."""
    first = "properties" if "properties" in named else next((name for name in named if name not in APPLIED), None)
    out: dict[str, Any] = {}
    for name in named:
        if name == first:
            out |= simple
        elif name in applied:
            out[name] = applied[name]
    return out | simple | applied
