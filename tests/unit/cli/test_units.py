"""Tables and notes are broken between words where the screen is narrow."""

from __future__ import annotations

from localllm.cli.render.units import table, wrapped

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
