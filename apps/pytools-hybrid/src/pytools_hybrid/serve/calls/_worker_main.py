"""The process in which Python tools run; it is started by path, and imports nothing of ours.

Arguments: the root, the end marker of answers on stdout, and the memory limit in bytes. Each line
on stdin is a call: `module`, `file`, `function`, `params_class`, `arguments`; `answer` is a file to
write. A result that is too long to send is in the file `whole`, unless it has more bytes than
`room`, and its beginning in `answer`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SHOWN_FRAMES = -5
_SHOWN_RESULT = 50_000
_SHOWN_ERROR = 10_000
_SUBREAPER = 36


def main() -> None:
    """Answer calls until stdin ends."""
    root, end, memory = sys.argv[1:]
    # Tools that read stdin find it empty rather than reading a call.
    with os.fdopen(os.dup(0), encoding="utf-8") as calls:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        _limit_memory(int(memory))
        _keep_children()
        # A tool may close its own streams.
        outputs = {number: os.dup(number) for number in (1, 2)}
        sys.path.append(root)
        process, seen = os.getpid(), dict[str, float]()
        for line in calls:
            call = json.loads(line)
            if seen != _changed_at(root, seen):
                # Imported modules cannot be reloaded reliably, so a new process is needed.
                with open(call["answer"], "w", encoding="utf-8") as file:  # noqa: PTH123
                    file.write('{"stale": true}')
                os._exit(0)
            try:
                result = _result(call, lambda: _note_imported(seen, root))
                content = _answer(result, call, process)
            except BaseException as error:  # noqa: BLE001 - also what would end the process
                content = json.dumps({"error": _told(error)[:_SHOWN_ERROR]})
            if os.getpid() != process:
                # A child process forked by the tool must not answer.
                os._exit(0)
            with open(call["answer"], "w", encoding="utf-8") as file:  # noqa: PTH123
                file.write(content)
            _note_imported(seen, root)
            for number, stream in ((1, sys.stdout), (2, sys.stderr)):
                with suppress(Exception):
                    stream.flush()
                os.dup2(outputs[number], number)
                os.write(number, end.encode())


def _answer(result: object, call: dict[str, Any], process: int) -> str:
    """Return the part of a result to send, and write a long result to a file."""
    content = json.dumps({"result": result}, default=_as_json)
    text = (
        result
        if isinstance(result, str)
        else json.dumps(result, default=_as_json, ensure_ascii=False)
    )
    if len(text) <= _SHOWN_RESULT:
        return content
    if os.getpid() == process and len(content) <= call["room"]:
        with open(call["whole"], "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(content)
    return json.dumps({"begin": text[:_SHOWN_RESULT], "length": len(text)})


def _changed_at(root: str, files: Iterable[str] | None = None) -> dict[str, float]:
    """Return when files changed, by default the imported files of a root."""
    if files is None:
        loaded = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        files = [file for file in loaded if file and file.startswith(root + os.sep)]
    found = dict[str, float]()
    for file in files:
        try:
            found[file] = os.stat(file).st_mtime  # noqa: PTH116
        except OSError:
            found[file] = 0.0
    return found


def _note_imported(seen: dict[str, float], root: str) -> None:
    """Record the times of newly imported files, before a later edit can change them."""
    for file, at in _changed_at(root).items():
        seen.setdefault(file, at)


def _result(call: dict[str, Any], note_imported: Callable[[], None]) -> object:
    importlib.invalidate_caches()
    module = importlib.import_module(call["module"])
    note_imported()
    if os.path.realpath(module.__file__ or "") != os.path.realpath(call["file"]):
        raise ImportError(f"{call['module']} was imported from another folder: {module.__file__}")
    function, arguments = getattr(module, call["function"]), call["arguments"]
    if call["params_class"]:
        # A package may export a function without its class.
        home = module if hasattr(module, call["params_class"]) else sys.modules[function.__module__]
        result = function(getattr(home, call["params_class"])(**arguments))
    else:
        result = function(**arguments)
    return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Any) -> object:  # noqa: ANN401
    return await result


def _as_json(value: Any) -> object:  # noqa: ANN401
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return str(value)


def _told(error: BaseException) -> str:
    frames = "".join(traceback.format_tb(error.__traceback__)[_SHOWN_FRAMES:])
    print(frames, end="", file=sys.stderr)
    return f"{type(error).__name__}: {error}"


def _keep_children() -> None:
    """Adopt orphaned descendants, so that they can be found and killed."""
    if sys.platform == "linux":
        with suppress(Exception):
            import ctypes

            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _limit_memory(most: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    main()
