"""Compile the kernels, all functions marked ``@kernel``, by Cython into one extension module.

    python tools/compile_kernels.py      beside the source, for an editable installation

Kernels are plain Python over NumPy arrays, which type checkers read and any interpreter runs. This
writes them down once more with the C types that their annotations name, in one Cython module, so
that they call each other as C functions, and has a C compiler make `walras._kernels` of it.
Arithmetic is IEEE's in the order that is written, and nothing is fused: compiled kernels give what
the same kernels give uncompiled, to the bit.

`tools/build_hook.py` calls it for every wheel and every editable installation.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT / "core" / "walras", ROOT / "studies" / "walras_studies")
MODULE = "walras._kernels"
BESIDE_SOURCE = ROOT / "core" / "walras"

MISSING = (
    "Kernels run uncompiled: prices of 2 400 jobs take 0.2 s instead of 0.5 ms. With a C compiler "
    "and Python.h (gcc and python3-dev on Debian), `make clean setup` compiles them."
)

SCALARS = {"float": "double", "int": "long long", "bool": "bint"}
ARRAYS = {  # names in `walras.numerics.arrays`
    "Floats": "double[::1]",
    "FloatTable": "double[:, ::1]",
    "FloatCube": "double[:, :, ::1]",
    "Integers": "long long[::1]",
    "IntegerTable": "long long[:, ::1]",
    "IntegerCube": "long long[:, :, ::1]",
    "Indices": "unsigned int[::1]",
    "IndexTable": "unsigned int[:, ::1]",
    "Bools": "unsigned char[::1]",
}
DTYPES = {
    "np.float64": "double",
    "np.int64": "long long",
    "np.uint32": "unsigned int",
    "np.int32": "int",
    "np.bool_": "unsigned char",
}
FUNCTIONS = {
    "np.sqrt": "sqrt",
    "np.floor": "floor",
    "np.isnan": "isnan",
    "log": "log",
    "exp": "exp",
    "int": "as_integer",
    "float": "as_float",
    "bool": "as_bool",
}

C_OPTIONS = [
    "-O3",
    "-ffp-contract=off",
    "-fno-trapping-math",  # nobody reads the flags of floating point
    "-fno-math-errno",
    "-g0",
    "-Wno-unused-function",
    "-Wno-stringop-overflow",  # gcc believes that references to None might be counted
]

CLONED = (  # kernels that AVX-512's vectors of integers or of numbers make twice as fast or more
    "walras__mechanisms__karma___levels__serve",
    "walras__mechanisms__karma___settle__settle",
    "walras__mechanisms__price_anticipating___response__respond",
)

ALLOCATED = {"np.empty", "np.zeros", "np.ones", "np.full"}

HEAD = """\
# cython: language_level=3, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True, cpow=True, binding=False
from libc.math cimport exp, floor, isnan, log, sqrt
from libc.stdlib cimport free, malloc
cdef double INFINITE = float("inf")
import numpy as np

cdef inline long long as_integer(double x) noexcept nogil:
    return <long long>x

cdef inline long long long_integer(long long x) noexcept nogil:
    return x

cdef inline double as_float(long long x) noexcept nogil:
    return <double>x

cdef inline bint as_bool(bint x) noexcept nogil:
    return x

cdef inline double min_double(double a, double b) noexcept nogil:
    return b if b < a else a

cdef inline double max_double(double a, double b) noexcept nogil:
    return b if b > a else a

cdef inline long long min_integer(long long a, long long b) noexcept nogil:
    return b if b < a else a

cdef inline long long max_integer(long long a, long long b) noexcept nogil:
    return b if b > a else a
