"""GBNF, as llama.cpp writes grammars, to Lark."""

from __future__ import annotations

from llguidance.gbnf_to_lark import gbnf_to_lark

from localllm.errors import InvalidParameter


def lark_of(source: str, param: str) -> str:
    """The grammar in Lark. Raises `InvalidParameter`."""
    try:
        return str(gbnf_to_lark(source))
    except Exception:  # noqa: BLE001
        raise InvalidParameter(f"{param} is not GBNF", param=param) from None
