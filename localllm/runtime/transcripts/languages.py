"""Names of spoken languages by their codes, for prompts that name one. Knows no model."""

from __future__ import annotations

NAMES = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "fa": "Persian", "fi": "Finnish", "fil": "Filipino", "fr": "French", "hi": "Hindi", "hu": "Hungarian",
    "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "mk": "Macedonian", "ms": "Malay",
    "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "sv": "Swedish", "ta": "Tamil", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese",
    "yue": "Cantonese", "zh": "Chinese",
}  # fmt: skip
"""ISO 639 code -> English name: the 30 languages of Qwen3-ASR, and some more."""
_CODES = {name.lower(): code for code, name in NAMES.items()}


def name_of(language: str) -> str:
    """`German` for `de`, `de-AT` and `german`; what is unknown as it is."""
    return NAMES.get(code_of(language), language)


def code_of(language: str) -> str:
    """`de` for `de`, `de-AT` and `German`; what is unknown as it is."""
    given = language.lower()
    code = _CODES.get(given, given.replace("_", "-").partition("-")[0])
    return code if code in NAMES else language
