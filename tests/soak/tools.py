"""A tree of tools that changes at random, as generators and people would change it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

_CATEGORIES = ("github", "pdf", "mail", "maps", "zoo")
_VERBS = ("open", "merge", "send", "plan", "feed", "list", "close", "rotate")
# A search returns at most fifty tools, and all tools are compared.
_MOST = 40


class Tree:
    """The tools below a root.

    Attributes:
        root: The root.
    """

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root = root
        self._chance = chance
        self._written = 0
        root.mkdir(parents=True)
        for _ in range(_MOST // 2):
            self.write()

    def change(self) -> str:
        """Change something, and return what was done."""
        change = self._chance.choice(
            (self.write, self.write, self.rewrite, self.delete, self.move, self.regenerate)
        )
        change()
        return change.__name__

    def write(self) -> None:
        """Write a new tool."""
        if len(self._files()) < _MOST:
            self._written += 1
            verb = self._chance.choice(_VERBS)
            self._fill(self._folder() / f"{verb}_{self._written}.py", verb)

    def rewrite(self) -> None:
        """Rewrite a tool, sometimes as a file that is not a tool."""
        for file in self._some():
            if self._chance.random() < 0.1:
                file.write_bytes(self._chance.randbytes(50))
            else:
                self._fill(file, self._chance.choice(_VERBS))

    def delete(self) -> None:
        """Delete a tool."""
        for file in self._some():
            file.unlink()

    def move(self) -> None:
        """Move a tool into a category."""
        for file in self._some():
            folder = self._folder()
            folder.mkdir(parents=True, exist_ok=True)
            file.replace(folder / file.name)

    def regenerate(self) -> None:
        """Regenerate a category, as generators do: remove it and write it again."""
        folder = self._folder()
        names = [file.name for file in folder.glob("*.py")]
        shutil.rmtree(folder, ignore_errors=True)
        for name in names:
            self._fill(folder / name, self._chance.choice(_VERBS))

    def _fill(self, file: Path, verb: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        number = self._chance.randrange(10**6)
        file.write_text(f"def run(text: str) -> str:\n    '''Tool to {verb} thing {number}.'''\n")

    def _folder(self) -> Path:
        return self.root / "mcptools" / self._chance.choice(_CATEGORIES)

    def _files(self) -> list[Path]:
        return sorted(self.root.glob("mcptools/*/*.py"))

    def _some(self) -> list[Path]:
        files = self._files()
        return self._chance.sample(files, k=min(1, len(files)))


def write_many(
    root: Path, count: int, *, category: str = "many", words: str = "Tool of the penguin."
) -> Path:
    """Write a number of tools, fifty per category, and return the root."""
    for number in range(count):
        folder = root / "mcptools" / f"{category}_{number // 50}"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"tool_{number}.py"
        file.write_text(f"def run() -> str:\n    '''{words} Number {number} of {category}.'''\n")
    return root
