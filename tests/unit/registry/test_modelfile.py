"""Modelfiles: read as Ollama reads them, written so that they read back to the same, refused with the line at fault."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.chat.jinja import apply
from localllm.errors import InvalidParameter
from localllm.registry.making.modelfile import (
    MAX_MODELFILE_BYTES,
    Modelfile,
    format_modelfile,
    is_go_template,
    parse_modelfile,
)
from localllm.registry.making.parameters import RawParameter, collect
from localllm.types import MAX_STOP_CHARS, Message, SamplingParams


def test_the_example_of_ollamas_documentation_is_understood() -> None:
    modelfile = parse_modelfile(
        "FROM llama3.2\n"
        "# sets the temperature to 1 [higher is more creative, lower is more coherent]\n"
        "PARAMETER temperature 1\n"
        "PARAMETER num_ctx 4096\n"
        "\n"
        "SYSTEM You are Mario from super mario bros, acting as an assistant.\n"
    )
    assert modelfile == Modelfile(
        bases=("llama3.2",),
        params=SamplingParams(temperature=1.0),
        ctx=4096,
        system="You are Mario from super mario bros, acting as an assistant.",
    )


def test_every_parameter_of_ollama_that_a_model_may_have_is_taken() -> None:
    text = "FROM m\n" + "".join(
        f"PARAMETER {line}\n"
        for line in (
            "num_predict 42", "num_ctx 2048", "repeat_last_n 64", "repeat_penalty 1.1", "temperature 0.7", "seed 42",
            'stop "<|im_end|>"', "stop AI assistant:", "top_k 40", "top_p 0.9", "min_p 0.05", "typical_p 0.7",
            "presence_penalty 1.5", "frequency_penalty 1", "mirostat 1", "mirostat_tau 0.8", "mirostat_eta 0.6",
        )
    )  # fmt: skip
    modelfile = parse_modelfile(text)
    assert modelfile.stop == ("<|im_end|>", "AI assistant:")
    assert modelfile.ctx == 2048
    assert modelfile.params == SamplingParams(
        max_tokens=42, repeat_last_n=64, repeat_penalty=1.1, temperature=0.7, seed=42, top_k=40, top_p=0.9, min_p=0.05,
        typical_p=0.7, presence_penalty=1.5, frequency_penalty=1.0, mirostat=1, mirostat_tau=0.8, mirostat_eta=0.6,
    )  # fmt: skip


def test_ollamas_numbers_for_none_are_none() -> None:
    for limit in ("num_predict -1", "num_predict -2", "num_predict 0", "max_tokens -1"):
        modelfile = parse_modelfile(f"FROM m\nPARAMETER {limit}\nPARAMETER seed -1\n")
        assert modelfile.params == SamplingParams()


def test_a_model_that_never_answers_is_refused() -> None:
    with pytest.raises(
        InvalidParameter, match="line 2: the parameter max_tokens is 0, so the model would never answer"
    ):
        parse_modelfile("FROM m\nPARAMETER max_tokens 0\n")


@pytest.mark.parametrize("seed", [2**63 - 1, -(2**63), 2**53 + 1])
def test_a_seed_of_64_bits_is_read_whole(seed: int) -> None:
    assert parse_modelfile(f"FROM m\nPARAMETER seed {seed}\n").params.seed == seed
    assert collect([RawParameter("seed", seed)]).params.seed == seed


def test_texts_run_over_lines_in_three_quotes_and_in_one() -> None:
    modelfile = parse_modelfile(
        'from ./a b.gguf\r\nsystem """\r\nBe "kind".\r\n  Be brief.\r\n"""  \r\nLicense "one\n\ntwo"\nLICENSE three\n'
    )
    assert modelfile.bases == ("./a b.gguf",)
    assert modelfile.system == '\nBe "kind".\n  Be brief.\n'
    assert modelfile.license_text == ("one\n\ntwo", "three")


def test_quotes_inside_a_line_and_hashes_inside_a_text_are_text() -> None:
    modelfile = parse_modelfile('FROM m\nSYSTEM "say "hi" # now"\nMESSAGE user # one\nMESSAGE assistant """a"b"""\n')
    assert modelfile.system == 'say "hi" # now'
    assert modelfile.messages == (Message("user", "# one"), Message("assistant", 'a"b'))


