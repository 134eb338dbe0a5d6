"""The table of commands, the options that they share, and how they run."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import typer
from typer.core import TyperGroup

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.exit import exit_now
from pytools_hybrid.logs import configure_logging, use_format
from pytools_hybrid.terminal import Progress, say

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Coroutine

    from pydantic import BaseModel

    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.settings import Roots, Settings

T = TypeVar("T")

Flags: TypeAlias = dict[str, Any]
"""The values of the options of settings, by setting."""

Options: TypeAlias = Mapping[str, tuple[Any, Any]]
"""The annotation and the default of options, by argument."""

# By section of the help and name: the module, and what the command does.
_SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Use": {
        "search": ("search", "Find the tools for a request"),
        "list": ("show", "List the categories, or the tools of some"),
        "describe": ("show", "Show how to call a tool, and its recorded use"),
    },
    "Tools and servers": {
        "import": ("servers", "Turn MCP servers into Python tools"),
        "setup": ("servers", "Set up the MCP clients on this machine"),
        "serve": ("serve", "Serve the tools to agents, or to a browser"),
    },
    "Index": {
        "index": ("index", "Update the index"),
        "status": ("show", "Show what is in the index, and its model"),
    },
    "Measure": {
        "report": ("usage", "Summarize the recorded searches, or export them"),
        "eval": ("learn", "Measure how well searches find your tools"),
        "tune": ("learn", "Fit searches to your own requests"),
        "enrich": ("learn", "Let a language model write search terms for tools"),
    },
    "Administration": {
        "doctor": ("doctor", "Find out what does not work, and how to fix it"),
        "config": ("config", "Show every setting, its value and its source"),
        "database": ("database", "Manage an index that many hosts share"),
    },
}
_COMMANDS = {name: it for section in _SECTIONS.values() for name, it in section.items()}
_MOVED = {
    "cache": "status --all",
    "console": "serve --open",
    "export": "report --export",
    "migrate": "database migrate",
    "models": "doctor --models",
    "prompt": "serve --prompt",
}
_OTHER_NAMES = {
    "--db": "--database",
    "--database-path": "--database",
    "--embedding-model": "--model",
    "--top-k": "--limit",
    "--min-confidence": "--threshold",
    "--tools": "--profile",
    "--unknown": "--without-data",
    "--limit-k": "--recall-at",
    "--k": "--recall-at",
    "--by": "--group-by",
    "--call": "--call-providers",
}
_built: dict[str, Any] = {}
_GRACE_SECONDS = 0.5
_LIMITS = {"ge", "le"}
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_SHOW_CURSOR = "\x1b[?25h"


class _Flag(NamedTuple):
    """The option of a setting: its name, the type of its values, and its help.

    The default is text; the variable is only given if it is not named after the setting.
    """

    option: str
    kind: Any
    text: str
    default: str = ""
    metavar: str | None = None
    variable: str = ""


_FLAGS = {
    "root": _Flag(
        *("--root", list[Path], "Folder of tools; repeatable, the first with a tool wins."),
        *("tools, else .freeact/generated, else examples/tools", "DIR", "PYTOOLS_DIR"),
    ),
    "database": _Flag(
        *("--database", str, "Index: a file, or postgresql://user@host/db?tree=NAME."),
        *("a file for each root in your cache folder", "FILE"),
    ),
    "embedding_model": _Flag(
        *("--model", str, "static, accurate, none, or PROVIDER:NAME."),
        *("accurate if it is installed, else static", "MODEL"),
    ),
    "limit": _Flag("--limit", int, "Maximum number of results.", "5", "N"),
    "threshold": _Flag(
        "--threshold", float, "Minimum confidence; 0.5 leaves out most wrong tools.", "0", "SHARE"
    ),
    "tools": _Flag(
        *("--profile", Literal["search", "call", "basic", "all"], "Tools for agents, see below."),
        "search",
    ),
    "include": _Flag("--include", list[str], "Only these tools; repeatable.", "", "PATTERN"),
    "exclude": _Flag("--exclude", list[str], "Not these tools; repeatable.", "", "PATTERN"),
    "read_only": _Flag("--read-only", bool, "Call only tools annotated as read-only."),
    "run_python": _Flag("--run-python", bool, "Also run Python tools, each in a process."),
    "confirm": _Flag(
        "--confirm", list[str], "Ask the user before these calls; repeatable.", "", "PATTERN"
    ),
    "transport": _Flag(
        "--transport", Literal["stdio", "http"], "One client, or many, with a JSON API.", "stdio"
    ),
    "host": _Flag("--host", str, "Address to listen on; others need a token.", "127.0.0.1"),
    "port": _Flag("--port", int, "Port; 0 selects a free one.", "8000"),
}


def _option_of(setting: str) -> tuple[Any, None]:
    flag = _FLAGS[setting]
    facts = f"env: {flag.variable or f'PYTOOLS_{setting.upper()}'}"
    facts += f"; default: {flag.default}" * bool(flag.default)
    text = f"{flag.text} [{facts}]"
    option = typer.Option(flag.option, metavar=flag.metavar, help=text)
    return Annotated[flag.kind | None, option], None


def options_of(model: type[BaseModel], fields: Mapping[str, tuple[str, str]]) -> Options:
    """Return options for fields of the model of an operation's arguments.

    Args:
        model: The model.
        fields: The name of each option, and its help if the field's description does not fit.
    """
    options: dict[str, tuple[Any, Any]] = {}
    for name, (option, text) in fields.items():
        field = model.model_fields[name]
        limits = {end: getattr(it, end) for it in field.metadata for end in _LIMITS & {*dir(it)}}
        made = typer.Option(
            option, help=text or f"{field.description}.", min=limits.get("ge"), max=limits.get("le")
        )
        options[name] = Annotated[field.annotation or str, made], field.default
    return options


def command(
    name: str,
    *,
    epilog: str,
    settings: str = "",
    options: Options | None = None,
    context_settings: dict[str, Any] | None = None,
) -> Callable[[Callable[..., object]], object]:
    """Make a function a command; its docstring adds to what the table says.

    Args:
        name: The name of the command.
        epilog: Examples.
        settings: The names of settings that have an option; the function gets their values as a
            dictionary, its first argument.
        options: Further options, by the names of keyword arguments: the type and the default.
        context_settings: Those of typer.
    """
    names = settings.split()

    def build(function: Callable[..., object]) -> object:
        def called(**given: Any) -> object:  # noqa: ANN401 - each option has its own type
            if not names:
                return function(**given)
            return function({name: given.pop(name) for name in names}, **given)

        added = {**dict(options or {}), **{name: _option_of(name) for name in names}}
        signature = inspect.signature(function, eval_str=True)
        own = [it for it in signature.parameters.values() if it.kind is not it.VAR_KEYWORD]
        parameters = [
            *own[bool(names) :],
            *(
                inspect.Parameter(name, _KEYWORD, default=default, annotation=kind)
                for name, (kind, default) in added.items()
            ),
        ]
        # Positional parameters have to be first.
        parameters.sort(key=lambda it: it.kind)
        called.__dict__["__signature__"] = signature.replace(parameters=parameters)
        one = typer.Typer(add_completion=False, rich_markup_mode=None)
        told = f"{_COMMANDS[name][1]}.\n\n{inspect.getdoc(function)}"
        one.command(name, help=told, epilog=epilog, context_settings=context_settings)(called)
        _built[name] = typer.main.get_command(one)
        return function

    return build


def group(name: str, commands: typer.Typer) -> None:
    """Make the commands of an application subcommands of a command."""
    commands.info.help = f"{_COMMANDS[name][1]}."
    _built[name] = typer.main.get_command(commands)


class _Commands(Mapping[str, Any]):
    """The commands by name; only the one that runs is built, because that takes its time."""

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - typer's own
        module, _ = _COMMANDS[name]
        import_module(f"pytools_hybrid.cli.{module}")
        return _built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Group(TyperGroup):
    """The top-level command; its help has sections."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - typer's own
        super().__init__(**settings)
        self.commands: Any = _Commands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own
        width = max(map(len, _COMMANDS))
        for section, commands in _SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(f"{it:{width}}", text) for it, (_, text) in commands.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer's own
        if args[0] in _MOVED:
            ctx.fail(f"{args[0]} is now: pytools-hybrid {_MOVED[args[0]]}")
        return super().resolve_command(ctx, args)


