"""`pytools-hybrid eval`, `tune` and `enrich`: measuring and improving searches."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pytools_hybrid import terminal
from pytools_hybrid.cli import app, usage
from pytools_hybrid.errors import PytoolsError, SettingsError
from pytools_hybrid.terminal import say

if TYPE_CHECKING:
    from pytools_hybrid.learn.enrich import EnrichmentPlan, EnrichmentReport, ModelClient
    from pytools_hybrid.learn.evaluate import EvaluationQuery
    from pytools_hybrid.settings import Settings

_SHOWN_REQUESTS = 10
_SHOWN_IDS = 5
_CENT = 0.01


@app.command(
    "eval",
    settings="root",
    epilog="""Example:

\b
  $ cat queries.jsonl
  {"id": "q1", "query": "open an issue on github", "gold": ["mcptools:github:create_issue"]}
  {"id": "q2", "query": "merge two pdf files", "gold": ["mcptools:pdf:merge_pdfs"]}
  $ pytools-hybrid eval --root examples/tools --queries queries.jsonl

"gold" has the ids of all right tools; other keys are ignored, and a gold id that is not in the
index is reported, and counts as not found. Without --mode, one model is measured with keywords,
vectors, both with your settings, and both with the other fusion, 'hybrid (rrf)'; of several models,
hybrid. Measures other than recall use the first ten results (hit@3 three). --database saves
embedding all tools again: that index is updated, and copies of it are evaluated.

Thirty queries show large differences, two hundred show small ones: the table shows the 95 %
interval of ndcg@10. With --output json, "modes" has one entry for each row of the table; its
"failures" are the ids of the queries without a right tool among the first ten.""",
)
def evaluate(
    flags: app.Flags,
    *,
    queries: Annotated[
        Path,
        typer.Option("--queries", help='JSON lines with "id", "query" and "gold".'),
    ],
    database: Annotated[
        Path | None, typer.Option(help="The index to copy. [default: a temporary one]")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="As for search; several are compared. [env: PYTOOLS_EMBEDDING_MODEL; default: "
            "accurate if it is installed, else static]",
        ),
    ] = None,
    mode: Annotated[
        Literal["hybrid", "bm25", "vector"] | None, typer.Option(help="Evaluate only this mode.")
    ] = None,
    recall_at: Annotated[
        str, typer.Option("--recall-at", metavar="K,K,…", help="Cutoffs of recall@k, up to 50.")
    ] = "1,3,5,10",
    group_by: Annotated[
        str | None,
        typer.Option("--group-by", metavar="KEY", help="Break ndcg@10 down by a key of the lines."),
    ] = None,
    output: Annotated[Literal["table", "json"], typer.Option(help="Output format.")] = "table",
) -> None:
    """Use your own queries to compare modes or models.

    Searches run one after the other, each query once per mode; the latency is that of the whole
    search, including embedding the query. If pytools-hybrid tune has written a file, the table also
    has a row without it.
    """
    from pytools_hybrid.learn import evaluate as evaluation
    from pytools_hybrid.learn import figures
    from pytools_hybrid.search import SearchMode

    models = model or []
    checked = [
        app.settings_from(**flags, database=database, embedding_model=it) for it in models or [None]
    ]
    settings = checked[0]
    tools = app.existing_roots(settings)
    asked = evaluation.read_queries(queries, by=group_by)
    depths = evaluation.recall_depths(recall_at)
    chosen = SearchMode(mode) if mode else None
    # A tuning file is found beside an index, and the temporary indexes have none.
    tuned = settings.model_copy(update={"tuning": settings.resolved_tuning(tools) or Path("none")})
    if len(models) > 1:
        compared = evaluation.of_models(tuned, models, chosen)
    else:
        compared = evaluation.configurations(tuned, chosen)
    index = settings.db_path if database is not None else None
    if index is not None and queries.exists() and index.exists() and queries.samefile(index):
        raise SettingsError("--database", f"{index} contains the queries; name another file")
    evaluator = evaluation.Evaluator(tools, database=index)
    report = app.run(evaluator.evaluate(asked, compared, recall_at=depths, by=group_by))
    if output == "json":
        terminal.print_json(figures.as_json(report))
    else:
        terminal.print_lines(figures.as_text(report))


@app.command(
    "tune",
    settings="root database embedding_model",
    epilog="""Examples:

