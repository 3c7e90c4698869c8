"""Structural tags: free text, but for what stands between given tags."""

from __future__ import annotations

from typing import Any

from llguidance import StructTag

from localllm.errors import InvalidParameter


def grammars_of_tags(source: Any, param: str) -> list[dict[str, Any]]:
    """The grammars for it, the first named `document`. Raises `InvalidParameter`."""
    try:
        tags = [
            StructTag(
                trigger=next(one for one in source["triggers"] if tag["begin"].startswith(one)),
                begin=tag["begin"],
                grammar=tag["schema"],
                end=tag["end"],
            )
            for tag in source["structures"]
        ]
    except (TypeError, KeyError, StopIteration):
        raise InvalidParameter(f"{param} is not a structural tag", param=param) from None
    return [{"name": "document", "lark_grammar": StructTag.to_grammar(tags, assume_special=False)}]