"""

MEMORY = """
cdef extern from *:
    \"\"\"
    struct block {struct block *before; long double aligned[];};
    static struct block *newest = NULL;  /* kernels keep the GIL: one runs at a time */

    static void *take(size_t bytes) {
        struct block *taken = malloc(sizeof(struct block) + bytes);
        if (!taken) Py_FatalError("no memory left for a kernel's arrays");
        taken->before = newest;
        newest = taken;
        return taken + 1;
    }

    static void give_back(struct block **mark) {
        while (newest != *mark) {
            struct block *taken = newest;
            newest = taken->before;
            free(taken);
        }
    }

    #if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
    #define CLONED __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
    #else
    #define CLONED
    #endif

    #define MARK __attribute__((cleanup(give_back))) struct block *
    #define VIEW (struct __pyx_memoryview_obj *)Py_None  /* nobody counts references to it */
    #define new_1(size, a) \\
        ((__Pyx_memviewslice){VIEW, take((size) * (a)), {a}, {size}, {-1}})
    #define new_2(size, a, b) \\
        ((__Pyx_memviewslice){ \\
            VIEW, take((size) * (a) * (b)), {a, b}, {(size) * (b), size}, {-1, -1}})
    \"\"\"
    ctypedef void *Mark "MARK"
    Mark newest
"""
"""Memory of the arrays that kernels make, without the 2 us that NumPy takes for one.

A kernel that makes arrays, or calls one that returns an array, marks the newest block when it is
called. The C compiler sees to it that newer ones are freed at each of its ends. A kernel that
returns an array marks none, and leaves all that it makes to its caller.
"""

ALLOCATORS = """
cdef extern from *:
    {type}[::1] new_1_{name} "new_1"(size_t, Py_ssize_t) noexcept nogil
    {type}[:, ::1] new_2_{name} "new_2"(size_t, Py_ssize_t, Py_ssize_t) noexcept nogil

cdef inline {type}[::1] {name}_1(Py_ssize_t a) noexcept nogil:
    return new_1_{name}(sizeof({type}), a)

