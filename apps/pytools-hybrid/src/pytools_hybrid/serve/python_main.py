"""The process of one call of a Python tool: JSON in, JSON out. It imports nothing of ours.

stdin has the call: `root`, `module`, `file`, `function`, `params_class`, `arguments`, and `memory`,
the limit in bytes. stdout gets one line: the `result`, or the `begin` and `length` of one that is
too long, or an `error`. Whatever the tool prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import Any

_SHOWN_FRAMES = -5
_SHOWN_RESULT = 50_000
_SHOWN_ERROR = 10_000


def main() -> None:
    """Run the tool, and answer."""
    call = json.loads(sys.stdin.buffer.read())
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - pathlib would take longer to import
        os.dup2(nothing.fileno(), 0)
    # A tool and its children may print or close what they like: none of it is the answer.
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _limit_memory(call["memory"])
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [*(it for it in sys.path if it != here), call["root"]]
    process = os.getpid()
    try:
        content = _answer(_result(call))
    except BaseException as error:  # noqa: BLE001 - also what would end the process
        content = json.dumps({"error": _message(error)[:_SHOWN_ERROR]})
    if os.getpid() != process:
        # A child process forked by the tool must not answer.
        os._exit(0)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    with answer:
        answer.write(content.encode() + b"\n")


def _result(call: dict[str, Any]) -> object:
    import importlib

    module = importlib.import_module(call["module"])
    if os.path.realpath(module.__file__ or "") != os.path.realpath(call["file"]):
        raise ImportError(f"{call['module']} was imported from another folder: {module.__file__}")
    function, arguments = getattr(module, call["function"]), call["arguments"]
    if call["params_class"]:
        # A package may export a function without its class.
        home = module if hasattr(module, call["params_class"]) else sys.modules[function.__module__]
        result = function(getattr(home, call["params_class"])(**arguments))
    else:
        result = function(**arguments)
    if not hasattr(result, "__await__"):
        return result
    import asyncio

    return asyncio.run(_awaited(result))


async def _awaited(result: Any) -> object:  # noqa: ANN401
    return await result


def _answer(result: object) -> str:
    content = json.dumps({"result": result}, default=_as_json)
    text = (
        result
        if isinstance(result, str)
        else json.dumps(result, default=_as_json, ensure_ascii=False)
    )
    if len(text) <= _SHOWN_RESULT:
        return content
    return json.dumps({"begin": text[:_SHOWN_RESULT], "length": len(text)})


def _as_json(value: Any) -> object:  # noqa: ANN401
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return str(value)


def _message(error: BaseException) -> str:
    with suppress(Exception):
        from traceback import format_tb

        print("".join(format_tb(error.__traceback__)[_SHOWN_FRAMES:]), end="", file=sys.stderr)
    return f"{type(error).__name__}: {error}"


def _limit_memory(most: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    main()
