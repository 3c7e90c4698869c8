"""Tables and notes are broken between words where the screen is narrow."""

from __future__ import annotations

import pytest

from localllm.cli.render.units import labelled, table, wrapped

HEAD = ("name", "memory", "why")
ROWS = [("hf.co/unsloth/Qwen3-0.6B-GGUF:Q4_K_M", "1.2 GB", "the largest one of which all layers fit"), ("b", "2 B", "")]


def test_a_table_is_as_wide_as_its_cells_or_the_screen() -> None:
    whole = table(HEAD, ROWS)
    assert whole == table(HEAD, ROWS, 200)
    for columns in (60, 70, 80):
        lines = table(HEAD, ROWS, columns).splitlines()
        assert max(map(len, lines)) <= columns
        assert " ".join(" ".join(lines).split()).count("Q4_K_M") == 1
        for word in whole.split():
            assert any(word in line.split() for line in lines), word
    assert "hf.co/unsloth/Qwen3-0.6B-GGUF:Q4_K_M" in table(HEAD, ROWS, 10), "no word is cut"


def test_a_note_is_broken_between_words_only() -> None:
    note = "localllm: there is no file /a/very/long-path/that-has-hyphens.gguf; give another\nsecond line"
    for columns in (20, 40, 60, 100):
        shown = wrapped(note, columns)
        assert shown.split() == note.split()
        assert all(len(line) <= columns or " " not in line for line in shown.splitlines())


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_a_labelled_text_breaks_between_words_beside_its_label(columns: int) -> None:
    text = "a note of several words that is longer than a narrow screen, and /a/path/that/stays/whole\nits second line"
    lines = labelled("format", text, 12, columns).split("\n")
    assert lines[0].startswith("format      a note")
    assert all(line.startswith(" " * 12) and len(line) <= columns for line in lines[1:])
    assert " ".join(line[12:] for line in lines).split() == text.split()
    assert labelled("format", "x" * 200, 12, None) == f"format      {'x' * 200}"
