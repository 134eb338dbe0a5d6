"""`pytools-hybrid enrich`."""

from __future__ import annotations

import sys
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._options import Exclude, Include, Root
from pytools_hybrid.cli._run import existing_roots, run, settings_from
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import Progress, printable, say

if TYPE_CHECKING:
    from pytools_hybrid.learn.enrich import EnrichmentPlan, EnrichmentReport, ModelClient

_SHOWN = 5
_CENT = 0.01


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid enrich --model openai:gpt-5-mini --dry-run     what it would cost
  $ pytools-hybrid enrich --model openai:gpt-5-mini
  $ pytools-hybrid enrich --model openai:gpt-5-mini --category shell --limit 20 --yes

Review the result (git diff), change it as you like, and use pytools-hybrid eval to see whether it
helps your searches."""
)
def enrich(
    *,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="A pydantic-ai language model, such as 'openai:gpt-5-mini'. It receives the "
            "tools' ids, descriptions and parameter names.",
        ),
    ],
    root: Root = None,
    include: Include = None,
    exclude: Exclude = None,
    category: Annotated[
        list[str] | None,
        typer.Option("--category", help="Only tools of this category; can be repeated."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="The maximum number of tools to ask about.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the cost and the tools, and exit.")
    ] = False,
) -> None:
    """Let a language model write requests and synonyms for your tools, so that searches find them.

    They are written to capabilities.toml in the root, where you can review and change them; every
    search then uses them. Unchanged tools that already have an entry are skipped, and so are
    entries that you wrote yourself. Running it again continues an interrupted run.
    """
    from pytools_hybrid.learn.enrich import plan_enrichment
    from pytools_hybrid.settings import REMEDIES, check_model_name

    try:
        check_model_name(model)
    except ValueError as error:
        raise SettingsError("--model", str(error)) from error
    if find_spec("pydantic_ai") is None:
        raise SettingsError("--model", REMEDIES.missing(model))
    settings = settings_from(root=root, include=include, exclude=exclude)
    plan = plan_enrichment(
        existing_roots(settings),
        policy=settings.policy,
        categories=category or (),
        limit=limit,
        outside_links=settings.outside_links,
    )
    _tell(plan, model)
    if dry_run:
        for id_ in plan.ids:
            typer.echo(printable(id_))
        return
    if not plan.requests:
        return
    if not yes and not _agrees():
        say("no model was called")
        return
    from pytools_hybrid.learn.enrich import ModelClient

    report = run(_enrich(plan, ModelClient(model)))
    _tell_of(report)
    if report.missing:
        raise typer.Exit(1)


def _tell(plan: EnrichmentPlan, model: str) -> None:
    from pytools_hybrid.learn.enrich import price_of

    skipped = f"{plan.unchanged} unchanged, {plan.by_hand} written by hand"
    if plan.left:
        skipped += f", {plan.left} left for later"
    if not plan.requests:
        say(f"no tools to ask about ({skipped})")
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
        f"{len(plan.ids)} tools to ask {model} about ({skipped}), in {len(plan.requests)} "
        f"requests: about {sent:,} input tokens and {said:,} output tokens, {cost}"
    )


def _agrees() -> bool:
    if not sys.stdin.isatty():
        raise SettingsError("--yes", "required if no one can confirm; --dry-run shows the cost")
    return typer.confirm("Ask?", err=True)


async def _enrich(plan: EnrichmentPlan, client: ModelClient) -> EnrichmentReport:
    import asyncio

    from pytools_hybrid.learn.enrich import enrich

    try:
        with Progress() as progress:
            return await enrich(plan, client, progress=partial(progress, "asking"))
    except asyncio.CancelledError:
        say("the answers so far are saved; run it again to continue")
        raise


def _tell_of(report: EnrichmentReport) -> None:
    spent = report.spent
    cost = "price unknown" if spent.cost_usd is None else f"${spent.cost_usd:.4f}"
    files = ", ".join(map(str, report.files)) or "no file"
    say(
        f"wrote entries for {report.written} tools in {files}: {spent.requests} requests, "
        f"{spent.input_tokens:,} input tokens and {spent.output_tokens:,} output tokens, {cost}"
    )
    if report.missing:
        ids = ", ".join(report.missing[:_SHOWN])
        more = f" and {len(report.missing) - _SHOWN} more" if len(report.missing) > _SHOWN else ""
        say(f"{len(report.missing)} tools have no answer ({ids}{more}); run it again to ask again")
        for reason in report.reasons:
            say(f"  {reason}")