top: typer.Typer = typer.Typer(
    name="pytools-hybrid",
    cls=_Group,
    help="Find the right Python tools for a request in plain language.",
    epilog="""Begin with:

\b
  $ pytools-hybrid search "merge two pdf files"     find tools
  $ pytools-hybrid import servers.json              turn your MCP servers into tools
  $ pytools-hybrid serve                            serve them to an agent, over MCP
  $ pytools-hybrid doctor                           find out what does not work

Every setting is a variable PYTOOLS_… or a line of pytools.toml, and many are options too: see
pytools-hybrid config.""",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
common: dict[str, Any] = {}
"""The options before the command, by name."""


@top.callback(invoke_without_command=True)
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The settings file. [env: PYTOOLS_CONFIG; default: the nearest pytools.toml, or "
            "pyproject.toml with [tool.pytools]]",
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(
            "--log-level",
            metavar="LEVEL",
            help="DEBUG, INFO, WARNING or ERROR. [env: PYTOOLS_LOG_LEVEL; default: WARNING]",
        ),
    ] = None,
) -> None:
    if version:
        from importlib.metadata import version as installed_version

        typer.echo(f"pytools-hybrid {installed_version('pytools-hybrid')}")
        raise typer.Exit
    common.update(config=config, log_level=log_level)


