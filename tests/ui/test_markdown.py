"""Markdown as it comes: whatever is cut anywhere ends as the same nodes as the whole, and they are the right ones."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

from tests.server.conftest import Served
from tests.ui.conftest import cpu_time_of

STREAMED = """
async ([text, cuts]) => {
    const { Markdown } = await import("/ui/markdown.js");
    const whole = new Markdown(), grown = new Markdown();
    whole.update(text);
    for (const cut of [...cuts, text.length]) grown.update(text.slice(0, cut));
    return [grown.node.innerHTML, whole.node.innerHTML];
}
"""
SHOWN = """
async (text) => {
    const { Markdown } = await import("/ui/markdown.js");
    const view = new Markdown();
    view.update(text);
    return view.node.innerHTML;
}
"""
PIECES = st.sampled_from([
    "# Title\n", "## A\n", "text ", "words and\n", "\n", "\n\n", "- item\n", "  - inner\n", "* other\n", "1. one\n",
    "2. two\n", "   more\n", "> quoted\n", "> > deep\n", "```python\n", "x = 'a' # b\n", "```\n", "~~~\n",
    "| a | b |\n", "|---|:-:|\n", "| 1 | 2 |\n", "**bold**", "*em*", "`code`", "[link](https://x.org)", "<b>",
    "---\n", "- [x] done\n", "$$\nx^2\n$$\n", "$$", "&amp; &lt", "\\[ y \\]\n", "$z$ ", "_a_b_", "~~no~~", "\\*",
    "    deep\n", "ٱلسلام ", "`", "*", "[", "|", "#", "-",
])  # fmt: skip


@pytest.fixture(scope="module")
def blank(browser: Browser, scripted: Served) -> Page:
    page = browser.new_page()
    page.goto(f"{scripted.url}/ui/icon.svg")
    page.goto(scripted.url)
    return page


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.lists(PIECES, max_size=25).map("".join), data=st.data())
def test_a_text_that_grows_ends_as_the_whole_does(blank: Page, text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    grown, whole = blank.evaluate(STREAMED, [text, cuts])
    assert grown == whole


SQUARE = 'alttext="x^2"><msup><mi>x</mi><mn>2</mn></msup></math>'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a **b** *c* `d` ~~e~~", '<p dir="auto">a <strong>b</strong> <em>c</em> <code>d</code> <del>e</del></p>'),
        ("snake_case_name", '<p dir="auto">snake_case_name</p>'),
        ("2 * 3 * 4", '<p dir="auto">2 * 3 * 4</p>'),
        ("costs $5 and $6", '<p dir="auto">costs $5 and $6</p>'),
        ("- a\n  - b", '<ul><li><p dir="auto">a</p><ul><li><p dir="auto">b</p></li></ul></li></ul>'),
        ("3. a\n4. b", '<ol start="3"><li><p dir="auto">a</p></li><li><p dir="auto">b</p></li></ol>'),
        ("> a\nb", '<blockquote><p dir="auto">a\nb</p></blockquote>'),
        ("- [x] a", '<ul><li><p dir="auto">☑ a</p></li></ul>'),
        ("# A\nb", '<h3 dir="auto">A</h3><p dir="auto">b</p>'),
        ("<b>x</b>", '<p dir="auto">&lt;b&gt;x&lt;/b&gt;</p>'),
        ("a&amp;b &lt;i&gt; &#8594; &#x3C0; &copy; &none;", '<p dir="auto">a&amp;b &lt;i&gt; → π © &amp;none;</p>'),
        ("`&amp;`", '<p dir="auto"><code>&amp;amp;</code></p>'),
        ("$$\nx^2\n$$", f'<div class="math block" dir="ltr"><math display="block" {SQUARE}</div>'),
        ("\\[ x^2 \\]", f'<div class="math block" dir="ltr"><math display="block" {SQUARE}</div>'),
        ("so $$x^2$$ is", f'<p dir="auto">so <span class="math" dir="ltr"><math {SQUARE}</span> is</p>'),
        ("$$x$$ is", '<p dir="auto"><span class="math" dir="ltr"><math alttext="x"><mi>x</mi></math></span> is</p>'),
        ("$$ is money\n\n**b**", '<p dir="auto">$$ is money</p><p dir="auto"><strong>b</strong></p>'),
        (
            "$x_1$",
            '<p dir="auto"><span class="math" dir="ltr"><math alttext="x_1"><msub><mi>x</mi><mn>1</mn></msub></math>'
            "</span></p>",
        ),
    ],
)  # fmt: skip
def test_what_markdown_means(blank: Page, text: str, html: str) -> None:
    assert blank.evaluate(SHOWN, text) == html


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (r"\frac12", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
        (r"\sqrt[3]{x}", "<mroot><mi>x</mi><mn>3</mn></mroot>"),
        (r"\sum_{i}^n", '<munderover><mo largeop="true" movablelimits="true">∑</mo><mi>i</mi><mi>n</mi></munderover>'),
        (r"\mathbb{R}", '<mi mathvariant="normal">ℝ</mi>'),
        ("f'", "<msup><mi>f</mi><mo>′</mo></msup>"),
        (r"\text{if }x", "<mtext>if&nbsp;</mtext><mi>x</mi>"),
        ("=-1", '<mo>=</mo><mo form="prefix">−</mo><mn>1</mn>'),
        (
            r"\begin{pmatrix}a&b\\c&d\end{pmatrix}",
            '<mrow><mo stretchy="true" form="prefix">(</mo><mtable>'
            '<mtr><mtd class="mc"><mi>a</mi></mtd><mtd class="mc"><mi>b</mi></mtd></mtr>'
            '<mtr><mtd class="mc"><mi>c</mi></mtd><mtd class="mc"><mi>d</mi></mtd></mtr>'
            '</mtable><mo stretchy="true" form="postfix">)</mo></mrow>',
        ),
    ],
)
def test_formulas_become_mathml(blank: Page, source: str, shown: str) -> None:
    html = blank.evaluate(SHOWN, f"$$\n{source}\n$$")
    assert re.sub("^.*<math[^>]*>|</math>.*$", "", html) == shown


def test_a_formula_of_which_something_is_unknown_stays_its_source(blank: Page) -> None:
    for source in (
        r"\unheard{x}", "{x", "x}", "a & b", "x^1^2", "x^", r"\frac{1}", r"\left( x", r"\begin{pmatrix} a",
        r"\begin{tikz}\end{tikz}", r"\constructor", r"\toString{x}",
        "{" * 200 + "}" * 200, r"\sqrt" * 5000, "x" * 5000, r"\text{a", "\\",
    ):  # fmt: skip
        html = blank.evaluate(SHOWN, f"$$\n{source}\n$$")
        assert html == f'<div class="math block source" dir="ltr">{source.replace("&", "&amp;")}</div>'


def test_code_has_its_language_its_colours_and_nothing_of_its_fence(blank: Page) -> None:
    html = blank.evaluate(SHOWN, "```python\ndef f():  # why\n    return 'x'\n```")
    assert '<span class="keyword">def</span>' in html
    assert '<span class="comment"># why</span>' in html
    assert "<span class=\"string\">'x'</span>" in html
    assert "```" not in html


def test_two_hundred_thousand_characters_that_come_bit_by_bit_cost_little_a_piece(blank: Page) -> None:
    """A page that shows 200 tokens a second has 5 ms of CPU time for each."""
    cpu_ms = cpu_time_of(blank)
    before_ms = cpu_ms()
    num_pieces = blank.evaluate(
        """
        async () => {
            const { Markdown } = await import("/ui/markdown.js");
            const view = new Markdown();
            document.body.append(view.node);
            const part = "Some **words** and `code`.\\n\\n- a\\n- b\\n\\n```py\\nx = 1\\n```\\n\\n"
                + "| a | b |\\n|---|---|\\n| 1 | 2 |\\n\\n";
            const text = part.repeat(Math.ceil(200_000 / part.length));
            let count = 0;
            for (let end = 0; end < text.length; end += 400, count++) view.update(text.slice(0, end));
            view.node.remove();
            return count;
        }
        """
    )
    assert num_pieces >= 500
    assert (cpu_ms() - before_ms) / num_pieces < 5