cdef inline {type}[:, ::1] {name}_2(Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    return new_2_{name}(sizeof({type}), a, b)

cdef inline {type}[::1] full_{name}_1(Py_ssize_t a, {type} value) noexcept nogil:
    cdef {type}[::1] made = {name}_1(a)
    cdef Py_ssize_t place
    for place in range(a):
        made[place] = value
    return made

cdef inline {type}[:, ::1] full_{name}_2(Py_ssize_t a, Py_ssize_t b, {type} value) noexcept nogil:
    cdef {type}[:, ::1] made = {name}_2(a, b)
    cdef Py_ssize_t row, place
    for row in range(a):
        for place in range(b):
            made[row, place] = value
    return made

cdef object numpy_{name}_1(const {type}[::1] made):
    result = np.empty(made.shape[0], "{code}")
    cdef {type}[::1] copy = result
    cdef Py_ssize_t place
    for place in range(made.shape[0]):
        copy[place] = made[place]
    return result

cdef object numpy_{name}_2(const {type}[:, ::1] made):
    result = np.empty((made.shape[0], made.shape[1]), "{code}")
    cdef {type}[:, ::1] copy = result
    cdef Py_ssize_t row, place
    for row in range(made.shape[0]):
        for place in range(made.shape[1]):
            copy[row, place] = made[row, place]
    return result
"""

MARK = "cdef Mark mark = newest"

CODES = {"double": "d", "long long": "q", "unsigned int": "I", "int": "i", "unsigned char": "?"}


class KernelError(Exception):
    """A kernel that is written in a way that this cannot translate."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: its C types by name, several for the fields of a named tuple."""

    name: str
    types: dict[str, str]
    fields: tuple[str, ...] = ()


class Module:
    """The source of one module."""

    def __init__(self, name: str, file: Path) -> None:
        self.name = name
        self.tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        self.kernels = {
            node.name: Kernel(self, node)
            for node in self.tree.body
            if isinstance(node, ast.FunctionDef)
            and any(
                isinstance(each, ast.Name) and each.id == "kernel" for each in node.decorator_list
            )
        }

    @cached_property
    def constants(self) -> dict[str, ast.expr]:
        """Values of names in capitals."""
        values = {}
        for node in self.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    values[name] = value
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=parts)):
                    values |= {
                        ast.unparse(one): each for one, each in zip(names, parts, strict=True)
                    }
        return {name: value for name, value in values.items() if name.isupper()}

    @cached_property
    def tuples(self) -> dict[str, dict[str, str]]:
        """Annotations of the fields of each class."""
        return {
            node.name: {
                each.target.id: ast.unparse(each.annotation)
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            }
            for node in self.tree.body
            if isinstance(node, ast.ClassDef)
        }

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Module and name of everything that is imported by name."""
        return {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }


class Kernel:
    """One kernel."""

    def __init__(self, module: Module, node: ast.FunctionDef) -> None:
        self.module = module
        self.node = node
        self.symbol = f"{module.name}.{node.name}".replace(".", "__")
        self.written: set[str] = set()
        self.makes_arrays = False

    @cached_property
    def parameters(self) -> list[Parameter]:
        """The parameters; those of a named tuple become one for each of its fields."""
        return [self._parameter(each) for each in self.node.args.args]

    def _parameter(self, argument: ast.arg) -> Parameter:
        annotation = ast.unparse(argument.annotation) if argument.annotation else ""
        fields = self.module.tuples.get(annotation)
        if fields is None:
            return Parameter(argument.arg, {argument.arg: self._c_type(annotation)})
        types = {f"{argument.arg}__{name}": self._c_type(type_) for name, type_ in fields.items()}
        return Parameter(argument.arg, types, tuple(fields))

    def _c_type(self, annotation: str) -> str:
        type_ = SCALARS.get(annotation) or ARRAYS.get(annotation)
        if type_ is None:
            raise KernelError(f"{self.symbol}: no C type for the annotation {annotation!r}")
        return type_

    @property
    def flat(self) -> dict[str, str]:
        """C type of each parameter of the C function."""
        return {name: type_ for each in self.parameters for name, type_ in each.types.items()}

    @cached_property
    def results(self) -> list[str]:
        """Annotations of what it returns, several for a tuple."""
        returns = self.node.returns
        if isinstance(returns, ast.Subscript):
            parts = returns.slice.elts if isinstance(returns.slice, ast.Tuple) else [returns.slice]
            return [ast.unparse(each) for each in parts]
        return [] if returns is None or ast.unparse(returns) == "None" else [ast.unparse(returns)]

    @property
    def returns_arrays(self) -> bool:
        """Whether what it returns is an array, or has arrays in it."""
        return any(each in ARRAYS for each in self.results)

    @property
    def c_result(self) -> str:
        """C type of what it returns."""
        if not self.results:
            return "void"
        if len(self.results) == 1:
            return self._c_type(self.results[0])
        if self.returns_arrays:
            return "object"
        return f"({', '.join(self._c_type(each) for each in self.results)})"


class Program:
    """All kernels, and how their modules name them and their constants."""

    def __init__(self, packages: tuple[Path, ...] = PACKAGES) -> None:
        self.modules = {}
        for package in packages:
            for file in sorted(package.rglob("*.py")):
                dotted = ".".join(file.relative_to(package.parent).with_suffix("").parts)
                self.modules[dotted] = Module(dotted, file)
        self.kernels = [each for m in self.modules.values() for each in m.kernels.values()]
        self._find_written()

    def kernel(self, module: Module, name: str) -> Kernel | None:
        """Return the kernel that a module means by a name."""
        if name in module.kernels:
            return module.kernels[name]
        where, original = module.imports.get(name, ("", ""))
        return self.kernel(self.modules[where], original) if where in self.modules else None

    def constant(self, module: Module, name: str) -> ast.expr | None:
        """Return the value that a module gives a name, as an expression without names."""
        if name in module.constants:
            value: ast.expr = _Constants(self, module).visit(deepcopy(module.constants[name]))
            return value
        where, original = module.imports.get(name, ("", ""))
        return self.constant(self.modules[where], original) if where in self.modules else None

    def _find_written(self) -> None:
        """Find the arrays that each kernel writes, and which kernels make new ones."""
        before = -1
        while before != (before := sum(len(each.written) for each in self.kernels)):
            for each in self.kernels:
                _Writes(self, each).visit(each.node)

    def source(self) -> str:
        """Return the Cython module."""
        parts = [
            ALLOCATORS.format(type=type_, name=_new(type_), code=code)
            for type_, code in CODES.items()
        ]
        parts += [_c_function(self, each) for each in self.kernels]
        parts += [_entry(each) for each in self.kernels]
        return "\n".join([HEAD, MEMORY, _large_integers("".join(parts)), *parts])


def _large_integers(text: str) -> str:
    """Declare the large integers of a module as variables.

    Cython takes large numbers for Python's integers. If the C compiler knew which one is the
    largest, it would drop it from searches for a minimum, and could not do them in vectors.
    """
    names = sorted(set(re.findall(r"\binteger_(?:minus_)?\d+", text)))
    values = [each.removeprefix("integer_").replace("minus_", "-") for each in names]
    return "".join(
        f"cdef long long {name} = long_integer({int(value) + 1}) - 1\n"  # C cannot write -2**63
        if int(value) < 0
        else f"cdef long long {name} = {value}\n"
        for name, value in zip(names, values, strict=True)
    )


class _Constants(ast.NodeTransformer):
    """Replaces names in the value of a constant by their values."""

    def __init__(self, program: Program, module: Module) -> None:
        self.program, self.module = program, module

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.program.constant(self.module, node.id) or node


class _Writes(ast.NodeVisitor):
    """Notes the parameters that a kernel writes, itself or by another kernel."""

    def __init__(self, program: Program, kernel: Kernel) -> None:
        self.program, self.kernel = program, kernel

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Store):
            self._note(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        other = self.program.kernel(self.kernel.module, called)
        if other is not None:
            self.kernel.makes_arrays |= other.returns_arrays
            for argument, parameter in zip(node.args, other.parameters, strict=True):
                for name in parameter.types:
                    if name in other.written:
                        self._note(argument, name.removeprefix(parameter.name))
        elif called in ALLOCATED:
            self.kernel.makes_arrays = True
        self.generic_visit(node)

    def _note(self, node: ast.expr, suffix: str = "") -> None:
        while isinstance(node, ast.Subscript):
            node = node.value
        name = ast.unparse(node).replace(".", "__") + suffix
        if name in self.kernel.flat:
            self.kernel.written.add(name)


class _Body(ast.NodeTransformer):
    """Writes the body of a kernel as Cython."""

    def __init__(self, program: Program, kernel: Kernel) -> None:
        self.program, self.kernel = program, kernel
        self.types = _Types(program, kernel)
        self.local = dict(self.types.local)
        self.loops = 0

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Store) or node.id in self.local or node.id in self.kernel.flat:
            return node
        value = self.program.constant(self.kernel.module, node.id)
        return node if value is None else _literal(value)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        text = ast.unparse(node)
        if text == "np.inf":
            return ast.Name("INFINITE")
        if text.replace(".", "__") in self.kernel.flat:
            return ast.Name(text.replace(".", "__"))
        if text == "np.e":
            return ast.Constant(2.718281828459045)
        self.generic_visit(node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        """Take the numbers of rows and columns one by one."""
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and ast.unparse(node.value).endswith(".shape"):
            shape = ast.unparse(node.value)
            parts = ", ".join(f"{shape}[{axis}]" for axis in range(len(target.elts)))
            return ast.Assign([target], _expression(parts))
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            raise KernelError(f"{self.kernel.symbol}: a declaration without a value")
        return self.visit_Assign(ast.Assign([node.target], node.value))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        called = ast.unparse(node.func)
        other = self.program.kernel(self.kernel.module, called)
        if other is not None:
            arguments: list[ast.expr] = []
            for argument, parameter in zip(node.args, other.parameters, strict=True):
                if parameter.fields:
                    name = ast.unparse(argument)
                    arguments += [ast.Name(f"{name}__{each}") for each in parameter.fields]
                else:
                    arguments.append(self.visit(argument))
            return ast.Call(ast.Name(f"c_{other.symbol}"), arguments, [])
        if called in ALLOCATED:
            return self._new(called, node)
        type_ = self.types.of(node)
        takes_double = called == "int" and self.types.of(node.args[0]) == "double"
        self.generic_visit(node)
        if called in {"min", "max"}:  # with functions of its own, the C compiler finds vectors
            of_two = ast.Name(f"{called}_{'double' if type_ == 'double' else 'integer'}")
            return reduce(lambda one, other: ast.Call(of_two, [one, other], []), node.args)
        if called == "int" and not takes_double:
            return ast.Call(ast.Name("long_integer"), node.args, [])
        if called in FUNCTIONS:
            return ast.Call(ast.Name(FUNCTIONS[called]), node.args, [])
        return node

    def _new(self, called: str, node: ast.Call) -> ast.expr:
        """Return the call of an allocator."""
        arguments = [self.visit(each) for each in node.args]
        shape = arguments[0].elts if isinstance(arguments[0], ast.Tuple) else arguments[:1]
        type_ = _dtype(called, node.args)
        name = f"{_new(type_)}_{len(shape)}"
        if called == "np.empty":
            return ast.Call(ast.Name(name), shape, [])
        value = {"np.zeros": ast.Constant(0), "np.ones": ast.Constant(1)}.get(called)
        return ast.Call(ast.Name(f"full_{name}"), [*shape, value or arguments[1]], [])

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        """Let Python's tuples hold NumPy's arrays."""
        self.generic_visit(node)
        if self.kernel.c_result == "object" and isinstance(node.value, ast.Tuple):
            parts = zip(node.value.elts, self.kernel.results, strict=True)
            node.value.elts = [_to_numpy(each, annotation) for each, annotation in parts]
        return node

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        """Let loops over the entries of an array count them."""
        if isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range":
            self.generic_visit(node)
            return [node]
        self.loops += 1
        array, place = f"array_{self.loops}", f"place_{self.loops}"
        self.local |= {array: self.types.of(node.iter), place: "long long"}
        named = ast.Assign([ast.Name(array)], self.visit(node.iter))
        entry = ast.Assign([node.target], _expression(f"{array}[{place}]"))
        body = [each for old in node.body for each in _statements(self.visit(old))]
        counted = ast.For(ast.Name(place), _expression(f"range(len({array}))"), [entry, *body], [])
        return [named, counted]


class _Types:
    """C types of a kernel's local variables, found from what is assigned to them."""

    def __init__(self, program: Program, kernel: Kernel) -> None:
        self.program, self.kernel = program, kernel
        self.known = {
            name: f"const {type_}" if "[" in type_ and name not in kernel.written else type_
            for name, type_ in kernel.flat.items()
        }
        before = None
        while before != (before := dict(self.known)):
            for node in ast.walk(kernel.node):
                self._learn(node)
        self.local = {n: t for n, t in self.known.items() if n not in kernel.flat}

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self._note(name, "double" if isinstance(op, ast.Div) else self.of(value))
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"))):
                self._note(name, "long long")
            case ast.For(target=ast.Name(id=name), iter=each):
                self._note(name, _element(self.of(each), 1))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self._note(name, self.of(value))
            case ast.Tuple(elts=targets), ast.Tuple(elts=values):
                for one, other in zip(targets, values, strict=True):
                    self._assign(one, other)
            case ast.Tuple(elts=targets), ast.Attribute(attr="shape"):
                for one in targets:
                    self._note(ast.unparse(one), "long long")
            case ast.Tuple(elts=targets), ast.Call(func=func):
                called = self.program.kernel(self.kernel.module, ast.unparse(func))
                if called is None:
                    raise KernelError(
                        f"{self.kernel.symbol}: cannot take {ast.unparse(value)} apart"
                    )
                for one, annotation in zip(targets, called.results, strict=True):
                    if isinstance(one, ast.Name):
                        self._note(one.id, SCALARS[annotation])

    def _note(self, name: str, type_: str) -> None:
        if type_ and name not in self.kernel.flat:
            self.known[name] = _wider(self.known.get(name, type_), type_)

    def of(self, node: ast.expr) -> str:  # noqa: C901 - one rule for each kind of expression
        """Return the C type of an expression; nothing if it is not known yet."""
        match node:
            case ast.Name(id=name):
                return self.known.get(name) or self._of_constant(name)
            case ast.Constant(value=value):
                return SCALARS[type(value).__name__]
            case ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return "bint"
            case ast.BoolOp(values=values):
                return _widest(map(self.of, values))
            case ast.UnaryOp(operand=operand):
                return _wider(self.of(operand), "long long") if self.of(operand) else ""
            case ast.BinOp(op=ast.Div()):
                return "double"
            case ast.BinOp(left=left, right=right):
                return _widest([self.of(left), self.of(right), "long long"])
            case ast.IfExp(body=body, orelse=orelse):
                return _widest([self.of(body), self.of(orelse)])
            case ast.Subscript(value=ast.Attribute(attr="shape")):
                return "long long"
            case ast.Subscript(value=value, slice=ast.Slice()):
                return self.of(value)
            case ast.Subscript(value=value, slice=index):
                indices = len(index.elts) if isinstance(index, ast.Tuple) else 1
                return _element(self.of(value), indices)
            case ast.Attribute():
                text = ast.unparse(node)
                return "double" if text.startswith("np.") else self.known[text.replace(".", "__")]
            case ast.Call(func=func, args=arguments):
                return self._of_call(ast.unparse(func), arguments)
        raise KernelError(f"{self.kernel.symbol}: cannot translate {ast.unparse(node)}")

    def _of_constant(self, name: str) -> str:
        value = self.program.constant(self.kernel.module, name)
        return self.of(value) if value is not None else ""

    def _of_call(self, called: str, arguments: list[ast.expr]) -> str:
        if called in {"len", "int"}:
            return "long long"
        if called in {"min", "max", "abs"}:
            return _widest(map(self.of, arguments))
        if called == "bool" or called == "np.isnan":
            return "bint"
        if called in ALLOCATED:
            shape = arguments[0]
            dimensions = len(shape.elts) if isinstance(shape, ast.Tuple) else 1
            return f"{_dtype(called, arguments)}[{':, ' * (dimensions - 1)}::1]"
        kernel = self.program.kernel(self.kernel.module, called)
        return "double" if kernel is None else kernel.c_result