def test_utf16_and_a_byte_order_mark_are_read_as_windows_editors_write_them() -> None:
    for encoding in ("utf-16", "utf-8-sig"):
        assert parse_modelfile("FROM m\nSYSTEM Grüße\n".encode(encoding)).system == "Grüße"


def test_a_jinja_template_is_taken_and_one_of_go_translated_or_refused_by_name() -> None:
    jinja = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    assert parse_modelfile(f'FROM m\nTEMPLATE """{jinja}"""\n').template == jinja
    template = parse_modelfile('FROM m\nTEMPLATE """{{ if .System }}{{ .System }}{{ end }}{{ .Prompt }}"""\n').template
    assert template is not None
    assert apply(template, messages=[{"role": "user", "content": "Hi"}], add_generation_prompt=True) == "Hi"
    with pytest.raises(InvalidParameter, match=r"line 2: this TEMPLATE .* column 4: define .*or remove it") as caught:
        parse_modelfile('FROM m\nTEMPLATE """{{ define "x" }}{{ .Prompt }}{{ end }}"""\n')
    assert caught.value.param == "template"
    with pytest.raises(InvalidParameter, match="no place for messages"):
        parse_modelfile("FROM m\nTEMPLATE hello\n")


@pytest.mark.parametrize(
    "template",
    [
        "{{ .Prompt }}",
        "{{- range .Messages }}x{{ end }}",
        "{{ $x }}",
        "{{ if eq .Role `user` }}",
        "{{/* c */}}{{ end }}",
    ],
)
def test_go_templates_are_told(template: str) -> None:
    assert is_go_template(template)


@pytest.mark.parametrize(
    "template", ["{{ bos_token }}{{ messages[0].content }}", "{{ range_ }}", "{%- if a %}{% endif %}"]
)
def test_jinja_templates_are_not_taken_for_gos(template: str) -> None:
    assert not is_go_template(template)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", None, "no FROM"),
        ("# only a comment\n", None, "no FROM"),
        ("FROM\n", 1, "FROM needs a value"),
        ("FROM m\n\nSYSTM hi\n", 3, "did you mean SYSTEM"),
        ("FROM m\nI am a stray line\n", 2, "needs quotes"),
        ('FROM m\nSYSTEM """never\nends\n', 2, "is not closed"),
        ('FROM m\nSYSTEM "never', 2, "is not closed"),
        ("FROM m\nADAPTER a.gguf\nADAPTER b.gguf\n", 3, "ADAPTER appears twice"),
        ("FROM m\nADAPTER a.gguf 1e9\n", 2, "the scale of an adapter"),
        ("FROM m\nDRAFT ./d.gguf\n", 2, "DRAFT is not supported; remove it"),
        ("FROM m\nMESSAGE robot hi\n", 2, "one of system, user, assistant, not 'robot'"),
        ("FROM m\nSYSTEM a\nSYSTEM b\n", 3, "SYSTEM appears twice"),
        ("FROM m\nPARAMETER temprature 1\n", 2, "temprature is not a parameter.*temperature"),
        ("FROM m\nPARAMETER\n", 2, "not a parameter"),
        ("FROM m\nPARAMETER temperature warm\n", 2, "temperature must be a number, not 'warm'"),
        ("FROM m\nPARAMETER top_k 1.5\n", 2, "top_k must be a whole number"),
        ("FROM m\nPARAMETER top_p 2\n", 2, "top_p cannot be used: top_p must be from 0.0 to 1.0"),
        ("FROM m\nPARAMETER temperature nan\n", 2, "temperature cannot be used"),
        ("FROM m\nPARAMETER num_ctx 3\n", 2, "num_ctx must be 8"),
        ("FROM m\nPARAMETER seed 1\nPARAMETER seed 2\n", 3, "seed appears twice"),
        ("FROM m\nPARAMETER num_gpu 20\n", 2, "num_gpu depends on the machine.*--gpu-layers"),
        ("FROM m\nPARAMETER num_thread 8\n", 2, "--threads"),
        ("FROM m\nPARAMETER use_mmap false\n", 2, "use_mmap depends on the machine"),
        ("FROM m\nPARAMETER num_keep 5\n", 2, "num_keep is not supported"),
    ],
)
def test_an_error_names_the_line_and_the_remedy(text: str, line: int | None, reason: str) -> None:
    with pytest.raises(InvalidParameter, match=reason) as caught:
        parse_modelfile(text)
    if line is not None:
        assert caught.value.message.startswith(f"Modelfile, line {line}:")


