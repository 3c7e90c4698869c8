"""Small documents of each kind, made here."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence

import docx
import pptx


def pdf(pages: Sequence[str]) -> bytes:
    """A page for each text; an empty one has a drawn square in place of text."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids = []
    for text in pages:
        lines = "".join(f"({line}) Tj 0 -14 Td " for line in text.split("\n"))
        drawn = f"BT /F1 12 Tf 20 170 Td {lines}ET" if text else "1 0 0 rg 50 50 100 100 re f"
        kids.append(f"{len(objects) + 1} 0 R")
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>"
            % (len(objects) + 2)
        )
        objects.append(b"<</Length %d>>stream\n%b\nendstream" % (len(drawn), drawn.encode("latin-1")))
    objects[1] = b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(pages), " ".join(kids).encode())
    made = bytearray(b"%PDF-1.4\n")
    places = []
    for number, each in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj%b\nendobj\n" % (number, each)
    start = len(made)
    made += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    made += b"".join(b"%010d 00000 n \n" % place for place in places)
    made += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)
    return bytes(made)


def word() -> bytes:
    document = docx.Document()
    document.add_heading("Rent", 1)
    document.add_paragraph("It is due on the first.")
    document.add_paragraph("Bring a key", style="List Bullet")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "May", "900"
    sink = io.BytesIO()
    document.save(sink)
    return sink.getvalue()


def slides() -> bytes:
    deck = pptx.Presentation()
    for title in ("One", "Two"):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = title
    deck.slides[1].notes_slide.notes_text_frame.text = "Say hello"
    sink = io.BytesIO()
    deck.save(sink)
    return sink.getvalue()


def sheet() -> bytes:
    import xlsxwriter

    sink = io.BytesIO()
    with xlsxwriter.Workbook(sink, {"in_memory": True}) as book:
        page = book.add_worksheet("Sales")
        page.write_row(0, 0, ["City", "Sold"])
        page.write_row(1, 0, ["Bonn", 12])
        book.add_worksheet("Empty")
    return sink.getvalue()


RTF = rb"{\rtf1\ansi{\b Rent} is due.\par}"
HTML = (
    b"<!doctype html><title>A</title><script>x()</script><h1>Rent</h1><p>is <b>due</b></p><table><tr><td>1<td>2</table>"
)


def zipped(**entries: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return sink.getvalue()


def all_kinds() -> dict[str, bytes]:
    return {
        "pdf": pdf(["Hello there", ""]), "docx": word(), "pptx": slides(), "xlsx": sheet(), "rtf": RTF, "html": HTML,
    }  # fmt: skip
