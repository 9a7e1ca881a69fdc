"""Translate the formulas of the spectrum into C: `python scripts/write_formulas.py` writes native/formulas.h.

The formulas stand once, in formulas.py, rules.py and reduction_rules.py; the C kernel (CPU and GPU) includes what is
written here, and a test compares the two. Only what those files use is understood; anything else is an error.
"""

from __future__ import annotations

import ast
from pathlib import Path

SPECTRUM = Path(__file__).parent.parent / "src" / "gaussveil" / "spectrum"
SOURCES = ("rules.py", "formulas.py", "reduction_rules.py")
TARGET = SPECTRUM / "native" / "formulas.h"
CALLS = {"abs": "fabs", "round": "rint", "isfinite": "isfinite", "where": "choose", "minimum": "smaller"}
PLAIN = {"asinh", "clip", "cos", "exp", "expm1", "hypot", "log", "log1p", "log2", "sign", "sin", "sinh", "sqrt"}
CONSTANTS = {"math.inf": "INFINITY", "math.pi": "3.141592653589793"}
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.BitAnd: "&&",
    ast.BitOr: "||",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.USub: "-",
    ast.Invert: "!",
}


def expression(node: ast.expr) -> str:
    """A number or a condition."""
    match node:
        case ast.Constant(value=bool() | str() | None):
            raise SyntaxError(f"no number: {ast.unparse(node)}")
        case ast.Constant(value=value):
            return repr(float(value))
        case ast.Name(id=name):
            return name
        case ast.Attribute():
            return CONSTANTS[ast.unparse(node)]
        case ast.UnaryOp(op=op, operand=operand):
            return f"({OPERATORS[type(op)]}{expression(operand)})"
        case ast.BinOp(left=ast.Constant(value=2.0), op=ast.Pow(), right=right):
            return f"exp2({expression(right)})"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({expression(left)} {OPERATORS[type(op)]} {expression(right)})"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"({expression(left)} {OPERATORS[type(op)]} {expression(right)})"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="xp"), attr=name), args=args):
            if name not in CALLS and name not in PLAIN:
                raise SyntaxError(f"no such function in C: {name}")
            return f"{CALLS.get(name, name)}({', '.join(map(expression, args))})"
    raise SyntaxError(f"cannot translate {ast.unparse(node)}")


def statements(body: list[ast.stmt], known: set[str], indent: str = "    ") -> list[str]:
    """Lines of C; a name is declared where it first stands."""
    lines = []
    for node in body:
        match node:
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Return(value=ast.Tuple(elts=parts)):
                lines.append(f"{indent}return MAKE(Numbers){{{{{', '.join(map(expression, parts))}}}}};")
            case ast.Return(value=ast.expr() as value):
                lines.append(f"{indent}return {expression(value)};")
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                fresh = [f"{name.id}_" for name in names if isinstance(name, ast.Name)]
                lines += [f"{indent}double {name} = {expression(value)};" for name, value in zip(fresh, values)]
                lines += [assigned(name[:-1], name, known, indent) for name in fresh]
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                lines.append(assigned(name, expression(value), known, indent))
            case ast.For(target=ast.Name(id=name), iter=ast.Name(id="poles"), body=inner):
                lines.append(f"{indent}for (int place = 0; place < pole_count; place++) {{")
                lines.append(f"{indent}    double {name} = poles[place];")
                lines += statements(inner, known | {name}, indent + "    ")
                lines.append(f"{indent}}}")
            case _:
                raise SyntaxError(f"cannot translate {ast.unparse(node)}")
    return lines


def assigned(name: str, value: str, known: set[str], indent: str) -> str:
    """One assignment."""
    declared = "" if name in known else "double "
    known.add(name)
    return f"{indent}{declared}{name} = {value};"


def function(node: ast.FunctionDef, number: str = "double") -> str:
    """One formula; with Lanes for numbers, whole blocks at once (arithmetic alone)."""
    parameters, names = [], set()
    for argument in node.args.args:
        if argument.arg == "xp":
            continue
        names.add(argument.arg)
        if argument.arg == "poles":
            parameters.append("const double *poles, int pole_count")
        else:
            parameters.append(f"double {argument.arg}")
    several = isinstance(node.returns, ast.Subscript)
    head = f"GV {'Numbers' if several else 'double'} {node.name}({', '.join(parameters)})"
    text = "\n".join([head + " {", *statements(node.body, names), "}"])
    if number == "double":
        return text
    return (
        text.replace("double", number).replace("Numbers", "Blocks").replace(f"{node.name}(", f"{node.name}_block(", 1)
    )


def is_arithmetic(node: ast.FunctionDef) -> bool:
    """Whether a formula is sums and products alone, so that it serves a block of lanes as it stands."""
    return not any(isinstance(part, ast.Compare | ast.For | ast.Call | ast.Pow) for part in ast.walk(node))


def constant(name: str, node: ast.expr) -> list[str]:
    """A constant, or an array of them with its length."""
    if not name.isupper() or isinstance(node, ast.Call):
        return []
    value = eval(compile(ast.Expression(node), name, "eval"))  # arithmetic alone: nothing is in its scope
    if not isinstance(value, tuple):
        return [f"#define {name} ({value!r})"]
    flat = [number for part in value for number in (part if isinstance(part, tuple) else (part,))]
    return [
        f"CONSTANT double {name}[] = {{{', '.join(map(repr, map(float, flat)))}}};",
        f"#define {name}_COUNT {len(value)}",
    ]


def translated() -> str:
    """The whole header."""
    parts = [
        f"/* Written by scripts/write_formulas.py from {', '.join(SOURCES)}; not to be edited. */",
        "typedef struct { double at[5]; } Numbers;",
        "typedef struct { Lanes at[5]; } Blocks;",
    ]
    for source in SOURCES:
        for node in ast.parse((SPECTRUM / source).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                parts.append(function(node))
                if is_arithmetic(node):
                    parts.append(function(node, "Lanes"))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                parts += constant(node.targets[0].id, node.value)
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    TARGET.write_text(translated(), encoding="utf-8")
