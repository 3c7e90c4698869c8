"""What each kind of model is asked for a transcript, as its makers' code asks it, and how the texts of parts add up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import UnsupportedParameter
from localllm.runtime.transcripts.instructions import Prompt, Wanted, prompt_of
from localllm.runtime.transcripts.languages import code_of, name_of
from localllm.runtime.transcripts.parts import Growing, Part
from localllm.types import Delta, Finish, Media, Timings, Usage

SOUND = Media(kind="audio", digest="0" * 64, num_bytes=1, param="file")
TRANSLATE = Wanted("translate")
FINISH = Finish("stop", Usage(1, 1), Timings(0, 0, 0))


def _shown(prompt: Prompt) -> str:
    """The turns, or the raw text, with `*` for the sound."""

    def joined(parts: tuple[str | Media, ...]) -> str:
        return "".join(part if isinstance(part, str) else "*" for part in parts)

    if "prompt_parts" in prompt.fields:
        return joined(prompt.fields["prompt_parts"])
    turns = prompt.fields["messages"]
    return "|".join(f"{turn.role}: {joined(turn.parts) or turn.content}" for turn in turns)


@pytest.mark.parametrize(
    ("kind", "wanted", "has_task_token", "asks"),
    [
        ("voxtral", Wanted(), True, "[INST]*[/INST][TRANSCRIBE]"),
        ("voxtral", Wanted(language="German"), True, "[INST]*[/INST]lang:de[TRANSCRIBE]"),
        ("voxtral", Wanted(prompt="Who speaks?"), True, "user: Who speaks?*"),
        ("voxtral", Wanted(), False, "user: Transcribe audio to text*"),
        (
            "qwen3a", Wanted(), True,
            "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n*<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            "qwen3a", Wanted(language="de", prompt="Ulm, Bonn"), True,
            "<|im_start|>system\nUlm, Bonn<|im_end|>\n<|im_start|>user\n*<|im_end|>\n<|im_start|>assistant\n"
            "language German<asr_text>",
        ),
        ("qwen3a", Wanted(language="fr"), False, "user: *Transcribe the French audio into text."),
        ("qwen2a", Wanted(), False, "user: *Transcribe the audio into text."),
        (
            "qwen2.5o", Wanted(language="en"), False,
            "system: You are a speech recognition model.|user: *Transcribe the English audio into text.",
        ),
        (
            "qwen2.5o", Wanted("translate", language="de"), False,
            "system: You are a speech translation model.|user: *Listen to the provided German speech and produce a "
            "translation in English text.",
        ),
        ("glma", Wanted(), False, "user: *Please transcribe this audio into text"),
        ("glma", Wanted(language="xx"), False, "user: *Please transcribe this audio into text (language: xx)"),
        (
            "meralion", Wanted(), False,
            "user: Instruction: Please transcribe this speech. \nFollow the text instruction based on the following "
            "audio: *",
        ),
        (
            "meralion", TRANSLATE, False,
            "user: Instruction: Can you please translate this speech into written English? \nFollow the text "
            "instruction based on the following audio: *",
        ),
        ("lfm2a", Wanted(), False, "system: Perform ASR.|user: *"),
        ("unknown", TRANSLATE, False, "user: Translate the speech into English. Write only the translation.*"),
    ],
)  # fmt: skip
def test_each_kind_is_asked_what_it_was_trained_for(kind: str, wanted: Wanted, has_task_token: bool, asks: str) -> None:
    assert _shown(prompt_of(kind, SOUND, wanted, has_task_token=has_task_token)) == asks


def test_qwen3_asr_says_the_language_first_unless_it_is_given_and_does_not_translate() -> None:
    assert prompt_of("qwen3a", SOUND, Wanted(), has_task_token=True).begins_after == "<asr_text>"
    assert prompt_of("qwen3a", SOUND, Wanted(language="de"), has_task_token=True).begins_after == ""
    with pytest.raises(UnsupportedParameter, match="does not translate"):
        prompt_of("qwen3a", SOUND, TRANSLATE, has_task_token=True)


@pytest.mark.parametrize(
    ("language", "code", "name"),
    [
        ("de", "de", "German"), ("de-AT", "de", "German"), ("GERMAN", "de", "German"), ("zh_TW", "zh", "Chinese"),
        ("tlh", "tlh", "tlh"), ("Klingon", "Klingon", "Klingon"),
    ],
)  # fmt: skip
def test_languages_have_codes_and_names(language: str, code: str, name: str) -> None:
    assert (code_of(language), name_of(language)) == (code, name)


@given(st.lists(st.lists(st.sampled_from(["a", "b ", " c", " ", "", "字", "\n", "lang<t>"]), max_size=5), max_size=5))
def test_what_a_transcript_grows_by_adds_up_to_its_text(parts: list[list[str]]) -> None:
    for begins_after in ("", "<t>"):
        growing = Growing(1, [Part(0, 1) for _ in parts], begins_after)
        grown = "".join(
            growing.feed(index, delta)
            for index, texts in enumerate(parts)
            for delta in [*map(Delta, texts), Delta(finish=FINISH)]
        )
        assert grown == growing.whole().text
        spoken = [segment.text for segment in growing.whole().segments if segment.text]
        assert grown.replace(" ", "") == "".join(spoken).replace(" ", "")
