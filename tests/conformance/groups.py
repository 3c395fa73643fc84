"""Several cases as one: compiling them together takes less time than one after the other."""

from typing import NamedTuple

from mtf_models.testing.check import finite_differences
from mtf_models.testing.outcome import as_list, cotangent

SIZE = 8


class Group(NamedTuple):
    """Cases whose inputs, results and gradients stand side by side."""

    name: str
    cases: list

    @property
    def inputs(self):
        return {
            f"{i}_{name}": value
            for i, case in enumerate(self.cases)
            for name, value in case.inputs.items()
        }

    @property
    def differentiate(self):
        return [f"{i}_{name}" for i, case in enumerate(self.cases) for name in by(case)]

    def function(self, *xs):
        return self._apply([case.function for case in self.cases], xs)

    def reference(self, *xs):
        return self._apply([case.reference for case in self.cases], xs)

    def gradients(self, _, *xs):
        """By differences of each reference alone."""
        found = {}
        for i, (case, own) in enumerate(zip(self.cases, self._own(xs), strict=True)):
            values = as_list(case.reference(*own))
            dy = [cotangent(value.shape) for value in values if value.dtype.kind == "f"]
            slopes = finite_differences(case.reference, list(case.inputs), by(case))
            found.update({f"{i}_{name}": g for name, g in slopes(dy, *own).items()})
        return found

    def _apply(self, functions, xs):
        return [
            y
            for function, own in zip(functions, self._own(xs), strict=True)
            for y in as_list(function(*own))
        ]

    def _own(self, xs):
        left = list(xs)
        return [[left.pop(0) for _ in case.inputs] for case in self.cases]


def by(case):
    """The inputs of a case that it is differentiated by."""
    floating = [n for n, (_, array) in case.inputs.items() if array.dtype.kind == "f"]
    return case.options.get("differentiate", floating)


def grouped(cases):
    """Groups of the cases that need no options of their own, and the others one by one."""
    plain = [
        case
        for case in cases
        if not case.is_costly and set(case.options) <= {"placements", "differentiate"}
    ]
    others = [case for case in cases if case not in plain]
    chunks = [plain[i : i + SIZE] for i in range(0, len(plain), SIZE)]
    return [Group("+".join(case.name for case in chunk), chunk) for chunk in chunks], others