def current_names(arguments: list[str]) -> list[str]:
    """Return arguments with the present names of options that have other names too."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    split = [it.partition("=") for it in arguments[:end]]
    named = [f"{_OTHER_NAMES.get(name, name)}{sign}{value}" for name, sign, value in split]
    return named + arguments[end:]


Output = Annotated[Literal["text", "json"], typer.Option(help="Output format.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def settings_from(
    *,
    is_server: bool = False,
    **flags: Any,  # noqa: ANN401 - each flag has its own type
) -> Settings:
    """Return the settings with a command's flags applied, and configure logging.

    If the provider of the embedding model is unknown, a server searches by words, because the
    client that started it would not show an error.
    """
    import logging

    from toolembed.providers import check_provider

    from pytools_hybrid.settings import Settings
    from pytools_hybrid.telemetry import is_wanted, start_tracing

    flags["log_level"] = common.get("log_level")
    settings = Settings.from_flags(flags, file=common.get("config"))
    use_format(settings.log_format)
    secrets = [settings.token.get_secret_value()] if settings.token else []
    configure_logging(settings.log_level, secrets=secrets)
    if is_wanted():
        try:
            start_tracing()
        except ImportError:
            from pytools_hybrid.installation import install_command

            # The variables may be meant for another program.
            logging.getLogger("pytools_hybrid").log(
                logging.WARNING if is_server else logging.INFO,
                "variables OTEL_… are set, but sending traces needs an extra: %s",
                install_command("pytools-hybrid[otel]"),
            )
    # At INFO and below, watchfiles logs every change, even those of the index.
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    # These log tracebacks, contents and addresses. We report the same failures without secrets.
    for name in ("client", "mcp.client", "mcp.os", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for name in ("embedding_model", "rerank_model"):
        # Users should know when queries and tools are sent to others.
        origin, value = settings.origins.get(name, ""), str(getattr(settings, name))
        if ":" in value and origin.endswith(".toml"):
            say(f"{name} {value} is from {origin}")
    if not is_server:
        try:
            check_provider(settings.embedding_model)
        except ValueError as error:
            name = settings.origins.get("embedding_model", "--model")
            raise SettingsError(name, str(error)) from error
    for name, nearest in Settings.unknown_variables().items():
        hint = f"; did you mean {nearest}?" if nearest else ""
        logging.getLogger("pytools_hybrid").warning("%s is not a setting%s", name, hint)
    return settings


def existing_roots(settings: Settings) -> Roots:
    """Return the trees in the settings, which must exist unless a shared index is only read."""
    from pytools_hybrid.settings import check_roots

    roots, note = settings.resolved_root()
    if not settings.only_reads:
        check_roots(roots, settings.origins.get("root", "--root"))
    if note:
        say(note)
    say_tree(settings, roots)
    return roots


def say_tree(settings: Settings, roots: Roots) -> None:
    """Report which tree of a shared index is used, if none was named."""
    server = settings.resolved_server(roots)
    if server is not None and server != settings.server:
        say(f"using the tree {server.tree} of the shared index (its address has no tree=NAME)")


@asynccontextmanager
async def current(settings: Settings, roots: Roots) -> AsyncGenerator[ToolSearch]:
    """Open the index and update it if the settings say so, without embedding.

    If updating fails, the index is used as it is.
    """
    from pytools_hybrid.search import ToolSearch

    async with ToolSearch(roots, settings, refresh=False) as tools:
        if settings.sync and not tools.index.store.read_only:
            with Progress() as progress:
                done = await tools.index.update(vectors=False, progress=progress)
            if done.error is not None:
                say(f"the index may be out of date: {done.error}")
        await tools.index.warn_of_idle_patterns()
        yield tools


def run(job: Coroutine[Any, Any, T], *, grace: float = _GRACE_SECONDS) -> T:
    """Run a job until it is done; Ctrl-C or SIGTERM end the process promptly.

    After an interruption, the job has `grace` seconds to clean up.
    """
    import asyncio
    import signal

    async def until_interrupted() -> T:
        loop = asyncio.get_running_loop()
        signalled: asyncio.Future[int] = loop.create_future()
        for number in (signal.SIGINT, signal.SIGTERM):
            # Windows' event loop has no signal handlers, and neither have other threads.
            with suppress(RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, _note, signalled, number)
        task = asyncio.ensure_future(job)
        awaited: set[asyncio.Future[Any]] = {task, signalled}
        try:
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            _note(signalled, signal.SIGINT)
        if signalled.done():
            task.cancel()
            await asyncio.wait({task}, timeout=grace)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{_SHOW_CURSOR}")
            say("interrupted")
            exit_now(128 + signalled.result())
        return task.result()

    return asyncio.run(until_interrupted())


def _note(signalled: asyncio.Future[int], number: int) -> None:
    if not signalled.done():
        signalled.set_result(number)


def confirm(question: str, *, without: str = "required if no one can confirm") -> bool:
    """Ask a question; `without` is the error if there is nobody to ask."""
    if not sys.stdin.isatty():
        raise SettingsError("--yes", without)
    return typer.confirm(question, err=True)
