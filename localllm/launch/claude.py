"""Claude Code, configured by its environment (code.claude.com/docs/en/env-vars).

The user's settings.json overrides the environment, and --settings overrides both, so the values are given in both.
"""

from __future__ import annotations

import json

from localllm.launch.setup import Agent, AgentFolders, Setup, Target

SETTINGS = "claude-settings.json"


def _set_up(target: Target, place: AgentFolders) -> Setup:
    ctx = str(target.ctx)
    tiers = [f"ANTHROPIC_DEFAULT_{tier}_MODEL" for tier in ("OPUS", "SONNET", "HAIKU")]
    tiers += ["ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL"]
    environment = {
        "ANTHROPIC_BASE_URL": target.url,
        "ANTHROPIC_AUTH_TOKEN": target.token,
        **dict.fromkeys(tiers, target.model),
        # It compacts at this size less the answer and 13,000 tokens.
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": ctx,
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": ctx,
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(target.max_output),
        # Without this, a line of the system prompt that changes with every request would end the cached prefix.
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        # Likewise: how many tokens are left, in the system prompt and after the calls' results.
        "CLAUDE_CODE_TOTAL_TOKENS_REMINDER": "off",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "API_TIMEOUT_MS": "3600000",
    }
    return Setup(
        environment=environment,
        arguments=("--settings", str(place.files / SETTINGS)),
        files={SETTINGS: json.dumps({"env": environment}, indent=2) + "\n"},
        unset=(
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CODE_USE_FOUNDRY",
        ),
    )


AGENT = Agent(
    name="claude",
    title="Claude Code",
    program="claude",
    install="npm install -g @anthropic-ai/claude-code",
    uses="Anthropic Messages, by its environment and a temporary file",
    set_up=_set_up,
    places=(".local/bin", ".claude/local"),
    least_ctx=49_152,
)
