"""What the architecture tests look at: the tracked files, and what each module imports, read from its syntax."""

import ast
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Part:
    """One dist: the folder of its sources and the one name it is imported by."""

    folder: str
    package: str

    @property
    def source(self) -> Path:
        return ROOT / self.folder / "src" / self.package


PARTS = {
    "protocol": Part("protocol", "scaler_protocol"),
    "client": Part("packages/scaler-client", "scaler"),
    "scheduler": Part("packages/scaler-scheduler", "scaler_scheduler"),
    "worker": Part("packages/scaler-worker", "scaler_worker"),
    "storage": Part("packages/scaler-storage", "scaler_storage"),
    "symphony": Part("packages/scaler-symphony", "scaler_symphony"),
    "conformance": Part("conformance", "scaler_conformance"),
}
OUR_PACKAGES = frozenset(part.package for part in PARTS.values())


@dataclass(frozen=True)
class Import:
    """One imported module. `is_guarded`: below an `if` or a `try`, so it need not succeed everywhere."""

    path: Path
    line: int
    module: str
    is_guarded: bool

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]

    def __str__(self) -> str:
        return f"{relative(self.path)}:{self.line} imports {self.module}"


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tracked(*suffixes: str) -> list[Path]:
    """Files that git knows or would add, so a stray build output is nobody's concern."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=30).stdout.decode().split("\0")
    paths = [ROOT / name for name in names if name and (not suffixes or name.endswith(suffixes))]
    return sorted(path for path in set(paths) if path.is_file())


def modules(part: Part) -> list[Path]:
    return sorted(part.source.rglob("*.py"))


@cache
def syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def imports(path: Path) -> tuple[Import, ...]:
    found: list[Import] = []
    collect_imports(path, syntax(path), False, found)
    return tuple(found)


def collect_imports(path: Path, node: ast.AST, is_guarded: bool, found: list[Import]) -> None:
    for child in ast.iter_child_nodes(node):
        line = getattr(child, "lineno", 0)
        found.extend(Import(path, line, module, is_guarded) for module in imported_modules(path, child))
        collect_imports(path, child, is_guarded or isinstance(child, ast.If | ast.Try), found)


def imported_modules(path: Path, node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        package = resolve(path, node.level) if node.level else ""
        base = ".".join(piece for piece in (package, node.module) if piece)
        return [f"{base}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and called_name(node) in {"__import__", "import_module"}:
        named = node.args[0] if node.args else None
        return [named.value] if isinstance(named, ast.Constant) and isinstance(named.value, str) else []
    return []


def resolve(path: Path, level: int) -> str:
    """The package that a relative import with that many dots starts from."""
    inside = path.relative_to(next(parent for parent in path.parents if parent.name == "src"))
    pieces = inside.parts[:-1]
    return ".".join(pieces[: len(pieces) - level + 1])


def called_name(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
