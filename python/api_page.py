#!/usr/bin/env python3
"""Makes docs/python-api.md of the docstrings of the package, which it parses and does not import.

    python/api_page.py             # writes the page
    python/api_page.py --check     # says whether the page is what it would write
"""
import ast
import builtins
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE / "src" / "engine_race"
PAGE = HERE.parent / "docs" / "python-api.md"

HEAD = """# The Python package, name by name

`python/api_page.py` makes this page of the docstrings; `help(engine_race)` shows them too.
[python.md](python.md) is the page to read first.
"""


def parsed(module):
    return ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))


def names_and_modules():
    """The names of __all__ with the module that each comes from."""
    tree = parsed("__init__")
    sources = {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom)
               for alias in node.names}
    (listed,) = [node.value for node in tree.body if isinstance(node, ast.Assign)
                 and node.targets[0].id == "__all__"]
    return [(name, sources.get(name, "__init__")) for name in ast.literal_eval(listed)]


def text_of(docstring):
    """A docstring as Markdown: indented lines are code, and lines of prose are joined."""
    lines = []
    for block in re.split(r"\n\n+", docstring or ""):
        if block.startswith("    "):
            lines += ["```python", *(line[4:] for line in block.split("\n")), "```", ""]
        else:
            lines += [" ".join(line.strip() for line in block.split("\n")), ""]
    # Two blocks of code are one.
    text = "\n".join(lines[:-1]).replace("```\n\n```python", "")
    return text.split("\n")


def is_overload(function):
    return any(getattr(mark, "id", "") == "overload" for mark in function.decorator_list)


def is_property(function):
    return any(getattr(mark, "id", "") == "property" for mark in function.decorator_list)


def signature_of(function, drops_self):
    """The parameters with their defaults, without types: those are in the docstrings and hints."""
    given = function.args
    positional = given.posonlyargs + given.args
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    told = []
    for at, (argument, default) in enumerate(zip(positional, defaults)):
        told.append(argument.arg if default is None else f"{argument.arg}={shown(default)}")
        if given.posonlyargs and at == len(given.posonlyargs) - 1:
            told.append("/")
    if drops_self:
        told = told[1:]
        told = told[1:] if told[:1] == ["/"] else told
    if given.vararg:
        told.append(f"*{given.vararg.arg}")
    elif given.kwonlyargs:
        told.append("*")
    for argument, default in zip(given.kwonlyargs, given.kw_defaults):
        told.append(argument.arg if default is None else f"{argument.arg}={shown(default)}")
    if given.kwarg:
        told.append(f"**{given.kwarg.arg}")
    return f"({', '.join(told)})"


def shown(default):
    # Names of the package itself say nothing here.
    return "..." if isinstance(default, (ast.Name, ast.Attribute)) else ast.unparse(default)


SPECIAL = {"__getitem__": "self[key]", "__setitem__": "self[key] = value",
           "__delitem__": "del self[key]", "__contains__": "key in self", "__len__": "len(self)",
           "__iter__": "iter(self)", "__reversed__": "reversed(self)", "__bool__": "bool(self)"}


def told_after(body, at):
    """The text behind an assignment, or None."""
    told = body[at + 1] if at + 1 < len(body) else None
    is_text = isinstance(told, ast.Expr) and isinstance(told.value, ast.Constant)
    return told.value.value if is_text else None


def members_of(kind):
    """(what stands in the heading, docstring) of each public member with a docstring."""
    for at, node in enumerate(kind.body):
        if isinstance(node, ast.AnnAssign):
            told = told_after(kind.body, at)
            if told:
                yield node.target.id, told
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not is_overload(node):
            told = ast.get_docstring(node)
            if node.name in SPECIAL and told:
                yield SPECIAL[node.name], told
            elif not node.name.startswith("_"):
                name = node.name if is_property(node) else node.name + signature_of(node, True)
                yield ("await " * isinstance(node, ast.AsyncFunctionDef)) + name, told


def inherited_of(kind, classes):
    """The class, and those of the package that it inherits from."""
    yield kind
    for base in kind.bases:
        if getattr(base, "id", "") in classes:
            yield from inherited_of(classes[base.id], classes)


def of_bases(kind, classes):
    """What an exception can be caught as, and what its bases say that are not public."""
    names, texts = [], []
    for base in inherited_of(kind, classes):
        names += [each.id for each in base.bases if not each.id.startswith("_")]
        texts += ["", *text_of(ast.get_docstring(base))] * base.name.startswith("_")
    # Not those that another one is a kind of.
    known = [getattr(builtins, name, None) for name in names]
    names = [name for name, each in zip(names, known) if each is None or not any(
        other not in (None, each) and issubclass(other, each) for other in known)]
    return [f"A kind of {' and '.join(f'`{name}`' for name in dict.fromkeys(names))}.", ""], texts


def of_class(kind, classes):
    is_error = kind.name.endswith("Error")
    bases, texts = of_bases(kind, classes) if is_error else ([], [])
    lines = ["", f"## {kind.name}", "", *bases, *text_of(ast.get_docstring(kind)), *texts]
    known = set()
    for each in inherited_of(kind, classes):
        for heading, told in members_of(each):
            if heading not in known:
                known.add(heading)
                lines += ["", f"### `{kind.name}`: `{heading}`", "", *text_of(told)]
    return lines


def of_options():
    (help_of,) = [node.value for node in parsed("_option_help").body
                  if isinstance(node, ast.AnnAssign) and node.target.id == "HELP"]
    lines = ["", "## Options", "", "`help(engine_race.open)` shows their defaults too.", "",
             "| option | meaning |", "| --- | --- |"]
    return lines + [f"| `{name}` | {told} |" for name, told in ast.literal_eval(help_of).items()]


def of_constants(listed):
    lines = ["", "## Constants", "", "| constant | value | meaning |", "| --- | --- | --- |"]
    for name, module in listed:
        body = parsed(module).body
        for at, node in enumerate(body):
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
                lines.append(f"| `{name}` | `{ast.unparse(node.value)}` | {told_after(body, at)} |")
    return lines


def page():
    listed = names_and_modules()
    found = {}
    for module in sorted({module for _, module in listed} | {"_awaited", "_held", "_reader"}):
        for node in parsed(module).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not (
                    isinstance(node, ast.FunctionDef) and is_overload(node)):
                found[node.name] = node
    classes = {name: node for name, node in found.items() if isinstance(node, ast.ClassDef)
               and (name in ("AwaitedReader", "Held", "Reader") or name.startswith("_"))}
    lines = [*HEAD.split("\n"), *text_of(ast.get_docstring(parsed("__init__")))]
    functions = [found[name] for name, _ in listed if isinstance(found.get(name), ast.FunctionDef)]
    for function in functions:
        lines += ["", f"## {function.name}{signature_of(function, False)}", "",
                  *text_of(ast.get_docstring(function))]
    lines += of_constants(listed) + of_options()
    kinds = [found[name] for name, _ in listed if isinstance(found.get(name), ast.ClassDef)]
    first = ("Store", "Snapshot", "Iterator", "Scan", "WriteBatch")
    for kind in sorted(kinds, key=lambda kind: (kind.name not in first, first.index(kind.name)
                                                if kind.name in first else kind.name)):
        lines += of_class(kind, classes)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
            sys.exit(f"{PAGE.name} is not what the docstrings say: run python/api_page.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PAGE.write_text(page(), encoding="utf-8")
