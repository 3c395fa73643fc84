"""Optimizers with learning rates of their own for some variables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError
from mtf_models.optimize.adafactor import AdafactorOptimizer
from mtf_models.optimize.adam import AdamWeightDecayOptimizer
from mtf_models.optimize.optimizer import GIN_MODULE, Optimizer, patterns, texts
from mtf_models.optimize.schedules import Schedule, compute


class _SeveralRates(Optimizer):
    """Finds the rate of each variable; what is done at it is the other base's."""

    def __init__(
        self,
        variable_search: str | Sequence[str] | None = None,
        alt_lr_schedules: Sequence[Schedule | None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._searched = patterns("variable_search", texts(variable_search))
        self._schedules = tuple(alt_lr_schedules or ())
        if len(self._searched) != len(self._schedules):
            raise ConfigError(
                f"{type(self).__name__} has {len(self._searched)} regular expressions in "
                f"variable_search and {len(self._schedules)} schedules in alt_lr_schedules: give "
                "one schedule, or one list of schedules to multiply, for each."
            )

    @property
    def number_of_rates(self) -> int:
        """That of the run, and one for each expression."""
        return 1 + len(self._schedules)

    def rates(self, scheduled: float | None, step: int, total_train_steps: int) -> list[float]:
        """That of the run, then those of `alt_lr_schedules`; None among these is that of the run.

        See `Optimizer.rates`.
        """
        own = self.rate(scheduled, step)
        found = (compute(schedule, step, total_train_steps) for schedule in self._schedules)
        return [own, *(own if rate is None else rate for rate in found)]

    def rate_of(self, name: str) -> int:
        """The number of the last expression that is found in a name, from 1; else 0."""
        return max(self._found_in(name), default=0)

    def check_names(self, names: Collection[str]) -> None:
        """Refuses expressions by which no variable has its rate; see `Optimizer.check_names`."""
        matches = [self._found_in(name) for name in names]
        found, decisive = set().union(*matches), {max(m, default=0) for m in matches}
        faults = [
            f"{pattern.pattern!r} is found in "
            + ("names in which a later one is found too" if i in found else "no name")
            for i, pattern in enumerate(self._searched, start=1)
            if i not in decisive
        ]
        if faults:
            raise ConfigError(
                f"{type(self).__name__}.variable_search has expressions by which no variable that "
                f"is trained has its learning rate: {'; '.join(faults)}. Mend or drop them, each "
                "with its schedule in alt_lr_schedules; of several in a name the last one counts."
            )

    def _found_in(self, name: str) -> set[int]:
        """The numbers of the expressions that are found in a name, from 1."""
        return {i for i, pattern in enumerate(self._searched, start=1) if pattern.search(name)}


@configurable(module=GIN_MODULE)
class AdafactorWithMultiLRSchedule(_SeveralRates, AdafactorOptimizer):
    """Adafactor, where variables whose names match have schedules of their own.

    In the original the last expression alone had an effect.

    Args:
        variable_search: regular expressions, searched for in names; of several that are found in a
            name the last one counts.
        alt_lr_schedules: for each of them a schedule, or a list of schedules to multiply, as of
            `run.learning_rate_schedule`; None for the run's.
        **options: of `AdafactorOptimizer`, whose bindings count too.

    Raises:
        ConfigError: if an expression cannot be read or sets the rate of no variable, or there are
            not as many schedules.
    """


@configurable(module=GIN_MODULE)
class AdamWithMultiLRSchedule(_SeveralRates, AdamWeightDecayOptimizer):
    """Adam without bias correction, where variables whose names match have their own schedules.

    Args:
        variable_search: see `AdafactorWithMultiLRSchedule`.
        alt_lr_schedules: see there.
        **options: of `AdamWeightDecayOptimizer`, whose bindings count too.

    Raises:
        ConfigError: if an expression cannot be read or sets the rate of no variable, or there are
            not as many schedules.
    """