def _element(array: str, indices: int) -> str:
    """Return the type of an array's entry, or of its row, at so many indices."""
    if not array:
        return ""
    element, _, axes = array.partition("[")
    left = axes.count(":, ") + 1 - indices
    if left:
        return f"{element}[{':, ' * (left - 1)}::1]"
    kinds = {"double": "double", "unsigned char": "bint"}
    return kinds.get(element.removeprefix("const "), "long long")


def _wider(one: str, other: str) -> str:
    return _widest([one, other])


def _widest(types: Iterable[str]) -> str:
    """Return the type that holds values of all types; nothing if one is not known yet."""
    distinct = set(types)
    if "" in distinct:
        return ""
    for type_ in ("double", "long long", "bint"):
        if type_ in distinct and not any("[" in each for each in distinct):
            return type_
    if len(distinct) > 1:
        raise KernelError(f"one variable of several types: {', '.join(sorted(distinct))}")
    return distinct.pop()


def _dtype(called: str, arguments: list[ast.expr]) -> str:
    named = "".join(ast.unparse(each) for each in arguments[1 + (called == "np.full") :])
    return DTYPES[named or "np.float64"]


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _statements(result: ast.stmt | list[ast.stmt]) -> list[ast.stmt]:
    return result if isinstance(result, list) else [result]


