"""MCP servers that are not as they should be, written by hand: `python -P -m tests.mcp.odd_server KIND`."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = {"name": "ping", "description": "Says pong", "inputSchema": {"type": "object", "properties": {}}}


def tools(kind: str, params: dict[str, Any]) -> dict[str, Any]:
    if kind == "many":
        return {"tools": [{**TOOL, "name": f"ping{number}"} for number in range(1000)]}
    if kind == "endless":
        page = int(params.get("cursor", 0))
        return {"tools": [{**TOOL, "name": f"ping{page}"}], "nextCursor": str(page + 1)}
    if kind == "names":
        names = ["a.b", "a_b", "x" * 100, "x" * 99 + "y", "ping"]
        return {"tools": [{**TOOL, "name": name} for name in names]}
    if kind == "large":
        return {"tools": [{**TOOL, "name": "large", "inputSchema": {"type": "object", "title": "x" * 40_000}}, TOOL]}
    return {"tools": [TOOL]}


def answered(kind: str, asked: dict[str, Any]) -> dict[str, Any]:
    params = asked.get("params") or {}
    if asked["method"] == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": kind, "version": "1"},
        }
    if asked["method"] == "tools/list":
        return tools(kind, params)
    text = {"long": "x" * 60_000, "halves": "\ud83dpong"}.get(kind, "pong")
    return {"content": [{"type": "text", "text": text}]}


def main(kind: str) -> None:
    if kind == "dies":
        print("no key given", file=sys.stderr)
        raise SystemExit(3)
    if kind == "greets":
        print("Welcome!\n{\n", flush=True)
    if kind == "line":
        while True:
            sys.stdout.write("x" * 65536)
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked or "method" not in asked or kind == "silent":
            continue
        if asked["method"] not in ("initialize", "tools/list", "tools/call"):
            answer: dict[str, Any] = {"error": {"code": -32601, "message": "no such method"}}
        elif kind == "nonsense" and asked["method"] == "tools/call":
            answer = {"result": {"content": "no list"}}
        elif kind == "refuses" and asked["method"] == "tools/call":
            answer = {"error": {"code": -32000, "message": "not now"}}
        elif kind == "deaf" and asked["method"] == "tools/call":
            continue
        else:
            answer = {"result": answered(kind, asked)}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
