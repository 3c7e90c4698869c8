"""What becomes of the fields of llama-server's completions that are not honoured, and why.

A test compares them, and those that are, with the schema of the reference.
"""

from __future__ import annotations

from localllm.server.fields import Fates, Refused

_FROM_THE_FIRST = "a grammar holds from the first token on"
_OF_CHATS = "it is about how the answer of a chat is read"
_OF_BUDGETS = "it is of a budget of thoughts, which a plain prompt has not"

COMPLETION_FATES = Fates(
    refused={
        "grammar_lazy": Refused(_FROM_THE_FIRST, (False,)),
        "grammar_triggers": Refused(_FROM_THE_FIRST, ([],)),
        "lora": Refused("no adapters are loaded", ([],)),
        "min_keep": Refused("the filters leave one token at least, and no more by themselves", (0, 1)),
        "preserved_tokens": Refused("control tokens are no part of an answer's text", ([],)),
        "reasoning_budget_message": Refused(_OF_BUDGETS, ("",)),
    },
    ignored={
        "adaptive_decay": "it is of `adaptive_target`, which has to be off",
        "backend_sampling": "where tokens are drawn does not change which",
        "chat_format": _OF_CHATS,
        "chat_parser": _OF_CHATS,
        "continue_final_message": _OF_CHATS,
        "echo": "it is of a chat's last message",
        "generation_prompt": _OF_CHATS,
        "message_delimiters": "where checkpoints are worth it is found out",
        "n_cache_reuse": "it only ever makes the same answer faster",
        "parse_tool_calls": _OF_CHATS,
        "reasoning_budget_end_tag": _OF_BUDGETS,
        "reasoning_budget_end_tags": _OF_BUDGETS,
        "reasoning_budget_start_tag": _OF_BUDGETS,
        "reasoning_control": _OF_BUDGETS,
        "reasoning_format": _OF_CHATS,
        "stream_options": "the last event always has the counts",
        "verbose": "all that it adds to OpenAI's answers is there",
    },
)
