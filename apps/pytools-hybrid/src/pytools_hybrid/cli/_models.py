"""`pytools-hybrid models`: embedding models on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from shlex import quote
from typing import Annotated

import typer

from pytools_hybrid.cli._options import Output
from pytools_hybrid.cli.app import app
from pytools_hybrid.cli.doctor import show_models
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import say, shows_progress

_LOCAL = "sentence-transformers"
_OLLAMA = "ollama"

models = typer.Typer(
    help="List the available embedding models, or download one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(models, name="models")


@models.command("list", epilog="The same as: pytools-hybrid doctor --models")
def list_models(
    *,
    call: Annotated[
        bool, typer.Option("--call", help="Call providers' models too; this costs money.")
    ] = False,
    output: Output = "text",
) -> None:
    """List the embedding models that could be used here, and what they need."""
    show_models(call=call, output=output)


@models.command(
    epilog="""Example:

\b
  $ pytools-hybrid models download sentence-transformers:all-MiniLM-L6-v2
  $ pytools-hybrid index --embedding-model sentence-transformers:all-MiniLM-L6-v2

Files are stored in the Hugging Face cache, which other programs share; set HF_HOME to move it, and
HF_ENDPOINT to use another hub. An interrupted download is resumed."""
)
def download(
    model: Annotated[
        str,
        typer.Argument(
            help="As in --embedding-model: sentence-transformers:NAME, where NAME is a model on "
            "the Hugging Face hub."
        ),
    ],
) -> None:
    """Download a model that runs on this machine; nothing else ever downloads one."""
    from toolembed.downloads import download_model

    from pytools_hybrid.settings import REMEDIES

    provider, _, name = model.partition(":")
    if provider == _OLLAMA and name:
        raise SettingsError("MODEL", f"Ollama keeps its own models; run: ollama pull {quote(name)}")
    if provider != _LOCAL or not name:
        raise SettingsError(
            "MODEL",
            f"{model!r} cannot be downloaded; use {_LOCAL}:NAME, or list the other models with: "
            "pytools-hybrid doctor --models",
        )
    with _bar(model) as bar:
        folder = download_model(name, bar, hints=REMEDIES)
    say(f"{model} is in {folder}; use it with --embedding-model {model}")
    if find_spec("sentence_transformers") is None:
        say(f"the package that runs it is not installed; {REMEDIES.to_install(model)}")


class _bar:  # noqa: N801 - used as a function
    """Shows downloaded bytes on stderr: as a bar on a terminal, or as a line for each tenth."""

    def __init__(self, model: str) -> None:
        from rich import progress
        from rich.console import Console

        self._model = model
        self._told = -1
        self._bar: progress.Progress | None = None
        if shows_progress():
            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.DownloadColumn(),
                progress.TransferSpeedColumn(),
                progress.TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.add_task(model, total=None)

    def __enter__(self) -> _bar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)
            return
        tenth = 10 * done // total if total else 10
        if tenth > self._told:
            self._told = tenth
            say(f"{self._model}: {done / 1e6:.1f} of {total / 1e6:.1f} MB")
