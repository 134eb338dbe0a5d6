"""Start commands quickly: each is a fork of one process that has imported everything.

usage: python forking.py FOLDER COMMAND

It writes two programs into FOLDER, `pytools-hybrid` and `counted`, then prints a line. Each program
passes its arguments, environment, folder and standard streams to this process, which forks and
runs the command. Signals and the exit status are passed on, and killing a program kills its
command. Resource limits and namespaces are not passed on: tests that set these use the installed
command, as do those that show that it starts without this process.
"""

# ruff: noqa: F401  # imported here so that the commands need not import it

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import random
import select
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import patience

_PROGRAM = """\
#!{python} -IS
import contextlib, json, os, signal, socket, sys

def pass_on(number, _):
    # It may have just ended.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)

# The interpreter reads these variables when it starts, which a fork does not.
if {{k: v for k, v in os.environ.items() if k.startswith({early!r})}} != {theirs!r}:
    os.execv({real[0]!r}, [*{real!r}, *sys.argv[1:]])
numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT
# A signal for the command may arrive before its process id has.
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
with socket.socket(socket.AF_UNIX) as there:
    there.connect({address!r})
    job = dict(name={name!r}, arguments=sys.argv[1:], environment=dict(os.environ))
    socket.send_fds(there, [b"."], [0, 1, 2, os.open(".", os.O_RDONLY)])
    there.sendall(json.dumps(job).encode() + b"\\n")
    answers = there.makefile()
    process = int(answers.readline())
    for number in numbers:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    status = int(answers.readline())
if status < 0:
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""
_EARLY = ("PYTHON", "LANG", "LC_")


def main() -> None:
    folder, installed = Path(sys.argv[1]), sys.argv[2]
    commands = _import_all(installed)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        listening.listen(64)
        _write_programs(folder, installed)
        gc.collect()
        gc.freeze()
        print("ready", flush=True)
        job = _serve(listening)
    if job["name"] == "pytools-hybrid":
        # Not for `counted`: its model may hang, and a test then waits for these limits.
        patience.wait_for_vectors()
        # Set by a test that receives traces; other receivers never answer.
        if "OTEL_EXPORTER_OTLP_TIMEOUT" in job["environment"]:
            patience.wait_for_traces()
    sys.argv = [installed, *job["arguments"]]
    commands[job["name"]]()


def _import_all(installed: str) -> dict[str, Callable[[], None]]:
    # Several threads of numpy would not survive a fork.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import anyio._backends._asyncio
    import counted
    import filelock
    import numpy
    import platformdirs
    import pytools_hybrid.index.follow
    import pytools_hybrid.learn.evaluate
    import pytools_hybrid.reports.doctor
    import pytools_hybrid.search
    import pytools_hybrid.serve.http
    import pytools_hybrid.serve.mcp
    import rich.logging
    import toolembed
    import toolscan._extract
    import toolscan._schema
    import typer.main
    from pytools_hybrid import cli
    from pytools_hybrid.cli.app import top

    patience.wait_for_work()
    # Read the model's vectors once for all commands.
    toolembed.StaticEmbedder().encode_queries(["a tool"])
    # Create the options of all commands once, which is most of the cost of a start.
    typer.main.get_command = functools.cache(typer.main.get_command)
    list(typer.main.get_command(top).commands.values())
    return {"pytools-hybrid": cli.main, "counted": counted.main}


def _write_programs(folder: Path, installed: str) -> None:
    counted = [sys.executable, "-W", "error", str(Path(__file__).with_name("counted.py"))]
    for name, real in {"pytools-hybrid": [installed], "counted": counted}.items():
        program = folder / name
        program.write_text(
            _PROGRAM.format(
                python=sys.executable,
                name=name,
                real=real,
                address=str(folder / "socket"),
                early=_EARLY,
                theirs={k: v for k, v in os.environ.items() if k.startswith(_EARLY)},
            )
        )
        program.chmod(0o755)


def _serve(listening: socket.socket) -> dict:
    """Fork on request; return, in the fork, the requested command."""
    # Processes and connections, by the file descriptors of both.
    running: dict[int, tuple[int, socket.socket]] = {}
    asking: dict[int, int] = {}
    changes = select.poll()
    changes.register(listening, select.POLLIN)
    while True:
        # Take one event at a time: handling it may close a descriptor whose number is then reused.
        number, _ = changes.poll()[0]
        if number in running:
            process, connection = running.pop(number)
            changes.unregister(number)
            os.close(number)
            _, status = os.waitpid(process, 0)
            if asking.pop(connection.fileno(), None):
                changes.unregister(connection)
            with connection, contextlib.suppress(OSError):
                connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        elif number in asking:
            # The program that made the request was killed.
            changes.unregister(number)
            os.kill(asking.pop(number), signal.SIGKILL)
        else:
            connection, _ = listening.accept()
            _, streams, _, _ = socket.recv_fds(connection, 1, 4)
            job = json.loads(connection.makefile().readline() or "null")
            with warnings.catch_warnings(action="ignore"):
                process = os.fork() if job else None
            if process == 0:
                for ended, (_, other) in running.items():
                    os.close(ended)
                    other.close()
                connection.close()
                _become(job, streams)
                return job
            for stream in streams:
                os.close(stream)
            if process is None:
                continue
            connection.sendall(f"{process}\n".encode())
            ended = os.pidfd_open(process)
            running[ended] = process, connection
            asking[connection.fileno()] = process
            changes.register(ended, select.POLLIN)
            changes.register(connection, select.POLLIN)


def _become(job: dict, streams: list[int]) -> None:
    """Turn this process into one that was started for a command."""
    *standard, folder = streams
    os.fchdir(folder)
    os.close(folder)
    for number, stream in enumerate(standard):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(job["environment"])
    random.seed()
    if job["name"] == "counted":
        warnings.simplefilter("error")


if __name__ == "__main__":
    main()
