"""How a document stands in a prompt: a title, and its text between fences, page by page.

    Document report.pdf, 3 pages:

    Page 1:
    ```text
    ...
    ```

    Page 2 (no text):
    <the page as a picture>

    End of report.pdf

Marks of pages stand outside of the fences, and a fence has more backticks than any run in the text (CommonMark, 4.5),
so no text can end it or look like a mark. The same document always becomes the same text. Knows no formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from localllm.documents.contents import Contents, Section
from localllm.types import Media
from localllm.types.documents import DocumentOptions

_RUNS = re.compile("`+")
MAX_NAME = 200
"""Characters of a name that are shown."""
NO_TEXT = "no text; it is a picture, which this model does not see"


def parts_of(contents: Contents, media: Media) -> list[str | Media]:
    """The document's texts, and pictures of its pages, in order."""
    options = media.document or DocumentOptions()
    fence = fence_for(section.text for section in contents.sections)
    name = name_of(options)
    made: list[str | Media] = []
    lines = [_title(contents, name, options.pages)]
    if context := one_line(options.context):
        lines.append(f"Context: {context}")
    for section in contents.sections:
        if section.label:
            lines += ["", f"{section.label}{_note(section, options)}:"]
        if section.text:
            lines += [f"{fence}{section.language}", section.text, fence]
        if _is_picture(section, options):
            made += ["\n".join(lines), _picture(media, section)]
            lines = []
    if not any(section.text or section.label for section in contents.sections):
        lines.append("(empty)")
    if len(contents.sections) > 1 or made:
        lines += ["", f"End of {name}"] if lines else [f"End of {name}"]
    return [*made, "\n".join(lines)]


def num_pictures(contents: Contents, options: DocumentOptions) -> int:
    """Pages that are shown as pictures to a model that sees."""
    return sum(_is_picture(section, options) for section in contents.sections)


def fence_for(texts: Iterable[str]) -> str:
    """A fence that none of these texts contains."""
    longest = max((len(run) for text in texts for run in _RUNS.findall(text)), default=0)
    return "`" * max(3, longest + 1)


def name_of(options: DocumentOptions) -> str:
    """What the document is called; "document" if it has no name."""
    return one_line(options.title or options.name) or "document"


def one_line(text: str) -> str:
    """The text on one line, printable, not too long, and without what would begin code or end a title."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(shown.replace("`", "'").split())[:MAX_NAME]


def _title(contents: Contents, name: str, pages: str) -> str:
    num, unit = contents.num_pages, contents.unit
    if not unit:
        return f"Document {name}:"
    of_all = f"{num} {unit}{'' if num == 1 else 's'}"
    return f"Document {name}, {f'{unit}s {pages} of {of_all}' if pages else of_all}:"


def _is_picture(section: Section, options: DocumentOptions) -> bool:
    if not section.page or section.is_empty or options.page_images == "never":
        return False
    return options.page_images == "always" or not section.text


def _note(section: Section, options: DocumentOptions) -> str:
    if section.text:
        return ""
    if section.page and not section.is_empty and options.page_images == "never":
        return " (no text)"
    return "" if section.page and not section.is_empty else " (empty)"


def _picture(media: Media, section: Section) -> Media:
    instead = "" if section.text else f"[{NO_TEXT}]"
    return replace(media, kind="image", document=None, page=section.page, instead=instead)
