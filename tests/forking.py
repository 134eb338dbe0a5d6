"""Commands as processes of their own which start at once: forks of one that has all imported.

usage: python forking.py

Reads a JSON object a line: `arguments`, `cwd`, `environment`, `stdout` and `stderr`, two files to
write to. Answers with the exit status when the command has ended. That it starts from nothing as
well is shown by the tests that start it so: servers, clients, `python -m`.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import warnings


def main() -> None:
    # What commands import when they need it; several threads of numpy would not survive a fork.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import numpy as np  # noqa: F401
    import pytools_hybrid.jobs.doctor
    import pytools_hybrid.jobs.evaluate
    import pytools_hybrid.search  # noqa: F401
    import toolembed
    from pytools_hybrid import cli

    # Its vectors are read here once for all.
    toolembed.StaticEmbedder().encode_queries(["a tool"])
    gc.freeze()
    for line in sys.stdin:
        job = json.loads(line)
        with warnings.catch_warnings(action="ignore"):
            process = os.fork()
        if not process:
            break
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    else:
        return
    become(job)
    cli.main()


def become(job: dict) -> None:
    """Take the place of a process that was started for a command."""
    for number, (path, flags) in enumerate(
        [
            (os.devnull, os.O_RDONLY),
            (job["stdout"], os.O_WRONLY | os.O_CREAT),
            (job["stderr"], os.O_WRONLY | os.O_CREAT),
        ]
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["environment"])
    sys.argv = ["pytools-hybrid", *job["arguments"]]


if __name__ == "__main__":
    main()