def _literal(expression: ast.expr) -> ast.expr:
    """Return a constant's value as one literal that C has, too."""
    value = eval(ast.unparse(expression), {"np": _Numbers})  # noqa: S307 - our own source
    if isinstance(value, float) and value in {float("inf"), float("-inf")}:
        return _expression("INFINITE" if value > 0 else "(-INFINITE)")
    if isinstance(value, int) and abs(value) >= 2**31:  # a variable, see `_large_integers`
        return ast.Name(f"integer_{value}".replace("-", "minus_"))
    return _expression(repr(value))


class _Numbers:
    inf = float("inf")


def _new(type_: str) -> str:
    return f"new_{type_.replace(' ', '_')}"


def _signature(kernel: Kernel) -> str:
    parameters = [
        f"{'const ' if '[' in type_ and name not in kernel.written else ''}{type_} {name}"
        for name, type_ in kernel.flat.items()
    ]
    end = "" if kernel.c_result == "object" else "noexcept nogil"
    return f"{kernel.c_result} c_{kernel.symbol}({', '.join(parameters)}) {end}"


def _c_function(program: Program, kernel: Kernel) -> str:
    node = deepcopy(kernel.node)
    body = node.body[1:] if ast.get_docstring(node) else node.body
    writer = _Body(program, kernel)
    lines = [each for old in body for each in _statements(writer.visit(old))]
    text = ast.unparse(ast.fix_missing_locations(ast.Module(lines, [])))
    declared = [f"cdef {type_} {name}" for name, type_ in writer.local.items()]
    if kernel.makes_arrays and not kernel.returns_arrays:
        declared.append(MARK)
    return "\n    ".join([f"\ncdef {_signature(kernel)}:", *declared, *text.split("\n")])


