"""What models that hear are asked for a transcript, by the type of their projector: what each was trained for.

Voxtral's is no chat: `[INST]`, the sound, `[/INST]lang:en[TRANSCRIBE]` (mistral-common, `encode_transcription`).
Gemma's and Granite's are those of their cards, Ultravox's of its training data, LFM2's and the default llama-server's.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from localllm.types import Media, Message

Task = Literal["transcribe", "translate"]
TRANSCRIBE = "[TRANSCRIBE]"
"""Voxtral's token for this task."""
_ENGLISH = "Translate the speech into English. Write only the translation."


class Instruction(NamedTuple):
    """How one kind of model is asked."""

    text: str = "Transcribe audio to text"
    translating: str = _ENGLISH
    system: str = ""
    sound_first: bool = False
    begins_after: str = ""
    """What may stand before the transcript, up to here."""


INSTRUCTIONS: dict[str, Instruction] = {
    "gemma4a": (
        gemma := Instruction(
            "Transcribe the following speech segment in its original language. Follow these specific instructions for "
            "formatting the answer:\n* Only output the transcription, with no newlines.\n* When transcribing numbers, "
            "write the digits, i.e. write 1.7 and not one point seven, and write 3 instead of three.",
            sound_first=True,
        )
    ),
    "gemma4ua": gemma,
    "glma": Instruction("Please transcribe this audio into text", sound_first=True),
    "granite_speech": Instruction(
        "can you transcribe the speech into a written format?",
        "can you translate the speech into English?",
        sound_first=True,
    ),
    "lfm2a": Instruction("", system="Perform ASR."),
    "meralion": Instruction("Please transcribe this speech.", "Please translate this speech into English."),
    "qwen2.5o": Instruction(
        "Transcribe the audio into text.", system="You are a speech recognition model.", sound_first=True
    ),
    "qwen2a": Instruction("Transcribe the audio into text.", sound_first=True),
    "qwen3a": Instruction(begins_after="<asr_text>"),
    "ultravox": Instruction("Transcribe"),
}
_DEFAULT = Instruction()


def instruction_for(kind: str) -> Instruction:
    """That of a projector's type."""
    return INSTRUCTIONS.get(kind, _DEFAULT)


def prompt_of(
    kind: str, sound: Media, task: Task, *, prompt: str, language: str, has_transcribe_token: bool
) -> dict[str, Any]:
    """The prompt for one part of a sound, as fields of `GenerationRequest`. `prompt`: replaces the instruction."""
    if kind == "voxtral" and has_transcribe_token and task == "transcribe" and not prompt:
        spoken = f"lang:{language}" if language else ""
        return {"prompt_parts": ("[INST]", sound, f"[/INST]{spoken}{TRANSCRIBE}")}
    how = instruction_for(kind)
    text = prompt or (how.text if task == "transcribe" else how.translating)
    if language and text:
        text = f"{text} (language: {language})"
    parts: list[str | Media] = [sound, text] if how.sound_first else [text, sound]
    user = Message("user", text, parts=tuple(part for part in parts if part))
    system = how.system if task == "transcribe" and not prompt else ""
    return {"messages": (Message("system", system), user) if system else (user,)}
