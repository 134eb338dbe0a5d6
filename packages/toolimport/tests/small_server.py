"""A small MCP server over stdio, which starts at once and misbehaves on demand.

usage: python small_server.py PLAN.json

The plan has `tools`, as a server lists them, and may have `page` (how many at a time),
`instructions`, `stderr` (written at the start), `calls` (a file to which each call is appended),
`after` (a file that must exist before anything is answered) and `instead`: "die", "hang" or
"garbage" instead of an answer to the first request. A tool's name determines what a call does:
"hang" never answers, "ask" answers with the client's answer to a question.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for name in plan.get("stderr", ()):
        print(os.environ.get(name, name), file=sys.stderr, flush=True)
    instead = plan.get("instead")
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            text = json.dumps(message.get("result") or message["error"])
            result = {"content": [{"type": "text", "text": text}]}
            answer = {"jsonrpc": "2.0", "id": int(message["id"]), "result": result}
            print(json.dumps(answer), flush=True)
            continue
        if message["method"] == "notifications/cancelled":
            _note(plan, {"name": "cancelled"})
        if "id" not in message:
            continue
        while "after" in plan and not Path(plan["after"]).exists():
            time.sleep(0.01)
        if instead == "die":
            sys.exit(1)
        if instead == "garbage":
            print("this is not a message", flush=True)
        if instead in {"garbage", "hang"}:
            continue
        if message["method"] == "tools/call":
            _note(plan, message["params"])
        called = message.get("params", {}).get("name")
        if called == "ask":
            asked = {"message": "Well?", "requestedSchema": {"type": "object", "properties": {}}}
            ask = {"jsonrpc": "2.0", "id": str(message["id"]), "method": "elicitation/create"}
            print(json.dumps(ask | {"params": asked}), flush=True)
        elif called != "hang":
            answer = {"jsonrpc": "2.0", "id": message["id"]} | answer_to(plan, message)
            print(json.dumps(answer), flush=True)


def answer_to(plan: dict, message: dict) -> dict:
    given = message.get("params") or {}
    match message["method"]:
        case "initialize":
            about = {"instructions": plan["instructions"]} if "instructions" in plan else {}
            return {
                "result": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "small", "version": "1"},
                }
                | about
            }
        case "tools/list":
            start, page = int(given.get("cursor") or 0), plan.get("page", 1000)
            tools = plan["tools"][start : start + page]
            more = {"nextCursor": str(start + page)} if start + page < len(plan["tools"]) else {}
            return {"result": {"tools": tools} | more}
        case "tools/call":
            if given["name"] == "progress":
                return _with_progress(given["_meta"])
            return _called(given["name"], given.get("arguments") or {})
    return {"error": {"code": -32601, "message": f"Method not found: {message['method']}"}}


def _note(plan: dict, called: dict) -> None:
    if "calls" in plan:
        arguments = json.dumps(called.get("arguments") or {}, sort_keys=True)
        with Path(plan["calls"]).open("a", encoding="utf-8") as calls:
            calls.write(f"{called['name']} {arguments}\n")


def _with_progress(meta: dict) -> dict:
    for step in (1, 2, 3):
        params = {"progressToken": meta["progressToken"], "progress": step, "total": 3}
        notification = {"method": "notifications/progress", "params": params}
        params["message"] = f"step {step}"
        print(json.dumps({"jsonrpc": "2.0"} | notification), flush=True)
    return {"result": {"content": [{"type": "text", "text": json.dumps(meta)}]}}


def _called(name: str, arguments: dict) -> dict:
    structured: dict = {}
    is_error = False
    match name:
        case "crash":
            os._exit(1)
        case "pid":
            text = str(os.getpid())
        case "environment":
            text = os.environ.get(arguments["name"], "")
        case "leak":
            text, is_error = f"wrong key: {os.environ['API_KEY']}", True
        case "refuse":
            text, is_error = "there is no such thing", True
        case _ if name == "structured" or "structured" in arguments:
            text, structured = "{}", {"structuredContent": {"count": arguments.get("count", 1)}}
        case _:
            text = json.dumps(arguments, sort_keys=True)
    content = [{"type": "text", "text": text}]
    if name == "picture":
        content.append({"type": "image", "data": "AAAA", "mimeType": "image/png"})
    return {"result": {"content": content, "isError": is_error} | structured}


if __name__ == "__main__":
    main()
