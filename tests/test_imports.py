"""Imports between modules: from the public interface down to the kernels only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hornbeam

PACKAGE = Path(hornbeam.__file__).parent

# Layers, top first; a module may import from its own layer and from those below it.
LAYERS = [
    ["dask", "ray", "spark", "xgboost.dask", "xgboost.spark"],
    ["sklearn", "xgboost", "forests", "cli", "explain.report", "__main__"],
    ["installation", "warm_up", "quality", "parameter_search", "auditions", "bagging"],
    ["training", "cross_validation", "callbacks", "explain", "cart", "distributed"],
    ["boosting"],
    ["export"],
    ["growth", "objectives", "metrics", "forest"],
    ["backends"],
    ["backends.interface"],
    ["features"],
    ["data.dmatrix", "data.quantile_dmatrix"],
    ["binning"],
    ["data"],
    ["binning.layout", "external_memory"],
    ["kernels"],
    ["kernels.maths"],
    ["kernels.signatures"],
    ["kernels.jit", "kernels.layout"],
    ["kernels.compiler", "kernels.native"],
    ["kernels.lowering", "kernels.sources"],
    ["params"],
    ["parameter_names"],
    ["memory", "shared_memory", "cpu_count"],
    ["cgroups", "errors", "files", "lazy", "log"],
    ["system"],
]
# The interfaces of backends, rows and clusters, the factory of backends, and the
# devices that it takes.
PUBLIC_BACKENDS = {
    "backends.interface",
    "backends.cluster",
    "backends.cluster_rows",
    "backends.factory",
    "backends.row_numbers",
    "backends.opencl.devices",
    "backends.rows",
}
LEVEL = {module: level for level, modules in enumerate(LAYERS) for module in modules}

SOURCES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
MODULES = {name.removesuffix("__init__").rstrip("."): name for name in SOURCES}


_HOLDS_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(SOURCES[MODULES[module]].read_text())


def level(module: str) -> int:
    """Return the layer of `module`, by its longest prefix in LAYERS."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in LEVEL:
            return LEVEL[prefix]
    raise AssertionError(f"hornbeam.{module} is in no layer; add it to LAYERS")


@cache
def imports(module: str, *, at_run_time: bool = False) -> tuple[str, ...]:
    """Return the modules of Hornbeam that `module` imports, without that prefix.

    `at_run_time` omits imports for type checking only and imports in functions.
    """
    found = []
    tree = parsed(module)
    for node in _top_level(tree) if at_run_time else _statements(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            targets = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            if target.split(".")[0] == "hornbeam":
                found.append(_module_of(target))
    return tuple(found)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements, and no expressions: most nodes are parts of these."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _HOLDS_STATEMENTS):
            yield node
            yield from _statements(node)


def _top_level(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not isinstance(node, _HOLDS_STATEMENTS):
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


def inner_imports() -> Iterator[tuple[str, str]]:
    """Yield each module of Hornbeam with each module that it imports."""
    for module in INNER:
        for target in imports(module):
            yield module, target


def test_modules_import_from_lower_layers_only():
    for module, target in inner_imports():
        if target == "":
            # The command line uses the public names of the top-level package; other
            # modules may import only the version from it.
            if module.split(".")[0] != "cli":
                source = SOURCES[MODULES[module]].read_text()
                assert "from hornbeam import __version__" in source, module
                assert "\nimport hornbeam\n" not in source, module
            continue
        assert level(target) >= level(module), f"{module} imports {target}"


def test_only_backends_import_a_concrete_backend():
    concrete = [
        (module, target)
        for module, target in inner_imports()
        if module.split(".")[0] != "backends"
        and target.startswith("backends.")
        and target not in PUBLIC_BACKENDS
    ]
    assert not concrete


ENGINES = {"dask", "distributed", "ray", "pyspark"}


def foreign_imports(module: str) -> set[str]:
    """Return the names of modules that `module` imports, anywhere in it."""
    found = set()
    for node in _statements(parsed(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    return found


def test_the_learner_of_a_cluster_imports_no_engine():
    own = [module for module in INNER if module.split(".")[0] == "distributed"]
    assert len(own) > 25
    found = {(m, name) for m in own for name in foreign_imports(m)}
    assert not [pair for pair in found if pair[1].split(".")[0] in ENGINES]


def test_tasks_of_spark_do_not_import_its_machine_learning():
    # It imports pandas, which takes longer than all that tasks import.
    own, left = set(), {"spark.task", "spark.prediction"}
    while left:
        own |= left
        found = {target for module in left for target in imports(module)}
        left = {target for target in found - own if target.startswith("spark.")}
    assert own >= {"spark.rows"}
    found = {(m, name) for m in own for name in foreign_imports(m)}
    assert not [pair for pair in found if pair[1].startswith("pyspark.ml")]


def test_no_package_imports_its_modules():
    # A thread that imports a module and a thread that imports its package would
    # deadlock; the threads of a Dask worker import both at the same time.
    packages = [module for module in INNER if MODULES[module] != module]
    own = [
        (package, target)
        for package in packages
        for target in imports(package, at_run_time=True)
        if target.startswith(f"{package}.")
    ]
    assert packages and not own


def imports_in_functions(module: str) -> set[str]:
    """Return the modules of the package that functions of `module` import."""
    found = set()
    for function in _statements(parsed(module)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in _statements(function):
                if isinstance(node, ast.Import):
                    found |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    found.add(str(node.module))
    own = {name for name in found if name.split(".")[0] == "hornbeam"}
    return {name.removeprefix("hornbeam.") for name in own}


#: What functions import. The command line needs the extra "cli", whose absence is a
#: clear error. A first training on an array in memory starts without the others.
LATE = {
    "__main__": {"cli.app"},
    "backends.factory": {
        "backends.exact",
        "backends.exact_tree_grower",
        "backends.external",
        "backends.memory_plan",
        "backends.sparse",
    },
    "boosting.booster": {"boosting.refresh", "objectives.distributions"},
    "boosting.gbtree": {"boosting.line_search"},
    "boosting.margin_cache": {"kernels.ahead"},
    "boosting.predictor": {
        "boosting.interventional_shap",
        "boosting.tree_shap",
        "forest.tree_paths",
    },
    "boosting.trainer": {
        "boosting.gblinear",
        "boosting.line_search",
        "boosting.refresh",
    },
    "data.dmatrix": {"binning.external", "binning.external_build"},
    "data.opening": {
        "data.sources.dispatch",
        "data.sources.files",
        "external_memory.codecs",
        "external_memory.folders",
    },
    "data.quantile_dmatrix": {"binning.external_build"},
    "params": {"parameter_names"},
}


def test_functions_import_what_a_first_training_does_without():
    found = {module: imports_in_functions(module) for module in INNER}
    assert {module: names for module, names in found.items() if names} == LATE


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