def test_what_is_ollamas_own_is_said_to_have_no_effect() -> None:
    modelfile = parse_modelfile("FROM m\nREQUIRES 0.14.0\nRENDERER qwen3-coder\nPARSER qwen3-coder\n")
    assert len(modelfile.notices) == 3
    assert all("no effect" in notice for notice in modelfile.notices)


def test_an_oversized_or_binary_file_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="longer than"):
        parse_modelfile(b"#" * (MAX_MODELFILE_BYTES + 1))
    with pytest.raises(InvalidParameter, match="UTF-8"):
        parse_modelfile(b"FROM m\nSYSTEM \xff\xff")


TEXTS = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=60) | st.text(
    'ab" \n\t#{}', max_size=30
)
NOT_BLANK = TEXTS.filter(lambda text: text.strip() != "")


@st.composite
def modelfiles(draw: st.DrawFn) -> Modelfile:
    finite = st.floats(0.0, 1.0)
    return Modelfile(
        bases=tuple(draw(st.lists(NOT_BLANK, min_size=1, max_size=2))),
        params=SamplingParams(
            temperature=draw(st.none() | finite),
            top_p=draw(st.none() | finite),
            top_k=draw(st.none() | st.integers(0, 2**31 - 1)),
            seed=draw(st.none() | st.integers(-(2**63), 2**63 - 1).filter(lambda seed: seed != -1)),
            max_tokens=draw(st.none() | st.integers(1, 2**31 - 1)),
            dry_sequence_breakers=draw(
                st.none() | st.lists(st.text("ab\n:", min_size=1, max_size=4), min_size=1, max_size=4).map(tuple)
            ),
            logit_bias=draw(st.none() | st.dictionaries(st.integers(0, 99), finite, min_size=1, max_size=3)),
            stop_token_ids=tuple(draw(st.lists(st.integers(0, 99), max_size=3))),
            ignore_eos=draw(st.booleans()),
        ),
        stop=tuple(draw(st.lists(TEXTS.filter(lambda text: 1 <= len(text) <= MAX_STOP_CHARS), max_size=256))),
        ctx=draw(st.none() | st.integers(8, 2**24)),
        system=draw(st.none() | TEXTS),
        messages=tuple(
            draw(st.lists(st.builds(Message, st.sampled_from(["system", "user", "assistant"]), TEXTS), max_size=3))
        ),
        license_text=tuple(draw(st.lists(NOT_BLANK, max_size=2))),
        requires=draw(st.none() | st.just("0.14.0")),
    )


@given(modelfiles())
def test_what_is_written_is_read_back_to_the_same(modelfile: Modelfile) -> None:
    texts = (modelfile.system or "", *modelfile.bases, *modelfile.stop, *modelfile.license_text)
    texts += tuple(message.content for message in modelfile.messages)
    if any(line.rstrip().endswith('"""') for text in texts for line in f'"""{text}'.split("\n")[:-1]):
        return  # the one kind of text that the syntax has no way to write; see below
    assert parse_modelfile(format_modelfile(modelfile)) == modelfile


def test_only_a_line_that_ends_with_three_quotes_cannot_be_written() -> None:
    for text in ('"', '""', '"""', 'a"\nb', '"""x', " padded ", "a\n", '"a"', 'x """ y\n"', "", '"\n"', "#"):
        written = format_modelfile(Modelfile(bases=("m",), system=text))
        assert parse_modelfile(written).system == text, written
    with pytest.raises(InvalidParameter, match='ends with """'):
        format_modelfile(Modelfile(bases=("m",), system='a"""\nb'))


@given(st.text(max_size=200) | st.text('FROM SYSTEMPARAMETER"\n #', max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidParameter):
        assert parse_modelfile(text).bases, "a model is made from something"
