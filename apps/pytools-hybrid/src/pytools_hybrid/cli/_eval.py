"""`pytools-hybrid eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._options import Root
from pytools_hybrid.cli._run import existing_roots, settings_from
from pytools_hybrid.cli._run import run as run_job
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import print_lines


@app.command(
    "eval",
    epilog="""Example:

\b
  $ cat queries.jsonl
  {"id": "q1", "query": "open an issue on github", "gold": ["mcptools:github:create_issue"]}
  {"id": "q2", "query": "merge two pdf files", "gold": ["mcptools:pdf:merge_pdfs"]}
  $ pytools-hybrid eval --root examples/tools --queries queries.jsonl

Thirty queries show large differences, two hundred show small ones: the table shows the 95 %
interval of ndcg@10. With --output json, "modes" has one entry for each row of the table; its
"failures" are the ids of the queries without a right tool among the first ten.""",
)
def evaluate(
    *,
    queries: Annotated[
        Path,
        typer.Option(
            "--queries",
            help='JSON lines with "id", "query" and "gold", the ids of all right tools; other keys '
            "are ignored. A gold id that is not in the index is reported, and counts as not found.",
        ),
    ],
    root: Root = None,
    db: Annotated[
        Path | None,
        typer.Option(
            "--db",
            help="Bring this index up to date and evaluate copies of it, which saves embedding "
            "all tools again. [default: a temporary index, whatever PYTOOLS_DB_PATH says]",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "--embedding-model",
            help="The embedding model, as for search; several can be given, and are compared. "
            "[env: PYTOOLS_EMBEDDING_MODEL; default: "
            "accurate if it is installed, else static]",
        ),
    ] = None,
    mode: Annotated[
        Literal["hybrid", "bm25", "vector"] | None, typer.Option(help="Evaluate only this mode.")
    ] = None,
    all_modes: Annotated[
        bool,
        typer.Option(
            "--all-modes",
            help="Compare bm25, vector, hybrid with your settings, and hybrid with the other "
            "fusion, as 'hybrid (rrf)'; without vectors, only bm25. [default without --mode, of "
            "one model]",
        ),
    ] = False,
    limit_k: Annotated[
        str,
        typer.Option(
            "--limit-k",
            metavar="K,K,…",
            help="The depths of recall, up to 50. All other measures use the first ten results "
            "(hit@3 at three).",
        ),
    ] = "1,3,5,10",
    by: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Break ndcg@10 down by a key of the queries' lines, such as 'kind'."
        ),
    ] = None,
    output: Annotated[
        Literal["table", "json"], typer.Option(help="For people, or for programs.")
    ] = "table",
) -> None:
    """Measure how well searches find your tools, on your own queries, and compare modes or models.

    Searches run one after the other, each query once per mode; the latency is that of the whole
    search, including embedding the query. If pytools-hybrid tune has written a file, the table also
    has a row without it.
    """
    from pytools_hybrid.learn import evaluate as evaluation
    from pytools_hybrid.learn.figures import as_json, as_text
    from pytools_hybrid.search import SearchMode

    if mode is not None and all_modes:
        raise SettingsError("--mode / --all-modes", "use only one of these flags")
    models = model or []
    if all_modes and len(models) > 1:
        raise SettingsError("--all-modes", "compares the modes of one --model; give --mode instead")
    only = models[0] if len(models) == 1 else None
    settings = settings_from(root=root, database=db, embedding_model=only)
    tools = existing_roots(settings)
    asked = evaluation.read_queries(queries, by=by)
    recall_at = evaluation.recall_depths(limit_k)
    chosen = SearchMode(mode) if mode else None
    # A tuning file is found beside an index, and the temporary indexes have none.
    tuned = settings.model_copy(update={"tuning": settings.resolved_tuning(tools) or Path("none")})
    if len(models) > 1:
        compared = evaluation.of_models(tuned, _checked(models), chosen)
    else:
        compared = evaluation.configurations(tuned, chosen)
    database = settings.db_path if db is not None else None
    if (
        database is not None
        and queries.exists()
        and database.exists()
        and queries.samefile(database)
    ):
        raise SettingsError("--db", f"{database} contains the queries; name another file")
    evaluator = evaluation.Evaluator(tools, database=database)
    report = run_job(evaluator.evaluate(asked, compared, recall_at=recall_at, by=by))
    if output == "json":
        import json

        typer.echo(json.dumps(as_json(report), indent=2))
    else:
        print_lines(as_text(report))


def _checked(models: list[str]) -> list[str]:
    from toolembed.providers import check_model_name, check_provider

    for model in models:
        try:
            check_provider(check_model_name(model))
        except ValueError as error:
            raise SettingsError("--model", str(error)) from error
    return models
