"""Fields of llama-server's completions that are refused or ignored, and why.

A test compares these and the honoured ones with the schema of the reference.
"""

from __future__ import annotations

from localllm.server.requests import speculating
from localllm.server.requests.field_rules import Fates, RefusedField

_FROM_THE_FIRST = "grammars apply from the first token"
_OF_CHATS = "it concerns the parsing of chat answers"
_OF_BUDGETS = "it concerns thinking budgets, which plain prompts do not have"

COMPLETION_FATES = Fates(
    refused={
        "grammar_lazy": RefusedField(_FROM_THE_FIRST, (False,)),
        "grammar_triggers": RefusedField(_FROM_THE_FIRST, ([],)),
        "min_keep": RefusedField("filters always keep at least one token", (0, 1)),
        "preserved_tokens": RefusedField("control tokens are not part of an answer's text", ([],)),
        "reasoning_budget_message": RefusedField(_OF_BUDGETS, ("",)),
    },
    ignored={
        "adaptive_decay": "it belongs to `adaptive_target`, which is not supported",
        "backend_sampling": "it does not affect which tokens are drawn",
        "chat_format": _OF_CHATS,
        "chat_parser": _OF_CHATS,
        "continue_final_message": _OF_CHATS,
        "echo": "it concerns the last message of a chat",
        "generation_prompt": _OF_CHATS,
        "message_delimiters": "checkpoints are placed automatically",
        "n_cache_reuse": "it only affects speed",
        "parse_tool_calls": _OF_CHATS,
        "reasoning_budget_end_tag": _OF_BUDGETS,
        "reasoning_budget_end_tags": _OF_BUDGETS,
        "reasoning_budget_start_tag": _OF_BUDGETS,
        "reasoning_control": _OF_BUDGETS,
        "reasoning_format": _OF_CHATS,
        "stream_options": "the last event always includes usage",
        "verbose": "replies always include llama-server's extensions",
    }
    | speculating.NO_EFFECT,
)
