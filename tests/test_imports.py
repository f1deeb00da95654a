"""Imports between modules: from the public interface down to the kernels only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hornbeam

PACKAGE = Path(hornbeam.__file__).parent

# Layers, top first; a module may import from its own layer and from those below it.
LAYERS = [
    ["dask", "xgboost.dask"],
    ["sklearn", "xgboost", "forests", "cli", "warm_up", "explain.report", "__main__"],
    ["training", "cross_validation", "callbacks", "explain", "cart"],
    ["boosting"],
    ["export"],
    ["growth", "objectives", "metrics", "forest"],
    ["backends"],
    ["backends.interface"],
    ["data.dmatrix", "data.quantile_dmatrix"],
    ["binning"],
    ["data"],
    ["binning.layout", "external_memory"],
    ["kernels"],
    ["kernels.maths"],
    ["kernels.jit", "kernels.layout"],
    ["params"],
    ["memory", "cpu_count"],
    ["cgroups", "errors", "files", "lazy"],
]
# The interfaces of backends, rows and clusters, and the factory of backends.
PUBLIC_BACKENDS = {
    "backends.interface",
    "backends.cluster",
    "backends.cluster_rows",
    "backends.factory",
    "backends.rows",
}
LEVEL = {module: level for level, modules in enumerate(LAYERS) for module in modules}

SOURCES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
MODULES = {name.removesuffix("__init__").rstrip("."): name for name in SOURCES}


def level(module: str) -> int:
    """Return the layer of `module`, by its longest prefix in LAYERS."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in LEVEL:
            return LEVEL[prefix]
    raise AssertionError(f"hornbeam.{module} is in no layer; add it to LAYERS")


def imports(module: str, *, at_run_time: bool = False) -> Iterator[str]:
    """Yield the modules of Hornbeam that `module` imports, without the prefix hornbeam.

    `at_run_time` omits imports for type checking only and imports in functions.
    """
    tree = ast.parse(SOURCES[MODULES[module]].read_text())
    for node in _top_level(tree) if at_run_time else ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            targets = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            if target.split(".")[0] == "hornbeam":
                yield _module_of(target)


def _top_level(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from _top_level(node)


def _module_of(target: str) -> str:
    parts = target.split(".")[1:]
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        if name in MODULES:
            return name
    assert len(parts) <= 1, f"there is no module {target}"
    return ""


INNER = sorted(set(MODULES) - {""})


@pytest.mark.parametrize("module", INNER)
def test_modules_import_from_lower_layers_only(module):
    for target in imports(module):
        if target == "":
            # The command line uses the public names of the top-level package; other
            # modules may import only the version from it.
            source = SOURCES[MODULES[module]].read_text()
            assert "from hornbeam import __version__" in source, module
            assert module == "cli" or "\nimport hornbeam\n" not in source, module
            continue
        assert level(target) >= level(module), f"{module} imports {target}"


@pytest.mark.parametrize("module", INNER)
def test_only_backends_import_a_concrete_backend(module):
    if module.split(".")[0] == "backends":
        return
    concrete = {
        target
        for target in imports(module)
        if target.startswith("backends.") and target not in PUBLIC_BACKENDS
    }
    assert not concrete


@pytest.mark.parametrize("package", [m for m in INNER if MODULES[m] != m])
def test_no_package_imports_its_modules(package):
    # A thread that imports a module and a thread that imports its package would
    # deadlock; the threads of a Dask worker import both at the same time.
    targets = imports(package, at_run_time=True)
    assert not [target for target in targets if target.startswith(f"{package}.")]


def imports_in_functions(module: str) -> set[str]:
    """Return the modules of the package that functions of `module` import."""
    tree = ast.parse(SOURCES[MODULES[module]].read_text())
    found = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    found |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    found.add(str(node.module))
    return {name for name in found if name.split(".")[0] == "hornbeam"}


#: The command line needs the extra "cli", whose absence is a clear error.
EXTRAS = {"__main__": {"hornbeam.cli"}}


@pytest.mark.parametrize("module", INNER)
def test_functions_import_optional_extras_only(module):
    assert imports_in_functions(module) == EXTRAS.get(module, set())


def test_there_are_no_import_cycles():
    # What only a type checker reads counts, too: a type belongs below its users.
    graph = {module: set(imports(module)) for module in INNER}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module in done or not module:
            return
        for target in graph[module]:
            if target != module:
                visit(target, (*path, module))
        done.add(module)

    for module in INNER:
        visit(module, ())
