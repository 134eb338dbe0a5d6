"""Draw SVG images of the command line's output in a terminal.

From the root of the repository, with tmux:

    uv run python docs/make/screenshots.py

It writes `docs/images/*.svg`. Each is the screen of a real terminal after, or during, a command on
the example tools. No test compares them, because times differ, so check them after a change.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

REPOSITORY = Path(__file__).parents[2]
IMAGES = REPOSITORY / "docs" / "images"
WIDTH, HEIGHT = 140, 60
_PADDING = 18
_SOCKET = "pytools-screenshots"
_PATIENCE = 60
# Rich's own format loads fonts from the network.
_FORMAT = """\
<svg viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, Menlo, Consolas, \
"DejaVu Sans Mono", monospace; }}
{styles}
</style>
<defs>{lines}</defs>
<rect fill="#1e1e1e" x="0" y="0" width="100%" height="100%" rx="8"/>
<g transform="translate(9, 0)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


class Shot(NamedTuple):
    """One image.

    Attributes:
        name: The name of the file.
        command: The command to type.
        during: A regular expression; the image is taken once the screen matches it. If empty, the
            image is taken at the end.
    """

    name: str
    command: str
    during: str = ""


SHOTS = (
    Shot("index", "pytools-hybrid index --root many", during=r"embedding.*[2-5]\d{3}"),
    Shot("search", 'pytools-hybrid search "report a bug in a repositry"'),
    Shot("explain", 'pytools-hybrid search "report a bug in a repositry" --limit 2 --explain'),
    Shot("doctor", "pytools-hybrid doctor"),
    Shot("status", "pytools-hybrid status"),
)


def main(names: list[str]) -> None:
    """Make all images, or the named ones."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        shutil.copytree(REPOSITORY / "examples" / "tools", home / "examples" / "tools")
        many_tools(home / "examples" / "tools", home / "many")
        # Index first, so that the other images do not show it.
        taken(Shot("", "pytools-hybrid index"), home)
        for shot in SHOTS:
            if not names or shot.name in names:
                screen = taken(shot, home)
                (IMAGES / f"{shot.name}.svg").write_text(drawn(screen), encoding="utf-8")


def many_tools(examples: Path, root: Path) -> None:
    """Copy the tools under many names, so that indexing takes a while."""
    for number in range(60):
        shutil.copytree(
            examples / "mcptools", root / "mcptools",
            copy_function=lambda source, target, number=number: shutil.copyfile(
                source, Path(target).with_name(f"{Path(target).stem}_{number}.py")
            ),
            dirs_exist_ok=True,
        )  # fmt: skip


def taken(shot: Shot, home: Path) -> str:
    """Type a command in a terminal, and return its screen, with the escapes for colours."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTOOLS_", "XDG_", "TMUX", "NO_COLOR", "CI"))
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment |= {"HOME": str(home), "PATH": path, "COLORTERM": "truecolor"}
    environment["PYTOOLS_DIR"] = "examples/tools"
    # Show the default model of an installation without extras.
    environment["PYTOOLS_EMBEDDING_MODEL"] = "static"

    def tmux(*arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-L", f"{_SOCKET}-{shot.name}", "-f", "/dev/null", *arguments],
            env=environment, cwd=home, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    (home / "done").unlink(missing_ok=True)
    told = f"{shot.command}; touch done; sleep {_PATIENCE}"
    tmux("new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT), "bash", "-c", told)
    try:
        deadline = time.monotonic() + _PATIENCE
        while True:
            is_done = (home / "done").exists()
            screen = tmux("capture-pane", "-e", "-p")
            if is_done or (shot.during and re.search(shot.during, screen)):
                break
            if time.monotonic() > deadline:
                raise SystemExit(f"{shot.name} did not end:\n{screen}")
            time.sleep(0.05)
    finally:
        tmux("kill-server")
    for place, shown in ((Path(sys.executable).parent, "~/.venv/bin"), (home, "~")):
        screen = screen.replace(str(place), shown)
    return f"$ {shot.command}\n{screen.rstrip()}"


def drawn(screen: str) -> str:
    """Return a screen as an image, as wide as its longest line."""
    text = Text.from_ansi(screen)
    lines = text.split("\n")
    width = max(line.cell_len for line in lines) + 1
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(text, no_wrap=True, crop=True)
    image = console.export_svg(code_format=_FORMAT, unique_id="t")
    return re.sub(
        r'viewBox="0 0 (\S+) (\S+)"',
        lambda box: f'viewBox="0 0 {float(box[1]):.0f} {float(box[2]) + _PADDING:.0f}"',
        image,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