\b
  $ pytools-hybrid tune --queries queries.jsonl
  $ pytools-hybrid tune --since 30
  $ pytools-hybrid tune --undo

Without --queries, it learns from recorded searches that were followed by a successful use of a
tool. Nothing leaves this machine, and the file contains no requests. It maps one model's query
vectors. Stored vectors do not change, and running servers use the new file at once. It is beside
the index unless PYTOOLS_TUNING names another; PYTOOLS_TUNING=none turns tuning off.""",
)
def tune(
    flags: app.Flags,
    *,
    queries: Annotated[
        Path | None,
        typer.Option("--queries", help="As for eval. [default: the usage record]"),
    ] = None,
    since: usage.Since = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write the file even if searches may be no better.")
    ] = False,
    yes: app.Yes = False,
    undo: Annotated[bool, typer.Option("--undo", help="Remove the file again.")] = False,
) -> None:
    """Print how good searches are before and after, and write a file if they are better.

    Each request is tested on what was learned from the others. Nothing is written unless the
    improvement is statistically significant.
    """
    from pytools_hybrid.index import has_numpy
    from pytools_hybrid.learn import figures
    from pytools_hybrid.learn.evaluate import read_queries
    from pytools_hybrid.search import TuningFile, remove_tuning, write_tuning

    settings = app.settings_from(**flags)
    roots = app.existing_roots(settings)
    path = settings.resolved_tuning(roots)
    if path is None:
        raise SettingsError("PYTOOLS_TUNING", "it is 'none'; name a file, or leave it out")
    if settings.tuning is not None and path.exists() and TuningFile(path).current()[0] is None:
        raise SettingsError("PYTOOLS_TUNING", f"{path} is not a tuning file; name a new file")
    if undo:
        removed = remove_tuning(path)
        say(f"removed {path}" if removed else f"nothing to undo: {path} does not exist")
        return
    if queries is None:
        asked = _recorded(settings, since, yes=yes)
    elif since is not None:
        raise SettingsError("--since", "selects from the usage record; leave out --queries")
    else:
        asked = read_queries(queries)
    if not has_numpy():
        from pytools_hybrid.installation import install_command

        again = install_command("numpy", again=True)
        raise PytoolsError(f"numpy cannot be imported; reinstall it: {again}")
    from pytools_hybrid.learn import tune as tuning

    outcome = app.run(tuning.tune(settings, roots, asked))
    terminal.print_lines(f"{figures.tables(outcome.report)}\n\n{outcome}")
    if not outcome.is_better and not force:
        say(
            "nothing was written, because the improvement may be due to chance. Try more queries, "
            "or write the file anyway with --force"
        )
        raise typer.Exit(1)
    write_tuning(path, outcome.tuning)
    say(f"wrote {path}")


def _recorded(settings: Settings, since: float | None, *, yes: bool) -> list[EvaluationQuery]:
    from pytools_hybrid.learn.tune import recorded

    found = recorded(*usage.usage_records(settings, since))
    texts = [f"{each.text} → {', '.join(each.gold)}" for each in found]
    for text in terminal.first(texts, _SHOWN_REQUESTS):
        say(f"  {text}")
    say(f"{len(found)} recorded queries were followed by a successful use of a tool")
    if found and not yes and not app.confirm("Learn from them?"):
        raise typer.Abort
    return found


@app.command(
    "enrich",
    settings="root",
    epilog="""Examples:

\b
  $ pytools-hybrid enrich --model openai:gpt-5-mini --dry-run     what it would cost
  $ pytools-hybrid enrich --model openai:gpt-5-mini
  $ pytools-hybrid enrich shell --model openai:gpt-5-mini --limit 20 --yes

