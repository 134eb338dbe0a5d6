"""Write the held-back categories as a set of tools that no model of ours has seen.

usage: PYTHONPATH=benchmarks/quality uv run python -m train.held OUT

It writes `tools.jsonl` and `queries.jsonl` to OUT. `make_tree.py` turns OUT into a tree
(README.md).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from train.data import TRAINING, is_held, read_lines


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    tools: list[dict[str, object]] = []
    asked: dict[str, list[str]] = {}
    for file in sorted(TRAINING.glob("tools_*.jsonl")):
        held = [tool for tool in read_lines(file) if is_held(tool["category"])]
        ids = {(tool["category"], tool["name"]): f"{file.stem}-{n}" for n, tool in enumerate(held)}
        for id_, tool in zip(ids.values(), held, strict=True):
            properties = {
                each["name"]: {"type": "string", "description": each["description"]}
                for each in tool["parameters"]
            }
            about = {key: tool[key] for key in ("category", "name", "description")}
            tools.append({"id": id_, **about, "schema": {"properties": properties}})
            asked |= {query: [id_] for query in tool["queries"]}
        for each in read_lines(file.with_name(file.name.replace("tools_", "compound_"))):
            gold = [ids.get(tuple(tool)) for tool in each["gold"]]
            if None not in gold:
                asked[each["query"]] = [id_ for id_ in gold if id_]
    queries = [
        {"id": f"held-{n}", "query": query, "gold": gold}
        for n, (query, gold) in enumerate(asked.items())
    ]
    for name, rows in (("tools", tools), ("queries", queries)):
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (out / f"{name}.jsonl").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
