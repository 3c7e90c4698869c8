"""Markdown on a terminal: right at the end, whole at every moment, and written without going back more than it must."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Iterable

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.cli.render.blocks import MAX_LIVE_CHARS, Document
from localllm.cli.render.live import Live, Size
from localllm.cli.render.table_cells import _ONE_COLUMN, Line, width, wrap
from localllm.cli.render.theme import THOUGHT

SAMPLE = """\
# A **title**

Some *text* with `code` and **bold** and [a link](https://example.com/x), https://a.example/b_c_d and snake_case_names.
2 * 3 * 4 = 24, ~~gone~~, \\*stars\\*, &lt;tag&gt;, \\( a_1 * b_1 * c \\) and enough words to fill more than one line.

- one
- two **bold**
  - nested
    1. deep
    2. deeper
  continued
- [ ] to do
- [x] done

1. first

   more of it
   ```python
   def f(x):
       '''doc
       string'''
       return x  # a comment that is longer than the screen is wide, whatever it may be, and then some more of it
   ```
1. second

> said *somebody*
>
> - in a list

| Name | Value | 日本 |
|:-----|------:|:--:|
| a `x|y` | 1 | 漢字 |
| **long cell** | 22222 | ok |

Setext
------

***
日本語のテキストは単語の間にスペースがありません。だから、どこでも改行できます。
"""

FRAGMENTS = [
    *(
        "**",
        "*",
        "_",
        "__",
        "`",
        "``",
        "```",
        "~~",
        "~",
        "[",
        "](",
        ")",
        "!",
        "<",
        ">",
        "&amp;",
        "\\",
        "$$",
        "|",
        "#",
        "=",
        "-",
    ),
    *(
        "\n",
        "\n\n",
        "\r\n",
        "\t",
        " ",
        "  \n",
        "    ",
        "- ",
        "* ",
        "1. ",
        "10) ",
        "> ",
        "# ",
        "### ",
        "---\n",
        "===\n",
        "- [x] ",
    ),
    *(
        "```py\n",
        "```\n",
        "~~~\n",
        "| a | b |\n",
        "|---|:-:|\n",
        "|c|d|e|\n",
        "<br>",
        "\\(",
        "\\)",
        "http://a.example/x_y ",
    ),
    *(
        "[text](http://b.example)",
        "`code`",
        "**bold**",
        "日本語、",
        "é",
        "\x1b[2J",
        "\x07",
        "\u0301",
        "&#27;",
        "'''",
        '"',
        "/*",
    ),
]
WORDS = st.from_regex(r"[k-w]{3,6} ?", fullmatch=True)
MARKDOWN = st.lists(st.one_of(st.sampled_from(FRAGMENTS), WORDS), max_size=40).map("".join)
CUTS = st.lists(st.floats(0, 1), max_size=12)


def render(text: str, columns: int, document: Document | None = None) -> list[Line]:
    document = document or Document()
    return document.feed(text, columns) + document.flush(columns)


def shown(text: str, columns: int = 60) -> str:
    return "\n".join(line.text for line in render(text, columns))


def styled(text: str, columns: int = 60) -> list[tuple[str, str]]:
    return [span for line in render(text, columns) for span in line.spans]


def pieces(text: str, cuts: Iterable[float]) -> list[str]:
    places = sorted({round(cut * len(text)) for cut in cuts} | {0, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(places)]


class Screen:
    """A terminal, and an answer that is drawn on it."""

    def __init__(self, columns: int = 40, rows: int = 24) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=10_000)
        self.stream = pyte.Stream(self.screen)
        self.size = Size(columns, rows)
        self.document = Document()
        self.written: list[str] = []
        self.live = Live(self._write, reflows=False)

    def _write(self, text: str) -> None:
        self.written.append(text)
        self.stream.feed(text)

    def feed(self, text: str) -> None:
        finished = self.document.feed(text, self.size.columns - 1)
        self.live.update(finished, self.document.preview(self.size.columns - 1), self.size)

    def flush(self) -> None:
        self.live.update(self.document.flush(self.size.columns - 1), [], self.size)

    def resize(self, columns: int) -> None:
        self.screen.resize(self.size.rows, columns)
        self.size = Size(columns, self.size.rows)

    @property
    def rows(self) -> list[str]:
        """All rows up to the last that is not empty, those that have scrolled off included."""
        past = ["".join(row[column].data for column in range(self.size.columns)) for row in self.screen.history.top]
        rows = [row.rstrip() for row in [*past, *self.screen.display]]
        while rows and not rows[-1]:
            rows.pop()
        return rows


def expected_rows(text: str, columns: int) -> list[str]:
    rows = [line.text.rstrip() for line in render(text, columns - 1)]
    while rows and not rows[-1]:
        rows.pop()
    return rows


@given(MARKDOWN, CUTS, st.integers(16, 50))
def test_the_lines_are_the_same_however_the_text_is_cut(text: str, cuts: list[float], columns: int) -> None:
    document = Document()
    lines: list[Line] = []
    for piece in pieces(text, cuts):
        lines += document.feed(piece, columns)
        document.preview(columns)
    assert lines + document.flush(columns) == render(text, columns)


@pytest.mark.parametrize("block", SAMPLE.split("\n\n"))
def test_each_block_of_the_sample_is_the_same_at_every_split_point(block: str) -> None:
    whole = render(block, 40)
    for cut in range(len(block)):
        document = Document()
        first = document.feed(block[:cut], 40)
        document.preview(40)
        assert first + document.feed(block[cut:], 40) + document.flush(40) == whole, cut


@given(MARKDOWN, CUTS, st.integers(16, 50), st.booleans())
def test_no_line_is_too_long_and_none_holds_what_a_terminal_obeys(
    text: str, cuts: list[float], columns: int, is_thought: bool
) -> None:
    document = Document(THOUGHT) if is_thought else Document()
    room = columns - 2 * is_thought
    for piece in pieces(text, cuts):
        for line in [*document.feed(piece, room), *document.preview(room)]:
            assert width(line.text) <= columns + 1
            assert not re.search(r"[\x00-\x1f\x7f-\x9f]", line.text)


@given(MARKDOWN, st.integers(16, 50))
def test_no_word_is_lost(text: str, columns: int) -> None:
    all_shown = re.sub(r"[\s│┼]", "", "".join(line.text for line in render(text, columns)))
    for word in re.findall(r"[k-w]{3,}", re.sub(r"(```|~~~).*", "", text)):  # the label of a code block may be cut
        assert word in all_shown


@given(MARKDOWN, CUTS, st.integers(16, 50))
def test_the_screen_ends_as_if_all_had_come_at_once(text: str, cuts: list[float], columns: int) -> None:
    text = text.replace("\u0301", "")  # the emulator has its own mind about combining signs
    screen = Screen(columns, rows=60)
    for piece in pieces(text, cuts):
        screen.feed(piece)
    screen.flush()
    rows = expected_rows(text, columns)
    if len(rows) < 60:
        assert screen.rows == rows


@pytest.mark.parametrize("columns", [24, 80])
def test_the_sample_streams_onto_the_screen_character_by_character(columns: int) -> None:
    screen = Screen(columns, rows=70)
    for character in SAMPLE:
        screen.feed(character)
    screen.flush()
    assert screen.rows == expected_rows(SAMPLE, columns)


def test_text_only_moves_the_cursor_where_a_word_did_not_fit() -> None:
    """What is written beyond the text itself is what could flicker."""
    screen = Screen(40)
    text = "A sentence of plain words that is just long enough to need three lines of this screen. " * 3
    for word in re.findall(r"\S+\s*", text):
        screen.feed(word)
    screen.flush()
    written = "".join(screen.written)
    assert "\x1b" not in written
    assert len(written) < 1.2 * len(text)


def test_words_appear_at_once_and_not_when_their_line_is_complete() -> None:
    screen = Screen()
    screen.feed("The answer is for")
    assert screen.rows == ["The answer is for"]
    screen.feed("ty-two")
    assert screen.rows == ["The answer is forty-two"]


def test_a_text_longer_than_the_screen_scrolls_and_is_whole() -> None:
    text = "\n".join(f"line {number} of a long verse" for number in range(60))
    screen = Screen(40, rows=10)
    for piece in re.findall(r"\S+\s*", text):
        screen.feed(piece)
    screen.flush()
    assert screen.rows == text.split("\n")


def test_a_table_longer_than_the_screen_is_whole() -> None:
    rows = [f"| row {number} | {'x' * (number % 7)} |" for number in range(80)]
    text = "\n".join(["| name | value |", "|---|---|", *rows])
    screen = Screen(40, rows=12)
    for piece in re.findall(r"\S+\s*", text):
        screen.feed(piece)
    screen.flush()
    assert [row.split("│")[0].strip() for row in screen.rows[2:]] == [f"row {number}" for number in range(80)]


@pytest.mark.parametrize("columns", [30, 80])
def test_after_a_resize_the_open_block_is_drawn_anew(columns: int) -> None:
    screen = Screen(50)
    screen.feed("First.\n\nThis paragraph is open while somebody drags the corner of the window, and ")
    screen.resize(columns)
    screen.feed("then it goes on.")
    screen.flush()
    rows = screen.rows
    assert rows[0] == "First."
    assert " ".join(row for row in rows[1:] if row).endswith("the corner of the window, and then it goes on.")
    assert " ".join(rows).count("This paragraph") == 1
    assert all(len(row) < columns for row in rows)


def test_one_endless_line_costs_no_more_per_word_at_its_end() -> None:
    document = Document()
    lines = document.feed("word " * 20_000, 80)
    assert len(document._partial) <= MAX_LIVE_CHARS
    assert " ".join(line.text for line in lines + document.flush(80)).split() == ["word"] * 20_000


@pytest.mark.parametrize(
    ("begun", "text"),
    [
        ("a **bo", "a bo"),
        ("a **bold** an", "a bold an"),
        ("a **", "a"),
        ("it is `co", "it is co"),
        ("it is `", "it is"),
        ("see [the text](http://exa", "see the text"),
        ("```py\nx = ", "─── py\nx ="),
        ("```p", ""),
        ("#", ""),
        ("# Ti", "Ti"),
        ("-", ""),
        ("- it", "• it"),
        ("- **", ""),
        ("1", ""),
        ("1. it", "1. it"),
        ("| a | b", "a │ b\n──┼──"),
        ("| a | b |\n|--", "a │ b\n──┼──"),
        ("text\n--", "text"),
        ("> q", "│ q"),
        ("5 * 3", "5 * 3"),
    ],
)
def test_what_is_half_written_never_shows_its_signs(begun: str, text: str) -> None:
    document = Document()
    lines = [*document.feed(begun, 40), *document.preview(40)]
    assert "\n".join(line.text.rstrip() for line in lines) == text


@pytest.mark.parametrize(
    ("text", "screen"),
    [
        ("Hello\nworld", "Hello\nworld"),
        ("a\n\n\n\nb\n\n", "a\n\nb"),
        ("never **closed and *more", "never **closed and *more"),
        ("* a\n  1. b\n     - c\n* d", "• a\n  1. b\n     ▪ c\n• d"),
        ("1. a\n1. b\n1. c", "1. a\n2. b\n3. c"),
        ("5. a\n6. b", "5. a\n6. b"),
        ("In\n1984. No list", "In\n1984. No list"),
        ("- a\n\n  b\n\nc", "• a\n\n  b\n\nc"),
        ("> a\nlazy\n\nb", "│ a\n│ lazy\n\nb"),
        ("> > deep", "│ │ deep"),
        ("| a |\n|---|\n| 1 | 2 | 3 |", "a\n─────────\n1 | 2 | 3"),
        ("a|b\n-|-\n1|2\nend", "a │ b\n──┼──\n1 │ 2\nend"),
        ("no table | here", "no table | here"),
        ("Title\n===\ntext", "Title\ntext"),
        ("&lt;b&gt; &copy; &nonsense; &#27;[2J &#10;x", "<b> © &nonsense; &#27;[2J &#10;x"),
        ("one<br>two<br/>three", "one\ntwo\nthree"),
        (r"\*a\* \_b\_ C:\dir \(x_1\) \[y_2\]", r"*a* _b_ C:\dir \(x_1\) \[y_2\]"),
        ("$$ a * b * c $$", "$$ a * b * c $$"),
        ("[same](https://a.example) <https://b.example> <mailto:me@a.example>", None),
        ("![alt](pic.png)", "image: alt (pic.png)"),
        ("    indented\n    code", "indented\ncode"),
        ("```\n- no list\n**no bold**\n```\nafter", "───\n- no list\n**no bold**\n───\nafter"),
        ("```\nnever closed", "───\nnever closed\n───"),
        ("````\n```\n````", "───\n```\n───"),
        ("- ```sh\n  ls\n  ```", "• ─── sh\n  ls\n  ───"),
        ("use ```three``` ticks", "use three ticks"),
        ("windows\r\nline ends\r\n", "windows\nline ends"),
        ("My list:\n-", "My list:\n-"),
        ("> a|b\n-|-\n\nc", "│ a|b\n│ -|-\n\nc"),
        ("* - a", "• ◦ a"),
        ("1. a\n  - b\n2. d", "1. a\n   ◦ b\n2. d"),
        ("- ```sh\nls\n```\nb", "• ─── sh\n  ls\n  ───\nb"),
        ("    ```\n    x\n    ```", "───\nx\n───"),
        ("a\n     = 1\n     = 2", "a\n= 1\n= 2"),
        ("vector<std::string> [x](javascript:y)", "vector<std::string> [x](javascript:y)"),
        ("at https://a.example/b_(c). (https://d.example/e)", "at https://a.example/b_(c). (https://d.example/e)"),
        ("|x|y|\n|---|--:|\n| `a|b` | c \\| d |", "x   │     y\n────┼──────\na|b │ c | d"),
    ],
)
def test_blocks_and_spans_look_right(text: str, screen: str | None) -> None:
    if screen is None:
        screen = "same (https://a.example) https://b.example\nmailto:me@a.example"
    assert "\n".join(line.rstrip() for line in shown(text).split("\n")) == screen


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("a **b** c", ("b", "1")),
        ("a *b* c", ("b", "3")),
        ("a ***b*** c", ("b", "1;3")),
        ("a __b__ _c_", ("c", "3")),
        ("a ~~b~~ c", ("b", "9")),
        ("a `b*c*` d", ("b*c*", "36")),
        ("snake_case_name", ("snake_case_name", "")),
        ("**a `b` c**", ("b", "36;1")),
        ("**bold: *both* x**", ("both", "3;1")),
        ("[t](http://a.example)", (" (http://a.example)", "2")),
        ("```python\nreturn 1\n```", ("return", "35")),
        ("# T", ("T", "1;4;35")),
    ],
)
def test_styles_are_where_they_belong(text: str, span: tuple[str, str]) -> None:
    assert span in styled(text)


def test_a_long_line_of_code_is_one_line_for_whoever_copies_it() -> None:
    command = "curl " + "-H 'x: y' " * 12
    rows = render(f"```\n{command}\n```", 39)[1:-1]
    assert [row.soft for row in rows] == [True] * (len(rows) - 1) + [False]
    assert "".join(row.text for row in rows) == command
    screen = Screen(40)
    for piece in re.findall(r"\S+\s*", f"```\n{command}\n```"):
        screen.feed(piece)
    screen.flush()
    assert "".join(row.ljust(40) for row in screen.rows[1:-1]).strip() == command.strip()


def test_a_table_wider_than_the_screen_breaks_its_cells() -> None:
    text = f"| a | b |\n|---|---|\n| {'word ' * 12} | {'other ' * 3}|"
    lines = shown(text, 40).split("\n")
    assert all(width(line) <= 40 for line in lines)
    assert " ".join(line.split("│")[0].strip() for line in lines[2:]).split() == ["word"] * 12


def test_wide_signs_are_counted_as_terminals_do() -> None:
    lines = ["".join(text for text, _ in spans) for spans in wrap([("日本語です。とても", "")], 10)]
    assert all(width(line) <= 10 for line in lines)
    assert not any(line.startswith("。") for line in lines)


def test_what_is_counted_without_looking_up_takes_one_column() -> None:
    from wcwidth import wcwidth

    for code in range(0x20, 0x3000):
        if _ONE_COLUMN.fullmatch(chr(code)):
            assert wcwidth(chr(code)) == 1, hex(code)


@pytest.mark.parametrize(
    "sign", ["[", "![", "*a", "a* *b ", "`a``b", "<", "[a](", "_a*b~~c", "$$", "| ", "- ", "> ", "&a"]
)
def test_no_text_takes_long_to_read(sign: str) -> None:
    """Four times the text may take ten times the time: quadratic reading would take sixteen times.

    The best of three of this thread's own time, since neither a busy machine nor a collection is of the text's making.
    """

    def took_s(chars: int) -> float:
        text = (sign * chars)[: chars - 8]
        best_s = math.inf
        for number in range(3):  # what was read before is in a cache
            started_s = time.thread_time()
            document = Document()
            document.feed(f"{number}{chars}x {text}", 80)
            document.preview(80)
            best_s = min(best_s, time.thread_time() - started_s)
        return best_s

    assert took_s(MAX_LIVE_CHARS) < 10 * took_s(MAX_LIVE_CHARS // 4) + 0.1
