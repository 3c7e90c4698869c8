"""What models that hear are asked for a transcript, by the type of their projector: what each was trained for.

Two were trained for prompts that are no chat, if their vocabulary has the task's token (`TASK_TOKENS`):
  voxtral   `[INST]`, the sound, `[/INST]lang:en[TRANSCRIBE]`    mistral-common, `_encode_instruct_transcription`
  qwen3a    system message: context; user: the sound alone; the answer begins with `language English<asr_text>`, which
            is given if the language is (QwenLM/Qwen3-ASR; vLLM, `qwen3_asr.py`, `get_generation_prompt`)
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from localllm.errors import UnsupportedParameter
from localllm.runtime.transcripts.languages import code_of, name_of
from localllm.types import Media, Message

Task = Literal["transcribe", "translate"]
TASK_TOKENS = {"qwen3a": "<asr_text>", "voxtral": "[TRANSCRIBE]"}
"""Projectors of these types are also those of chat models without the token: Qwen3-Omni's is Qwen3-ASR's."""
_ENGLISH = "Translate the speech into English. Write only the translation."


class Wanted(NamedTuple):
    """What is to be written down."""

    task: Task = "transcribe"
    prompt: str = ""
    """What the model is asked, in place of what its kind was trained for."""
    language: str = ""
    """Of the sound; empty: the model finds out."""


class Prompt(NamedTuple):
    """The prompt for one part of a sound."""

    fields: dict[str, Any]
    """Of `GenerationRequest`."""
    begins_after: str = ""
    """What may stand before the transcript, up to here."""


class Instruction(NamedTuple):
    """How one kind of chat model is asked."""

    text: str = "Transcribe audio to text"
    translating: str = _ENGLISH
    named: str = ""
    """`text` if the language is known; empty: the language is added in brackets."""
    named_translating: str = ""
    system: str = ""
    system_translating: str = ""
    sound_first: bool = True
    around: str = "{}"
    """What every instruction is put in."""

    def asked(self, wanted: Wanted) -> str:
        """The text for the user's turn."""
        is_translation = wanted.task == "translate"
        text, named = (self.translating, self.named_translating) if is_translation else (self.text, self.named)
        if wanted.prompt:
            text, named = wanted.prompt, ""
        if wanted.language and named:
            text = named.format(name_of(wanted.language))
        elif wanted.language and text:
            text = f"{text} (language: {name_of(wanted.language)})"
        return self.around.format(text) if text else ""


_QWEN = Instruction(
    "Transcribe the audio into text.",
    "Listen to the provided speech and produce a translation in English text.",
    "Transcribe the {} audio into text.",
    "Listen to the provided {} speech and produce a translation in English text.",
)
INSTRUCTIONS: dict[str, Instruction] = {
    "gemma4a": (
        gemma := Instruction(  # Gemma's card
            "Transcribe the following speech segment in its original language. Follow these specific instructions for "
            "formatting the answer:\n* Only output the transcription, with no newlines.\n* When transcribing numbers, "
            "write the digits, i.e. write 1.7 and not one point seven, and write 3 instead of three.",
        )
    ),
    "gemma4ua": gemma,
    # transformers, `GlmAsrProcessor.apply_transcription_request`; vLLM, `glmasr.py`
    "glma": Instruction("Please transcribe this audio into text", "Please translate this audio into English text"),
    "granite_speech": Instruction(  # Granite's card
        "can you transcribe the speech into a written format?", "can you translate the speech into English?"
    ),
    "lfm2a": Instruction("", system="Perform ASR.", sound_first=False),  # llama.cpp, `common_chat_get_asr_prompt`
    "meralion": Instruction(  # the cards of MERaLiON-2 and MERaLiON-3
        "Please transcribe this speech.",
        "Can you please translate this speech into written English?",
        sound_first=False,
        around="Instruction: {} \nFollow the text instruction based on the following audio: ",
    ),
    # QwenLM/Qwen2.5-Omni, `cookbooks/universal_audio_understanding.ipynb`, without its ban on punctuation
    "qwen2.5o": _QWEN._replace(
        system="You are a speech recognition model.", system_translating="You are a speech translation model."
    ),
    # Qwen2-Audio-Instruct takes free instructions; those of its benchmarks are for the base model, which does not chat.
    "qwen2a": _QWEN,
    "qwen3a": _QWEN,  # Qwen3-Omni's card: "Default Prompts", and no system message
    "ultravox": Instruction("Transcribe", sound_first=False),  # of its training data
}
_DEFAULT = Instruction(sound_first=False)
"""llama-server's."""


def prompt_of(kind: str, sound: Media, wanted: Wanted, *, has_task_token: bool) -> Prompt:
    """The prompt for one part of a sound. Raises `UnsupportedParameter` for a translation by a model that only writes
    down."""
    if has_task_token and kind == "qwen3a":
        return _qwen3_asr(sound, wanted)
    if has_task_token and kind == "voxtral" and wanted.task == "transcribe" and not wanted.prompt:
        spoken = f"lang:{code_of(wanted.language)}" if wanted.language else ""
        return Prompt({"prompt_parts": ("[INST]", sound, f"[/INST]{spoken}{TASK_TOKENS[kind]}")})
    how = INSTRUCTIONS.get(kind, _DEFAULT)
    text = how.asked(wanted)
    parts: list[str | Media] = [sound, text] if how.sound_first else [text, sound]
    user = Message("user", text, parts=tuple(part for part in parts if part))
    system = how.system if wanted.task == "transcribe" else how.system_translating
    has_system = system and not wanted.prompt
    return Prompt({"messages": (Message("system", system), user) if has_system else (user,)})


def _qwen3_asr(sound: Media, wanted: Wanted) -> Prompt:
    if wanted.task == "translate":
        raise UnsupportedParameter("Qwen3-ASR writes down what is said; it does not translate", param="model")
    marker = TASK_TOKENS["qwen3a"]
    head = f"<|im_start|>system\n{wanted.prompt}<|im_end|>\n<|im_start|>user\n"
    given = f"language {name_of(wanted.language)}{marker}" if wanted.language else ""
    tail = f"<|im_end|>\n<|im_start|>assistant\n{given}"
    return Prompt({"prompt_parts": (head, sound, tail)}, begins_after="" if given else marker)