def _entry(kernel: Kernel) -> str:
    """Return the function that Python calls."""
    arguments = []
    for each in kernel.parameters:
        arguments += [f"{each.name}.{field}" for field in each.fields] or [each.name]
    call = f"c_{kernel.symbol}({', '.join(arguments)})"
    body = [f"return {call}"]
    if kernel.returns_arrays:
        body = [MARK, *body]
        if kernel.c_result != "object":
            body[-1] = "return " + ast.unparse(_to_numpy(_expression(call), kernel.results[0]))
    names = ", ".join(each.name for each in kernel.parameters)
    return "\n    ".join([f"\ndef {kernel.symbol}({names}):", *body])


def _to_numpy(value: ast.expr, annotation: str) -> ast.expr:
    """Return the expression of what Python gets for a value: a copy if it is an array."""
    if annotation not in ARRAYS:
        return value
    element, _, axes = ARRAYS[annotation].partition("[")
    return ast.Call(ast.Name(f"numpy_{_new(element)}_{axes.count(':, ') + 1}"), [value], [])


def _clone(file: Path) -> None:
    """Have some functions compiled for newer processors, too; the loader takes the best one.

    All give the same to the bit: nothing is fused, and sums keep their order.
    """
    cloned = rf"^static (?=.*__pyx_f_\w*_c_(?:{'|'.join(CLONED)})\()"
    text = re.sub(cloned, "CLONED static ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    file.write_text(text, encoding="utf-8")


def compile_into(folder: Path) -> Path:
    """Compile all kernels; return the extension, a file in ``folder``.

    Raises:
        Exception: Cython or the C compiler refused; they have printed why.
    """
    from Cython.Build import cythonize
    from Cython.Compiler import Options
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    Options.buffer_max_dims = 4  # more than any kernel has: views are passed by value
    if not any(map(shutil.which, ("cc", "gcc", "clang"))) and importlib.util.find_spec("ziglang"):
        os.environ.setdefault("CC", f"{sys.executable} -m ziglang cc")
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "_kernels.pyx")
        source.write_text(Program().source(), encoding="utf-8")
        extension = Extension(MODULE, [str(source)], extra_compile_args=C_OPTIONS)
        hints = {"show_performance_hints": False}
        modules = cythonize([extension], quiet=True, compiler_directives=hints)
        _clone(source.with_suffix(".c"))
        command = build_ext(Distribution({"ext_modules": modules}))
        command.build_lib = command.build_temp = scratch
        command.ensure_finalized()
        command.run()
        made = Path(command.get_ext_fullpath(MODULE))
        return Path(shutil.move(made, folder / made.name))


if __name__ == "__main__":
    if sys.argv[1:] == ["--source"]:
        print(Program().source())
    elif sys.argv[1:] == ["--say-if-missing"]:
        if not (BESIDE_SOURCE / f"_kernels{sysconfig.get_config_var('EXT_SUFFIX')}").exists():
            print(MISSING)
    else:
        print(compile_into(BESIDE_SOURCE).relative_to(ROOT))