Review the result (git diff), change it as you like, and use pytools-hybrid eval to see whether it
helps your searches. The model receives the tools' ids, descriptions and parameter names.""",
)
def enrich(
    flags: app.Flags,
    categories: Annotated[
        list[str] | None, typer.Argument(metavar="CATEGORY", help="Only tools of these categories.")
    ] = None,
    *,
    model: Annotated[
        str,
        typer.Option(metavar="MODEL", help="A language model, such as 'openai:gpt-5-mini'."),
    ],
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of tools.")] = None,
    yes: app.Yes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the cost and the tools, and exit.")
    ] = False,
) -> None:
    """The model writes requests and synonyms, so that searches find the tools.

    They are written to capabilities.toml in the root, where you can review and change them; every
    search then uses them. Unchanged tools that already have an entry are skipped, and so are
    entries that you wrote yourself. Running it again continues an interrupted run.
    """
    from pytools_hybrid.learn.enrich import ModelClient, plan_enrichment
    from pytools_hybrid.settings import REMEDIES, check_language_model

    try:
        check_language_model(model)
    except ValueError as error:
        raise SettingsError("--model", str(error)) from error
    if find_spec("pydantic_ai") is None:
        raise SettingsError("--model", REMEDIES.missing(model))
    settings = app.settings_from(**flags)
    plan = plan_enrichment(
        app.existing_roots(settings),
        policy=settings.policy,
        categories=categories or (),
        limit=limit,
        outside_links=settings.outside_links,
    )
    _say_cost(plan, model)
    if dry_run:
        for id_ in plan.ids:
            typer.echo(terminal.printable(id_))
        return
    if not plan.requests:
        return
    without = "required if no one can confirm; --dry-run shows the cost"
    if not yes and not app.confirm(f"Send these requests to {model}?", without=without):
        say("no model was called")
        return
    report = app.run(_enrich(plan, ModelClient(model)))
    _say_result(report)
    if report.missing:
        raise typer.Exit(1)


def _say_cost(plan: EnrichmentPlan, model: str) -> None:
    from pytools_hybrid.learn.enrich import price_of

    skipped = f"{plan.unchanged} unchanged, {plan.by_hand} written by hand"
    if plan.left:
        skipped += f", {plan.left} left for later"
    if not plan.requests:
        say(f"no tools to enrich ({skipped})")
        return
    sent, said = plan.tokens
    price = price_of(model, plan.tokens)
    if price is None:
        cost = "at an unknown price"
    elif price < _CENT:
        cost = "for less than $0.01"
    else:
        cost = f"for about ${price:.2f}"
    say(
        f"{len(plan.ids)} tools to enrich with {model} ({skipped}), in {len(plan.requests)} "
        f"requests: about {sent:,} input tokens and {said:,} output tokens, {cost}"
    )


async def _enrich(plan: EnrichmentPlan, client: ModelClient) -> EnrichmentReport:
    import asyncio

    from pytools_hybrid.learn.enrich import enrich

    try:
        with terminal.Progress() as progress:
            return await enrich(plan, client, progress=partial(progress, "enriching"))
    except asyncio.CancelledError:
        say("the answers so far are saved; run it again to continue")
        raise


def _say_result(report: EnrichmentReport) -> None:
    spent = report.spent
    cost = "price unknown" if spent.cost_usd is None else f"${spent.cost_usd:.4f}"
    files = ", ".join(map(str, report.files)) or "no file"
    say(
        f"wrote entries for {report.written} tools in {files}: {spent.requests} requests, "
        f"{spent.input_tokens:,} input tokens and {spent.output_tokens:,} output tokens, {cost}"
    )
    if report.missing:
        ids = ", ".join(terminal.first(report.missing, _SHOWN_IDS))
        say(f"{len(report.missing)} tools got no answer ({ids}); run it again to retry")
        for reason in report.reasons:
            say(f"  {reason}")
